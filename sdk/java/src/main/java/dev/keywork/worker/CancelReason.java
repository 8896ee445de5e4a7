package dev.keywork.worker;

/** Why a handler is to stop. */
public enum CancelReason {
  /** The lease is lost, or can no longer be known to hold. What the handler returns is dropped. */
  LEASE_LOST,
  /** The job was cancelled, or its queue purged or deleted. What the handler returns is dropped. */
  JOB_CANCELLED,
  /**
   * The worker is stopping and its grace is over. What the handler returns counts; an exception gives the job back
   * without costing an attempt.
   */
  WORKER_SHUTDOWN
}
