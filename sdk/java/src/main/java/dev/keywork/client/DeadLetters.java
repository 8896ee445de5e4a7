package dev.keywork.client;

import dev.keywork.internal.Refused;
import dev.keywork.internal.Wire;
import dev.keywork.internal.v1.DeleteDeadJobsRequest;
import dev.keywork.internal.v1.ListDeadJobsRequest;
import dev.keywork.internal.v1.RedriveDeadJobsRequest;
import dev.keywork.internal.v1.WorkQueueGrpc;
import dev.keywork.job.DeadJob;
import java.util.Collection;
import java.util.List;

/** Dead letters: jobs that used up their attempts or were failed. {@link KeyworkClient#deadLetters()} has it. */
public final class DeadLetters {
  private final OneCall calls;

  DeadLetters(OneCall calls) {
    this.calls = calls;
  }

  /**
   * A page of a queue's dead letters, oldest first.
   *
   * @param queue the queue's name
   * @param page which page
   * @return the page
   */
  public Page<DeadJob> list(String queue, PageRequest page) {
    return list(queue, "", page);
  }

  /**
   * A page of the dead letters of one key, oldest first.
   *
   * @param queue the queue's name
   * @param key the key
   * @param page which page
   * @return the page
   */
  public Page<DeadJob> list(String queue, String key, PageRequest page) {
    ListDeadJobsRequest request = ListDeadJobsRequest.newBuilder()
        .setQueue(queue)
        .setKey(key)
        .setPageSize(page.size())
        .setPageToken(page.token())
        .build();
    var answer = calls.once(WorkQueueGrpc.getListDeadJobsMethod(), request);
    return Page.of(answer.getJobsList(), Wire::deadJob, page, answer.getNextPageToken());
  }

  /**
   * Submits dead letters again, with attempts counted from 1. Repeating it is safe: one that was redriven is no dead
   * letter any more.
   *
   * @param queue the queue's name
   * @param deadIds which: at most 1,000
   * @return one result for each
   */
  public List<Redriven> redrive(String queue, Collection<Long> deadIds) {
    if (deadIds.isEmpty()) {
      // On the wire, no ids mean the oldest ones.
      return List.of();
    }
    return redrive(RedriveDeadJobsRequest.newBuilder().setQueue(queue).addAllDeadIds(deadIds).build());
  }

  /**
   * Submits the oldest dead letters again, with attempts counted from 1.
   *
   * @param queue the queue's name
   * @param maxJobs at most this many: 1 to 1,000
   * @return one result for each
   */
  public List<Redriven> redriveOldest(String queue, int maxJobs) {
    if (maxJobs < 1) {
      // On the wire, 0 means as many as the server likes.
      throw Refused.field("max_jobs", "must be from 1 to 1000");
    }
    return redrive(RedriveDeadJobsRequest.newBuilder().setQueue(queue).setMaxJobs(maxJobs).build());
  }

  private List<Redriven> redrive(RedriveDeadJobsRequest request) {
    return calls.once(WorkQueueGrpc.getRedriveDeadJobsMethod(), request).getResultsList().stream()
        .map(result -> new Redriven(result.getDeadId(), Offer.read(result.getResult(), false)))
        .toList();
  }

  /**
   * Deletes dead letters for good.
   *
   * @param queue the queue's name
   * @param deadIds which: at most 1,000
   * @return how many there were
   */
  public long delete(String queue, Collection<Long> deadIds) {
    if (deadIds.isEmpty()) {
      return 0;
    }
    DeleteDeadJobsRequest request =
        DeleteDeadJobsRequest.newBuilder().setQueue(queue).addAllDeadIds(deadIds).build();
    return calls.once(WorkQueueGrpc.getDeleteDeadJobsMethod(), request).getDeleted();
  }

  /**
   * Deletes all dead letters of a queue for good.
   *
   * @param queue the queue's name
   * @return how many there were
   */
  public long deleteAll(String queue) {
    DeleteDeadJobsRequest request = DeleteDeadJobsRequest.newBuilder().setQueue(queue).setAll(true).build();
    return calls.once(WorkQueueGrpc.getDeleteDeadJobsMethod(), request).getDeleted();
  }
}
