import dev.keywork.client.KeyworkClient;
import dev.keywork.job.Job;
import dev.keywork.job.Outcome;
import dev.keywork.worker.JobContext;
import dev.keywork.worker.Worker;

/** A job that takes longer than its lease: heartbeats are sent for it, and it stops when the lease is lost. */
public class LongJob {
  private static Outcome rebuild(JobContext context, Job job) {
    int steps;
    try {
      steps = Integer.parseInt(job.payload().asText());
    } catch (NumberFormatException malformed) {
      return Outcome.fail("the payload is no number of steps: " + malformed.getMessage());
    }
    for (int step = 0; step < steps; step++) {
      try {
        Thread.sleep(1_000);
      } catch (InterruptedException cancelled) {
        // Somebody else may be about to run this job: leave everything as it is.
        return Outcome.retry("stopped: " + context.reason());
      }
      // What is written carries the fencing number, so that a late write of an older lease can be refused.
      System.err.println(job.key() + " step " + step + ", fencing number " + job.fencingNumber());
    }
    return Outcome.complete();
  }

  public static void main(String[] arguments) {
    try (KeyworkClient client = KeyworkClient.fromEnv()) {
      Worker.builder(client, "rebuild").handler(LongJob::rebuild).build().run();
    }
  }
}
