/** Jobs as a client and a handler see them: plain data; nothing here talks to a server. */
package dev.keywork.job;
