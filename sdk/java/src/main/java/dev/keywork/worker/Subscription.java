package dev.keywork.worker;

/**
 * A queue that a worker serves.
 *
 * @param queue its name
 * @param weight its share of the worker against its other queues: 1 to 100
 */
public record Subscription(String queue, int weight) {
  /**
   * A queue with the weight 1.
   *
   * @param queue its name
   */
  public Subscription(String queue) {
    this(queue, 1);
  }
}
