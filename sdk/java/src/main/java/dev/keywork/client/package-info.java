/** Offering jobs, looking at them, and looking after queues. */
package dev.keywork.client;
