package dev.keywork.testing;

import dev.keywork.errors.KeyworkException;
import dev.keywork.errors.Reasons;
import dev.keywork.internal.Wire;
import dev.keywork.internal.v1.Job;
import dev.keywork.internal.v1.OnConflict;
import dev.keywork.internal.v1.SubmitOutcome;
import dev.keywork.internal.v1.SubmitRequest;
import dev.keywork.internal.v1.SubmitResponse;
import dev.keywork.internal.v1.SubmitResult;
import io.grpc.Status;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;

/** Submits to the fake server: alone, in batches, on a stream. */
final class FakeSubmits {
  private static final int KEY_BYTES = 512;

  private FakeSubmits() {}

  /** The stream, or the call, breaks. */
  static final class BrokenException extends RuntimeException {
    private static final long serialVersionUID = 1L;
  }

  /** Offers one job, with the fault that the script has for it. */
  static SubmitResponse submit(State state, SubmitRequest request) {
    state.notes.submits.add(request.getRequestId());
    SubmitFault fault = state.script.submitFaults.poll();
    if (fault == null) {
      return submitTruly(state, request);
    }
    if (fault instanceof SubmitFault.Unavailable) {
      throw Answers.outage(true);
    }
    if (fault instanceof SubmitFault.Refused refused) {
      throw refused.error();
    }
    submitTruly(state, request);
    throw fault instanceof SubmitFault.Broken ? new BrokenException() : Answers.outage(false);
  }

  /** The same as one item of many. */
  static SubmitResult item(State state, SubmitRequest request) {
    try {
      return SubmitResult.newBuilder().setResponse(submit(state, request)).build();
    } catch (KeyworkException error) {
      return SubmitResult.newBuilder().setError(Answers.item(error)).build();
    }
  }

  private static SubmitResponse submitTruly(State state, SubmitRequest request) {
    check(request);
    FakeQueue queue = state.queue(request.getQueue());
    Job before = queue.accepted.get(request.getRequestId());
    if (before != null) {
      return response(SubmitOutcome.SUBMIT_OUTCOME_DUPLICATE, before);
    }
    FakeQueue.Entry busy = queue.jobs.get(request.getKey());
    if (busy == null) {
      return response(SubmitOutcome.SUBMIT_OUTCOME_CREATED, state.accept(request, delay(request)));
    }
    if (request.getOnConflict() == OnConflict.ON_CONFLICT_FAIL) {
      throw Answers.refusal(Status.Code.ALREADY_EXISTS, Reasons.KEY_BUSY, "the key is busy");
    }
    return response(SubmitOutcome.SUBMIT_OUTCOME_ALREADY_OUTSTANDING, busy.job.build());
  }

  private static void check(SubmitRequest request) {
    if (request.getQueue().isEmpty()) {
      throw Answers.badField("queue", "must not be empty");
    }
    int length = request.getKey().getBytes(StandardCharsets.UTF_8).length;
    if (length == 0 || length > KEY_BYTES) {
      throw Answers.badField("key", "must have 1 to 512 bytes");
    }
    OnConflict onConflict = request.getOnConflict();
    if (onConflict == OnConflict.ON_CONFLICT_RERUN || onConflict == OnConflict.ON_CONFLICT_REPLACE) {
      throw Answers.notServed();
    }
  }

  private static Duration delay(SubmitRequest request) {
    Duration delay = switch (request.getStartCase()) {
      case DELAY -> Wire.duration(request.getDelay());
      case START_AT -> Duration.between(Instant.now(), Wire.time(true, request.getStartAt()));
      case START_NOT_SET -> Duration.ZERO;
    };
    return delay.isNegative() ? Duration.ZERO : delay;
  }

  /** The outcome, naming the job without its payload. */
  private static SubmitResponse response(SubmitOutcome outcome, Job job) {
    return SubmitResponse.newBuilder().setOutcome(outcome).setJob(job.toBuilder().clearPayload()).build();
  }
}
