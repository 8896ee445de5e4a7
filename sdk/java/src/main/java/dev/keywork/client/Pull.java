package dev.keywork.client;

import dev.keywork.errors.KeyworkException;
import dev.keywork.internal.Refused;
import dev.keywork.internal.Wire;
import dev.keywork.internal.v1.PullRequest;
import java.time.Duration;

/** What to pull: by default one job, waiting for it up to 20 s. */
public final class Pull {
  private static final Duration WAIT = Duration.ofSeconds(20);

  private final PullRequest request;

  private Pull(PullRequest request) {
    this.request = request;
  }

  /**
   * Starts a pull of a queue.
   *
   * @param queue the queue's name
   * @return a builder
   */
  public static Builder builder(String queue) {
    return new Builder(queue);
  }

  PullRequest request() {
    return request;
  }

  /** How long the server may let us wait. */
  Duration patience() {
    return request.hasWait() ? Wire.duration(request.getWait()) : WAIT;
  }

  /** Makes a {@link Pull}. */
  public static final class Builder {
    private final PullRequest.Builder request = PullRequest.newBuilder();

    private Builder(String queue) {
      request.setQueue(queue);
    }

    /**
     * The most jobs: 1 to 1,000. Default: 1.
     *
     * @param jobs how many
     * @return this
     * @throws KeyworkException it is less than 1, which on the wire would be the default
     */
    public Builder maxJobs(int jobs) {
      if (jobs < 1) {
        throw Refused.field("max_jobs", "must be from 1 to 1000");
      }
      request.setMaxJobs(jobs);
      return this;
    }

    /**
     * How long to wait for the first job: 0 to 60 s. Default: 20 s.
     *
     * @param wait how long
     * @return this
     */
    public Builder wait(Duration wait) {
      request.setWait(Wire.duration(wait));
      return this;
    }

    /**
     * Names the worker, for people who look at the job. Default: the server makes one up.
     *
     * @param id the name
     * @return this
     */
    public Builder workerId(String id) {
      request.setWorkerId(id);
      return this;
    }

    /**
     * Makes the pull.
     *
     * @return the pull
     */
    public Pull build() {
      return new Pull(request.build());
    }
  }
}
