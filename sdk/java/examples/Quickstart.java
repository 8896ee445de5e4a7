import dev.keywork.client.KeyworkClient;
import dev.keywork.client.Submit;
import dev.keywork.worker.Worker;

/** A first program: offers one job, runs jobs until SIGTERM or Ctrl-C. */
public class Quickstart {
  public static void main(String[] arguments) {
    try (KeyworkClient client = KeyworkClient.fromEnv()) {
      client.submit(Submit.of("reconcile", "cluster-eu-1", "v1"));

      Worker worker = Worker.builder(client, "reconcile")
          .task((context, job) -> System.err.println(job.key() + ", attempt " + job.attempt()))
          .build();
      worker.run();
    }
  }
}
