package dev.keywork.testing;

import com.google.protobuf.ByteString;
import dev.keywork.errors.Reasons;
import dev.keywork.internal.v1.AckRequest;
import dev.keywork.internal.v1.AckResponse;
import dev.keywork.internal.v1.CancelJobRequest;
import dev.keywork.internal.v1.CancelJobResponse;
import dev.keywork.internal.v1.DeadJob;
import dev.keywork.internal.v1.DeleteDeadJobsRequest;
import dev.keywork.internal.v1.DeleteDeadJobsResponse;
import dev.keywork.internal.v1.Delivery;
import dev.keywork.internal.v1.GetJobRequest;
import dev.keywork.internal.v1.GetJobResponse;
import dev.keywork.internal.v1.HeartbeatRequest;
import dev.keywork.internal.v1.HeartbeatResponse;
import dev.keywork.internal.v1.HeartbeatResult;
import dev.keywork.internal.v1.Job;
import dev.keywork.internal.v1.LeaseRequest;
import dev.keywork.internal.v1.LeaseResponse;
import dev.keywork.internal.v1.ListDeadJobsRequest;
import dev.keywork.internal.v1.ListDeadJobsResponse;
import dev.keywork.internal.v1.ListJobsRequest;
import dev.keywork.internal.v1.ListJobsResponse;
import dev.keywork.internal.v1.LostReason;
import dev.keywork.internal.v1.PullRequest;
import dev.keywork.internal.v1.PullResponse;
import dev.keywork.internal.v1.RedriveDeadJobsRequest;
import dev.keywork.internal.v1.RedriveDeadJobsResponse;
import dev.keywork.internal.v1.RedriveResult;
import dev.keywork.internal.v1.SubmitBatchRequest;
import dev.keywork.internal.v1.SubmitBatchResponse;
import dev.keywork.internal.v1.SubmitOffer;
import dev.keywork.internal.v1.SubmitOfferResult;
import dev.keywork.internal.v1.SubmitRequest;
import dev.keywork.internal.v1.SubmitResponse;
import dev.keywork.internal.v1.SubmitResult;
import dev.keywork.internal.v1.SubmitStreamRequest;
import dev.keywork.internal.v1.SubmitStreamResponse;
import dev.keywork.internal.v1.WatchJobsRequest;
import dev.keywork.internal.v1.WatchJobsResponse;
import dev.keywork.internal.v1.WorkQueueGrpc;
import io.grpc.Status;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.util.ArrayList;
import java.util.List;

/** The service {@code WorkQueue} of the fake server. */
final class FakeWorkQueue extends WorkQueueGrpc.WorkQueueImplBase {
  private final FakeServer server;

  FakeWorkQueue(FakeServer server) {
    this.server = server;
  }

  @Override
  public void submit(SubmitRequest request, StreamObserver<SubmitResponse> to) {
    server.answer(to, state -> FakeSubmits.submit(state, request));
  }

  @Override
  public void submitBatch(SubmitBatchRequest request, StreamObserver<SubmitBatchResponse> to) {
    server.answer(to, state -> {
      SubmitBatchResponse.Builder answer = SubmitBatchResponse.newBuilder();
      request.getItemsList().forEach(item -> answer.addResults(FakeSubmits.item(state, item)));
      return answer.build();
    });
  }

  @Override
  public StreamObserver<SubmitStreamRequest> submitStream(StreamObserver<SubmitStreamResponse> to) {
    return new StreamObserver<>() {
      private boolean broken;

      @Override
      public void onNext(SubmitStreamRequest message) {
        if (!broken) {
          server.change(state -> broken = !offers(state, message.getOffersList(), to));
        }
      }

      @Override
      public void onError(Throwable error) {
        broken = true;
      }

      @Override
      public void onCompleted() {
        if (!broken) {
          to.onCompleted();
        }
      }
    };
  }

  /** Answers the offers up to the first that breaks the stream; false: one did. */
  private static boolean offers(State state, List<SubmitOffer> offers, StreamObserver<SubmitStreamResponse> to) {
    SubmitStreamResponse.Builder answer = SubmitStreamResponse.newBuilder();
    boolean whole = true;
    try {
      for (SubmitOffer offer : offers) {
        SubmitResult result = FakeSubmits.item(state, offer.getSubmit());
        answer.addResults(
            SubmitOfferResult.newBuilder().setCorrelationId(offer.getCorrelationId()).setResult(result));
      }
    } catch (FakeSubmits.BrokenException scripted) {
      whole = false;
    }
    to.onNext(answer.build());
    if (!whole) {
      to.onCompleted();
    }
    return whole;
  }

  @Override
  public StreamObserver<LeaseRequest> lease(StreamObserver<LeaseResponse> to) {
    return new FakeSessionStream(server, (ServerCallStreamObserver<LeaseResponse>) to);
  }

  /** Does not wait: what is not there now is not leased. */
  @Override
  public void pull(PullRequest request, StreamObserver<PullResponse> to) {
    int most = Math.max(1, request.getMaxJobs());
    server.answer(to, state -> {
      List<Delivery> deliveries = state.lease(List.of(request.getQueue()), most, null, request.getWorkerId());
      return PullResponse.newBuilder().addAllDeliveries(deliveries).build();
    });
  }

