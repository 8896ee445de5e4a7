/** What the SDK's own packages share. Not for use from outside: it may change with any version. */
package dev.keywork.internal;
