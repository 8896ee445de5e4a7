import dev.keywork.client.KeyworkClient;
import dev.keywork.client.Submit;
import dev.keywork.job.Job;
import dev.keywork.job.Outcome;
import dev.keywork.testing.FakeServer;
import dev.keywork.testing.Handlers;
import dev.keywork.worker.JobContext;
import dev.keywork.worker.Worker;
import java.util.List;

/** How a program that uses Keywork is tested: a handler by itself, and the whole against a server in the process. */
public class Testing {
  private static Outcome handle(JobContext context, Job job) {
    return job.payload().isEmpty() ? Outcome.fail("the payload is empty") : Outcome.complete();
  }

  private static void check(boolean isSo, String what) {
    if (!isSo) {
      throw new AssertionError(what);
    }
  }

  public static void main(String[] arguments) {
    Outcome outcome = Handlers.runOnce(Testing::handle, Handlers.job("mail", "user-7").build());
    check(outcome.equals(Outcome.fail("the payload is empty")), "an empty payload fails");

    try (FakeServer server = FakeServer.start();
        KeyworkClient client = server.client();
        Worker worker = Worker.builder(client, "mail").handler(Testing::handle).build()) {
      client.submit(Submit.of("mail", "user-7", "hello"));
      worker.start();
      server.until("the job completes", seen -> seen.completed().equals(List.of("user-7")));
    }
    System.err.println("all is well");
  }
}
