package dev.keywork.worker;

import com.google.protobuf.ByteString;
import dev.keywork.internal.LeaseContext;
import dev.keywork.job.Job;
import dev.keywork.job.Outcome;

/** One lease, from its delivery until nothing of it is left here. Only the worker's loop touches it. */
final class Held {
  enum Phase {
    /** Delivered; no slot was free yet. */
    WAITING,
    /** Its handler runs. */
    RUNNING,
    /** Its handler has ended; the server has not confirmed the settlement. */
    SETTLING,
    /** The lease is lost and the handler still runs, in its slot. */
    LOST,
    /** Nothing of it is left. */
    GONE
  }

  final ByteString token;
  final int queue;
  final Job job;
  final LeaseContext context;
  Phase phase = Phase.WAITING;

  /** When its handler must have been told to stop; it only moves on an answer of the server. */
  long fence;

  /** How it is being settled. */
  Outcome outcome;

  /** When it was lost. */
  long lostAt;

  /** Its handler's going on was told. */
  boolean reported;

  Held(ByteString token, int queue, Job job, long fence) {
    this.token = token;
    this.queue = queue;
    this.job = job;
    this.fence = fence;
    this.context = new LeaseContext(fence);
  }
}
