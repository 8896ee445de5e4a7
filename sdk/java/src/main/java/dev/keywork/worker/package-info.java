/**
 * Running jobs: one session with a server, a handler for each job, and the fences around them.
 *
 * <p>A {@link dev.keywork.worker.Worker} keeps its leases alive from a thread of its own, cancels a handler before its
 * lease can have been given to somebody else, reconnects by itself, and stops without losing an attempt.
 */
package dev.keywork.worker;