  @Override
  public void heartbeat(HeartbeatRequest request, StreamObserver<HeartbeatResponse> to) {
    server.answer(to, state -> {
      HeartbeatResponse.Builder answer = HeartbeatResponse.newBuilder();
      request.getLeaseTokensList().forEach(token -> answer.addResults(extended(state, token)));
      return answer.build();
    });
  }

  private static HeartbeatResult extended(State state, ByteString token) {
    HeartbeatResult.Builder result = HeartbeatResult.newBuilder().setLeaseToken(token);
    if (state.extend(token)) {
      result.setTimeLeft(Answers.left(state.leases.get(token).deadline));
    } else {
      result.setLost(LostReason.LOST_REASON_EXPIRED);
    }
    return result.build();
  }

  @Override
  public void ack(AckRequest request, StreamObserver<AckResponse> to) {
    server.answer(to, state -> {
      AckResponse.Builder answer = AckResponse.newBuilder();
      request.getSettlementsList().forEach(one -> answer.addResults(FakeSettlements.settle(state, one)));
      return answer.build();
    });
  }

  @Override
  public void getJob(GetJobRequest request, StreamObserver<GetJobResponse> to) {
    server.answer(to, state -> {
      FakeQueue.Entry entry = state.entry(request.getQueue(), request.getKey());
      if (entry == null) {
        throw Answers.refusal(Status.Code.NOT_FOUND, Reasons.JOB_NOT_FOUND, "the key has no outstanding job");
      }
      return GetJobResponse.newBuilder().setJob(entry.job.build()).build();
    });
  }

  @Override
  public void listJobs(ListJobsRequest request, StreamObserver<ListJobsResponse> to) {
    server.answer(to, state -> {
      throw Answers.notServed();
    });
  }

  @Override
  public void cancelJob(CancelJobRequest request, StreamObserver<CancelJobResponse> to) {
    server.answer(to, state -> {
      throw Answers.notServed();
    });
  }

  @Override
  public void watchJobs(WatchJobsRequest request, StreamObserver<WatchJobsResponse> to) {
    server.answer(to, state -> {
      throw Answers.notServed();
    });
  }

  @Override
  public void listDeadJobs(ListDeadJobsRequest request, StreamObserver<ListDeadJobsResponse> to) {
    server.answer(to, state -> {
      int size = request.getPageSize() == 0 ? 100 : request.getPageSize();
      // A token names the last letter of the page before, so that redriving that one loses no other.
      long after = request.getPageToken().isEmpty() ? -1 : Long.parseLong(request.getPageToken());
      List<DeadJob> rest = state.queue(request.getQueue()).dead.values().stream()
          .filter(dead -> dead.getDeadId() > after)
          .filter(dead -> request.getKey().isEmpty() || request.getKey().equals(dead.getJob().getKey()))
          .toList();
      List<DeadJob> page = rest.subList(0, Math.min(size, rest.size()));
      ListDeadJobsResponse.Builder answer = ListDeadJobsResponse.newBuilder().addAllJobs(page);
      if (page.size() < rest.size()) {
        answer.setNextPageToken(Long.toString(page.get(size - 1).getDeadId()));
      }
      return answer.build();
    });
  }

  @Override
  public void redriveDeadJobs(RedriveDeadJobsRequest request, StreamObserver<RedriveDeadJobsResponse> to) {
    server.answer(to, state -> {
      FakeQueue queue = state.queue(request.getQueue());
      List<Long> ids = new ArrayList<>(request.getDeadIdsList());
      if (ids.isEmpty()) {
        int most = request.getMaxJobs() == 0 ? 100 : request.getMaxJobs();
        queue.dead.keySet().stream().limit(most).forEach(ids::add);
      }
      RedriveDeadJobsResponse.Builder answer = RedriveDeadJobsResponse.newBuilder();
      ids.forEach(id -> answer.addResults(redriven(state, queue, id)));
      return answer.build();
    });
  }

  private static RedriveResult redriven(State state, FakeQueue queue, long id) {
    RedriveResult.Builder result = RedriveResult.newBuilder().setDeadId(id);
    DeadJob dead = queue.dead.get(id);
    if (dead == null) {
      return result
          .setResult(SubmitResult.newBuilder().setError(Answers.item(
              Answers.refusal(Status.Code.NOT_FOUND, Reasons.DEAD_JOB_NOT_FOUND, "there is no such dead letter"))))
          .build();
    }
    Job job = dead.getJob();
    SubmitRequest again = SubmitRequest.newBuilder()
        .setQueue(job.getQueue())
        .setKey(job.getKey())
        .setPayload(job.getPayload())
        .putAllAttributes(job.getAttributesMap())
        .setMaxAttempts(job.getMaxAttempts())
        .build();
    SubmitResult answer = FakeSubmits.item(state, again);
    if (answer.getResponse().getOutcome() == dev.keywork.internal.v1.SubmitOutcome.SUBMIT_OUTCOME_CREATED) {
      queue.dead.remove(id);
    }
    return result.setResult(answer).build();
  }

  @Override
  public void deleteDeadJobs(DeleteDeadJobsRequest request, StreamObserver<DeleteDeadJobsResponse> to) {
    server.answer(to, state -> {
      FakeQueue queue = state.queue(request.getQueue());
      int before = queue.dead.size();
      if (request.getAll()) {
        queue.dead.clear();
      } else {
        queue.dead.keySet().removeAll(request.getDeadIdsList());
      }
      return DeleteDeadJobsResponse.newBuilder().setDeleted(before - queue.dead.size()).build();
    });
  }
}
