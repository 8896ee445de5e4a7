import dev.keywork.client.KeyworkClient;
import dev.keywork.client.Submit;
import dev.keywork.client.SubmitResult;
import dev.keywork.errors.KeyworkException;
import java.util.List;
import java.util.stream.IntStream;

/** Offers many jobs on one stream, and tells what became of each. */
public class BatchSubmit {
  public static void main(String[] arguments) {
    List<Submit> submits = IntStream.range(0, 10_000)
        .mapToObj(number -> Submit.of("reindex", "document-" + number))
        .toList();
    int accepted = 0;
    int busy = 0;
    int failed = 0;
    try (KeyworkClient client = KeyworkClient.fromEnv()) {
      for (SubmitResult result : client.submitMany(submits)) {
        if (result.error().isPresent()) {
          KeyworkException error = result.error().get();
          System.err.println(error.getMessage() + " (may be retried: " + error.isRetryable() + ")");
          failed++;
        } else if (result.outcome().isAccepted()) {
          accepted++;
        } else {
          busy++;
        }
      }
    }
    System.err.println("accepted " + accepted + ", busy " + busy + ", failed " + failed);
  }
}
