package dev.keywork.client;

/**
 * What is in a queue.
 *
 * @param outstanding outstanding jobs
 * @param ready of these, never delivered yet
 * @param inFlight of these, leased, scheduled or waiting to retry
 * @param dead dead letters
 * @param sessions sessions that serve it, at the server that answers
 */
public record QueueStats(long outstanding, long ready, long inFlight, long dead, int sessions) {
  static QueueStats read(dev.keywork.internal.v1.QueueStats wire) {
    return new QueueStats(
        wire.getOutstanding(), wire.getReady(), wire.getInFlight(), wire.getDead(), wire.getSessions());
  }
}
