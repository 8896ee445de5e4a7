package dev.keywork.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.keywork.errors.KeyworkException;
import dev.keywork.internal.Outage;
import dev.keywork.support.Records;
import dev.keywork.testing.FakeServer;
import dev.keywork.testing.SubmitFault;
import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;
import java.util.logging.Level;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Submits that are tried again say so in the log, at once and then seldom. */
class OutageLogTest {
  private static KeyworkClient impatient(String endpoint) {
    return KeyworkClient.builder().endpoint(endpoint).submitDeadline(Duration.ofMillis(900)).build();
  }

  /** Each port is that of one test: nobody is there. */
  private static void isToldOnce(int port, Consumer<KeyworkClient> submit) {
    String nobody = "http://127.0.0.1:" + port;
    try (Records log = Records.ofClients(nobody + " "); KeyworkClient client = impatient(nobody)) {
      submit.accept(client);
      submit.accept(client);
      log.until(Level.WARNING, "no answer to a submit, which is tried again within 0.9s: " + nobody
          + " cannot be reached: Connection refused");
      assertEquals(1, log.all.all().size(), log.lines(Level.WARNING));
    }
  }

  @Test
  void aSubmitIsToldOnce() {
    Submit submit = Submit.of("q", "a", "");
    isToldOnce(2, client -> assertThrows(KeyworkException.class, () -> client.submit(submit)));
  }

  @Test
  void aBatchIsToldOnce() {
    List<Submit> batch = List.of(Submit.of("q", "a", ""), Submit.of("q", "b", ""));
    isToldOnce(3, client -> assertThrows(KeyworkException.class, () -> client.submitBatch(batch)));
  }

  @Test
  void aStreamIsToldOnce() {
    List<Submit> offers = List.of(Submit.of("q", "a", ""), Submit.of("q", "b", ""));
    isToldOnce(4, client -> assertTrue(client.submitMany(offers).stream().allMatch(SubmitResult.Failed.class::isInstance)));
  }

  @Test
  void anOfferOfAStreamThatIsTriedAgainIsTold() {
    try (FakeServer server = FakeServer.start();
        Records log = Records.ofClients(server.endpoint());
        KeyworkClient client = server.client()) {
      server.script(script -> script.submitFault(new SubmitFault.Unavailable()));
      assertTrue(client.submitMany(List.of(Submit.of("q", "a", ""))).get(0).outcome().isAccepted());
      String source = log.until(Level.WARNING, "no answer to a submit").getSourceClassName();
      assertEquals(KeyworkClient.class.getName(), source);
    }
  }

  @Test
  void anOutageIsWarnedOfAtOnceAndThenEveryHalfMinute() {
    Outage outage = new Outage();
    List<Integer> warned = IntStream.range(0, 70)
        .filter(second -> outage.isToBeWarnedOf(Duration.ofSeconds(second).toNanos()))
        .boxed()
        .toList();
    assertEquals(List.of(0, 30, 60), warned);
    outage.isOver();
    assertTrue(outage.isDue(Duration.ofSeconds(70).toNanos()));
  }
}
