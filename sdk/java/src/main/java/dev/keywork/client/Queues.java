package dev.keywork.client;

import dev.keywork.internal.v1.CreateQueueRequest;
import dev.keywork.internal.v1.DeleteQueueRequest;
import dev.keywork.internal.v1.GetQueueRequest;
import dev.keywork.internal.v1.ListQueuesRequest;
import dev.keywork.internal.v1.PauseQueueRequest;
import dev.keywork.internal.v1.PurgeQueueRequest;
import dev.keywork.internal.v1.QueueAdminGrpc;
import dev.keywork.internal.v1.ResumeQueueRequest;
import dev.keywork.internal.v1.UpdateQueueRequest;

/** Making queues, changing them and looking at them. {@link KeyworkClient#queues()} has it. */
public final class Queues {
  private final OneCall calls;

  Queues(OneCall calls) {
    this.calls = calls;
  }

  /**
   * Makes a queue; also when it is there already with this configuration.
   *
   * @param name the name: {@code [a-z0-9][a-z0-9_-]{0,63}}
   * @param config its configuration
   * @return the queue
   */
  public Queue create(String name, QueueConfig config) {
    CreateQueueRequest request = CreateQueueRequest.newBuilder().setName(name).setConfig(config.wire()).build();
    return Queue.read(calls.once(QueueAdminGrpc.getCreateQueueMethod(), request).getQueue());
  }

  /**
   * Changes what is set in {@code config}, and nothing else.
   *
   * @param name the name
   * @param config what to change
   * @return the queue as it is now
   */
  public Queue update(String name, QueueConfig config) {
    UpdateQueueRequest request = UpdateQueueRequest.newBuilder()
        .setName(name)
        .setConfig(config.wire())
        .setUpdateMask(config.mask())
        .build();
    return Queue.read(calls.once(QueueAdminGrpc.getUpdateQueueMethod(), request).getQueue());
  }

  /**
   * One queue with its counts.
   *
   * @param name the name
   * @return the queue
   */
  public Queue get(String name) {
    GetQueueRequest request = GetQueueRequest.newBuilder().setName(name).build();
    return Queue.read(calls.once(QueueAdminGrpc.getGetQueueMethod(), request).getQueue());
  }

  /**
   * A page of all queues, by name.
   *
   * @param page which page
   * @return the page
   */
  public Page<Queue> list(PageRequest page) {
    ListQueuesRequest request =
        ListQueuesRequest.newBuilder().setPageSize(page.size()).setPageToken(page.token()).build();
    var answer = calls.once(QueueAdminGrpc.getListQueuesMethod(), request);
    return Page.of(answer.getQueuesList(), Queue::read, page, answer.getNextPageToken());
  }

  /**
   * Deletes a queue.
   *
   * @param name the name
   * @param force also when it holds jobs or dead letters
   */
  public void delete(String name, boolean force) {
    DeleteQueueRequest request = DeleteQueueRequest.newBuilder().setName(name).setForce(force).build();
    calls.once(QueueAdminGrpc.getDeleteQueueMethod(), request);
  }

  /**
   * Stops deliveries. Leases that are out go on; submits are accepted.
   *
   * @param name the name
   * @return the queue
   */
  public Queue pause(String name) {
    PauseQueueRequest request = PauseQueueRequest.newBuilder().setName(name).build();
    return Queue.read(calls.once(QueueAdminGrpc.getPauseQueueMethod(), request).getQueue());
  }

  /**
   * Goes on with deliveries.
   *
   * @param name the name
   * @return the queue
   */
  public Queue resume(String name) {
    ResumeQueueRequest request = ResumeQueueRequest.newBuilder().setName(name).build();
    return Queue.read(calls.once(QueueAdminGrpc.getResumeQueueMethod(), request).getQueue());
  }

  /**
   * Ends all outstanding jobs of a queue without running them.
   *
   * @param name the name
   * @return how many there were
   */
  public long purge(String name) {
    PurgeQueueRequest request = PurgeQueueRequest.newBuilder().setName(name).build();
    return calls.once(QueueAdminGrpc.getPurgeQueueMethod(), request).getPurged();
  }
}
