package dev.keywork.worker;

/**
 * What a worker has done since it was made.
 *
 * @param started handlers started
 * @param settled leases whose settlement was confirmed
 * @param leasesLost leases lost before they were settled
 * @param droppedResults results of handlers that came after their lease was lost, and were dropped
 * @param sessions sessions that were opened
 */
public record WorkerCounts(long started, long settled, long leasesLost, long droppedResults, long sessions) {}
