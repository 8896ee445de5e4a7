package dev.keywork.client;

import dev.keywork.errors.KeyworkException;
import dev.keywork.internal.Wire;
import dev.keywork.internal.v1.SubmitRequest;
import dev.keywork.internal.v1.SubmitResponse;
import dev.keywork.job.Job;
import io.grpc.Status;
import java.util.UUID;

/**
 * A request that is ready to be sent, as often as it takes.
 *
 * @param request with its request id
 * @param ownId this client made the id: a duplicate can only be an earlier try of the same call, whose answer was lost
 */
record Offer(SubmitRequest request, boolean ownId) {
  /**
   * Makes it.
   *
   * @throws KeyworkException it is not worth sending
   */
  static Offer of(Submit submit) {
    SubmitRequest request = submit.checked();
    if (!request.getRequestId().isEmpty()) {
      return new Offer(request, false);
    }
    return new Offer(request.toBuilder().setRequestId(UUID.randomUUID().toString()).build(), true);
  }

  /** Reads an answer. */
  SubmitOutcome read(SubmitResponse response) {
    return read(response, ownId);
  }

  static SubmitOutcome read(SubmitResponse response, boolean ownId) {
    Job job = Wire.job(response.getJob());
    return switch (response.getOutcome()) {
      case SUBMIT_OUTCOME_CREATED -> new SubmitOutcome.Created(job);
      case SUBMIT_OUTCOME_DUPLICATE -> ownId ? new SubmitOutcome.Created(job) : new SubmitOutcome.Duplicate(job);
      case SUBMIT_OUTCOME_ALREADY_OUTSTANDING -> new SubmitOutcome.AlreadyOutstanding(job);
      case SUBMIT_OUTCOME_RERUN_SCHEDULED -> new SubmitOutcome.RerunScheduled(job);
      case SUBMIT_OUTCOME_REPLACED -> new SubmitOutcome.Replaced(job);
      case SUBMIT_OUTCOME_UNSPECIFIED, UNRECOGNIZED -> throw unknown();
    };
  }

  /** Reads the result of one item of many. */
  SubmitResult read(dev.keywork.internal.v1.SubmitResult result) {
    return read(result, ownId);
  }

  static SubmitResult read(dev.keywork.internal.v1.SubmitResult result, boolean ownId) {
    if (result.hasError()) {
      return new SubmitResult.Failed(Wire.error(result.getError()));
    }
    try {
      return new SubmitResult.Answered(read(result.getResponse(), ownId));
    } catch (KeyworkException unknown) {
      return new SubmitResult.Failed(unknown);
    }
  }

  private static KeyworkException unknown() {
    return KeyworkException.builder(Status.Code.INTERNAL)
        .description("the server answered with an outcome that this version does not know")
        .build();
  }
}
