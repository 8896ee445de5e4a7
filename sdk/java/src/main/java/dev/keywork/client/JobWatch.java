package dev.keywork.client;

import dev.keywork.errors.KeyworkException;
import dev.keywork.internal.Wire;
import dev.keywork.internal.v1.WatchJobsRequest;
import dev.keywork.internal.v1.WatchJobsResponse;
import dev.keywork.internal.v1.WorkQueueGrpc;
import dev.keywork.job.Job;
import io.grpc.Channel;
import io.grpc.Context;
import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.NoSuchElementException;

/** Jobs whose state changed, as it happens. Close it to stop watching. */
public final class JobWatch implements Iterator<Job>, AutoCloseable {
  private final Context.CancellableContext context = Context.current().withCancellation();
  private final Iterator<WatchJobsResponse> messages;
  private final ArrayDeque<Job> jobs = new ArrayDeque<>();

  JobWatch(Channel channel, WatchJobsRequest request) {
    Context outer = context.attach();
    try {
      messages = WorkQueueGrpc.newBlockingStub(channel).watchJobs(request);
    } finally {
      context.detach(outer);
    }
  }

  /**
   * Waits for the next change.
   *
   * @return false: the server ended the watch
   * @throws KeyworkException the watch failed
   */
  @Override
  public boolean hasNext() {
    try {
      while (jobs.isEmpty() && messages.hasNext()) {
        messages.next().getJobsList().forEach(job -> jobs.add(Wire.job(job)));
      }
    } catch (io.grpc.StatusRuntimeException failed) {
      throw KeyworkException.from(failed);
    }
    return !jobs.isEmpty();
  }

  @Override
  public Job next() {
    if (!hasNext()) {
      throw new NoSuchElementException("the server ended the watch");
    }
    return jobs.remove();
  }

  @Override
  public void close() {
    context.cancel(null);
  }
}
