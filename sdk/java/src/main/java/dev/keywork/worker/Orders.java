package dev.keywork.worker;

import java.util.concurrent.atomic.AtomicReference;

/** What was asked of a worker; it only grows. */
final class Orders {
  enum Order {
    WORK,
    DRAIN,
    RELEASE_ALL
  }

  private final AtomicReference<Order> given = new AtomicReference<>(Order.WORK);

  /** Gives an order, unless a stronger one was given. */
  void give(Order order) {
    given.updateAndGet(current -> order.compareTo(current) > 0 ? order : current);
  }

  Order given() {
    return given.get();
  }
}
