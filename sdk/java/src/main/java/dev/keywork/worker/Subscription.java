package dev.keywork.worker;

import java.util.Objects;

/**
 * A queue that a worker serves.
 *
 * @param queue its name
 * @param weight its share of the worker against its other queues: 1 to 100
 */
public record Subscription(String queue, int weight) {
  /**
   * Checks that there is a name; {@code build()} checks the rest.
   *
   * @param queue its name
   * @param weight its share
   */
  public Subscription {
    Objects.requireNonNull(queue, "queue");
  }

  /**
   * A queue with the weight 1.
   *
   * @param queue its name
   */
  public Subscription(String queue) {
    this(queue, 1);
  }
}
