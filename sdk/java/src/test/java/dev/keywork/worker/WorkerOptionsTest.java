package dev.keywork.worker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.keywork.client.KeyworkClient;
import java.time.Duration;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** An option that breaks its limit is refused when the worker is made; none is changed in silence. */
class WorkerOptionsTest {
  private final KeyworkClient client = KeyworkClient.connect("http://127.0.0.1:1");

  @AfterEach
  void close() {
    client.close();
  }

  private Worker.Builder builder(String... queues) {
    return Worker.builder(client, queues).task((context, job) -> {});
  }

  private static String refusal(Worker.Builder builder) {
    return assertThrows(IllegalArgumentException.class, builder::build).getMessage();
  }

  private void assertRefused(String text, UnaryOperator<Worker.Builder> options) {
    assertEquals(text, refusal(options.apply(builder("q"))));
  }

  @Test
  void aConcurrencyHasItsLimits() {
    assertRefused("concurrency must be 1 to 100,000, not 0", builder -> builder.concurrency(0));
    assertRefused("concurrency must be 1 to 100,000, not 100,001", builder -> builder.concurrency(100_001));
    builder("q").concurrency(100_000).build();
  }

  @Test
  void aWeightHasItsLimits() {
    assertRefused("weight of the queue r must be 1 to 100, not 101",
        builder -> builder.subscribe(new Subscription("r", 101)));
    assertRefused("weight of the queue r must be 1 to 100, not -1",
        builder -> builder.subscribe(new Subscription("r", -1)));
  }

  @Test
  void queuesAreThereAndDiffer() {
    assertEquals("a worker needs at least one queue", refusal(builder()));
    assertEquals("queues must differ, but q is given twice", refusal(builder("q", "r", "q")));
  }

  @Test
  void gracesAreNotNegative() {
    assertRefused("shutdownGrace must not be negative, but is -1s",
        builder -> builder.shutdownGrace(Duration.ofSeconds(-1)));
    assertRefused("cancelGrace must not be negative, but is -0.001s",
        builder -> builder.cancelGrace(Duration.ofMillis(-1)));
    builder("q").shutdownGrace(Duration.ZERO).cancelGrace(Duration.ZERO).build();
  }

  @Test
  void aWorkerHasAHandlerAndAName() {
    assertEquals("a worker needs a handler or a task", refusal(Worker.builder(client, "q")));
    assertRefused("workerId must not be empty", builder -> builder.workerId(""));
    assertThrows(NullPointerException.class, () -> builder("q").shutdownGrace(null));
  }

  @Test
  void twoWorkersOfOneBuilderHaveNamesOfTheirOwn() {
    Worker.Builder builder = builder("q");
    assertNotEquals(builder.build().workerId(), builder.build().workerId());
  }
}
