package dev.keywork.worker;

import dev.keywork.job.LostReason;
import dev.keywork.job.SettlementOutcome;
import java.time.Duration;
import java.util.Optional;

/** Something that a worker's owner may want to log, count or alarm on. */
public sealed interface WorkerEvent {
  /**
   * It is about to connect to a server.
   *
   * @param endpoint the server
   */
  record Connecting(String endpoint) implements WorkerEvent {}

  /** Its session is open: it is served. */
  record Ready() implements WorkerEvent {}

  /**
   * Its session broke; running handlers go on while their leases hold, and it reconnects.
   *
   * @param error why, for people
   */
  record Degraded(String error) implements WorkerEvent {}

  /** It takes no more jobs and finishes what runs. */
  record Draining() implements WorkerEvent {}

  /**
   * It has stopped.
   *
   * @param abandoned handlers that were still running and were left behind
   * @param unconfirmed results of handlers that no server has confirmed: their jobs run again when their leases are over,
   *     unless a server has taken the results all the same. Releases are not counted: those jobs are to run again
   */
  record Stopped(int abandoned, int unconfirmed) implements WorkerEvent {}

  /**
   * A lease was lost before its handler ended; what the handler returns will be dropped.
   *
   * @param queue the job's queue
   * @param key the job's key
   * @param fencingNumber the lease's fencing number
   * @param reason why; empty where the worker itself could no longer be sure of it
   */
  record LeaseLost(String queue, String key, long fencingNumber, Optional<LostReason> reason)
      implements WorkerEvent {}

  /**
   * The server has answered what a handler's end means for the lease.
   *
   * @param queue the job's queue
   * @param key the job's key
   * @param jobId the job's id
   * @param fencingNumber the lease's fencing number
   * @param outcome settled, already settled, or, where it came too late, lease lost
   */
  record Settled(String queue, String key, String jobId, long fencingNumber, SettlementOutcome outcome)
      implements WorkerEvent {}

  /**
   * A settlement was refused; the job is tried again instead.
   *
   * @param queue the job's queue
   * @param key the job's key
   * @param error why, for people
   */
  record SettlementRejected(String queue, String key, String error) implements WorkerEvent {}

  /**
   * A handler still runs although it was cancelled a while ago. It keeps its slot.
   *
   * @param queue the job's queue
   * @param key the job's key
   * @param cancelledFor since when it is cancelled
   */
  record HandlerIgnoresCancellation(String queue, String key, Duration cancelledFor) implements WorkerEvent {}

  /**
   * It ends with an error.
   *
   * @param error the error, as {@code run} throws it
   */
  record Failed(WorkerException error) implements WorkerEvent {}
}
