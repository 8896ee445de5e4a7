import dev.keywork.client.KeyworkClient;
import dev.keywork.worker.Worker;
import dev.keywork.worker.WorkerException;
import java.time.Duration;

/** Stops cleanly: the first signal drains, the second gives everything back and exits non-zero. */
public class GracefulShutdown {
  public static void main(String[] arguments) {
    try (KeyworkClient client = KeyworkClient.fromEnv()) {
      Worker worker = Worker.builder(client, "sync")
          .concurrency(8)
          // Less than what the orchestrator waits before it kills.
          .shutdownGrace(Duration.ofSeconds(25))
          .task((context, job) -> {
            System.err.println("started " + job.key());
            Thread.sleep(10_000);
          })
          .build();
      worker.run();
    } catch (WorkerException error) {
      System.err.println(error.getMessage());
      System.exit(1);
    }
  }
}
