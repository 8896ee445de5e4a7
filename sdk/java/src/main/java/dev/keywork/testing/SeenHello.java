package dev.keywork.testing;

/**
 * A session that was asked for.
 *
 * @param workerId the worker's name
 * @param capacity the capacity that it began with
 * @param heldLeases how many leases it went on with
 * @param sessionTicket the newest ticket that the worker had
 */
public record SeenHello(String workerId, int capacity, int heldLeases, String sessionTicket) {}
