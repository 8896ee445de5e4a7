package dev.keywork.testing;

import dev.keywork.errors.Reasons;
import dev.keywork.internal.v1.CreateQueueRequest;
import dev.keywork.internal.v1.CreateQueueResponse;
import dev.keywork.internal.v1.DeleteQueueRequest;
import dev.keywork.internal.v1.DeleteQueueResponse;
import dev.keywork.internal.v1.GetQueueRequest;
import dev.keywork.internal.v1.GetQueueResponse;
import dev.keywork.internal.v1.ListQueuesRequest;
import dev.keywork.internal.v1.ListQueuesResponse;
import dev.keywork.internal.v1.LostReason;
import dev.keywork.internal.v1.PauseQueueRequest;
import dev.keywork.internal.v1.PauseQueueResponse;
import dev.keywork.internal.v1.PurgeQueueRequest;
import dev.keywork.internal.v1.PurgeQueueResponse;
import dev.keywork.internal.v1.Queue;
import dev.keywork.internal.v1.QueueAdminGrpc;
import dev.keywork.internal.v1.QueueConfig;
import dev.keywork.internal.v1.QueueStats;
import dev.keywork.internal.v1.ResumeQueueRequest;
import dev.keywork.internal.v1.ResumeQueueResponse;
import dev.keywork.internal.v1.UpdateQueueRequest;
import dev.keywork.internal.v1.UpdateQueueResponse;
import com.google.protobuf.Descriptors.FieldDescriptor;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.util.List;

/** The service {@code QueueAdmin} of the fake server. */
final class FakeQueueAdmin extends QueueAdminGrpc.QueueAdminImplBase {
  private final FakeServer server;

  FakeQueueAdmin(FakeServer server) {
    this.server = server;
  }

  @Override
  public void createQueue(CreateQueueRequest request, StreamObserver<CreateQueueResponse> to) {
    server.answer(to, state -> {
      FakeQueue found = state.queues.get(request.getName());
      if (found != null && !found.config.equals(request.getConfig())) {
        throw Answers.refusal(Status.Code.ALREADY_EXISTS, Reasons.QUEUE_EXISTS, "the queue exists");
      }
      state.queue(request.getName()).config = request.getConfig();
      return CreateQueueResponse.newBuilder().setQueue(described(state, request.getName())).build();
    });
  }

  @Override
  public void updateQueue(UpdateQueueRequest request, StreamObserver<UpdateQueueResponse> to) {
    server.answer(to, state -> {
      FakeQueue queue = known(state, request.getName());
      QueueConfig.Builder config = queue.config.toBuilder();
      for (String path : request.getUpdateMask().getPathsList()) {
        FieldDescriptor field = QueueConfig.getDescriptor().findFieldByName(path);
        if (field == null) {
          throw Answers.badField("update_mask", "names no field: " + path);
        }
        config.setField(field, request.getConfig().getField(field));
      }
      queue.config = config.build();
      return UpdateQueueResponse.newBuilder().setQueue(described(state, request.getName())).build();
    });
  }

  @Override
  public void getQueue(GetQueueRequest request, StreamObserver<GetQueueResponse> to) {
    server.answer(to, state -> {
      known(state, request.getName());
      return GetQueueResponse.newBuilder().setQueue(described(state, request.getName())).build();
    });
  }

  @Override
  public void listQueues(ListQueuesRequest request, StreamObserver<ListQueuesResponse> to) {
    server.answer(to, state -> {
      int size = request.getPageSize() == 0 ? 100 : request.getPageSize();
      List<String> rest = state.queues.keySet().stream()
          .filter(name -> name.compareTo(request.getPageToken()) > 0)
          .toList();
      ListQueuesResponse.Builder answer = ListQueuesResponse.newBuilder();
      rest.stream().limit(size).forEach(name -> answer.addQueues(described(state, name)));
      if (rest.size() > size) {
        answer.setNextPageToken(rest.get(size - 1));
      }
      return answer.build();
    });
  }

  @Override
  public void deleteQueue(DeleteQueueRequest request, StreamObserver<DeleteQueueResponse> to) {
    server.answer(to, state -> {
      FakeQueue queue = known(state, request.getName());
      if (!request.getForce() && !(queue.jobs.isEmpty() && queue.dead.isEmpty())) {
        throw Answers.refusal(Status.Code.FAILED_PRECONDITION, Reasons.QUEUE_NOT_EMPTY, "the queue holds jobs");
      }
      purge(state, request.getName());
      state.queues.remove(request.getName());
      return DeleteQueueResponse.getDefaultInstance();
    });
  }

  @Override
  public void pauseQueue(PauseQueueRequest request, StreamObserver<PauseQueueResponse> to) {
    server.answer(to, state -> {
      known(state, request.getName()).paused = true;
      return PauseQueueResponse.newBuilder().setQueue(described(state, request.getName())).build();
    });
  }

  @Override
  public void resumeQueue(ResumeQueueRequest request, StreamObserver<ResumeQueueResponse> to) {
    server.answer(to, state -> {
      known(state, request.getName()).paused = false;
      return ResumeQueueResponse.newBuilder().setQueue(described(state, request.getName())).build();
    });
  }

  @Override
  public void purgeQueue(PurgeQueueRequest request, StreamObserver<PurgeQueueResponse> to) {
    server.answer(to, state -> {
      known(state, request.getName());
      return PurgeQueueResponse.newBuilder().setPurged(purge(state, request.getName())).build();
    });
  }

  private static FakeQueue known(State state, String name) {
    FakeQueue queue = state.queues.get(name);
    if (queue == null) {
      throw Answers.refusal(Status.Code.NOT_FOUND, Reasons.QUEUE_NOT_FOUND, "there is no such queue");
    }
    return queue;
  }

  private static int purge(State state, String name) {
    FakeQueue queue = state.queue(name);
    int purged = queue.jobs.size();
    List.copyOf(queue.jobs.keySet())
        .forEach(key -> state.loseLease(name, key, LostReason.LOST_REASON_CANCELLED, true));
    queue.jobs.clear();
    queue.ready.clear();
    return purged;
  }

  private static Queue described(State state, String name) {
    FakeQueue queue = state.queue(name);
    long leased = queue.jobs.values().stream().filter(entry -> entry.lease != null).count();
    QueueStats stats = QueueStats.newBuilder()
        .setOutstanding(queue.jobs.size())
        .setReady(queue.jobs.size() - leased)
        .setInFlight(leased)
        .setDead(queue.dead.size())
        .build();
    return Queue.newBuilder()
        .setName(name)
        .setConfig(queue.config)
        .setPaused(queue.paused)
        .setStats(stats)
        .setReplicas(1)
        .build();
  }
}
