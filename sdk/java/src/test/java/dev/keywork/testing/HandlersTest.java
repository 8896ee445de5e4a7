package dev.keywork.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.keywork.job.Job;
import dev.keywork.job.Outcome;
import java.time.Duration;
import org.junit.jupiter.api.Test;

/** A handler is run without a server, and ends as a worker would settle it. */
class HandlersTest {
  private final Job job = Handlers.job("mail", "user-7").payload("hello").build();

  @Test
  void whatAHandlerReturnsIsTold() {
    Outcome outcome = Handlers.runOnce((context, given) -> {
      assertEquals(job, given);
      assertFalse(context.isCancelled());
      assertTrue(context.timeLeft().compareTo(Duration.ofMinutes(1)) > 0);
      return Outcome.fail("no");
    }, job);
    assertEquals(Outcome.fail("no"), outcome);
  }

  @Test
  void whatATaskThrowsIsTold() {
    assertEquals(Outcome.complete(), Handlers.runTaskOnce((context, given) -> {}, job));
    assertEquals(Outcome.release(), Handlers.runTaskOnce((context, given) -> {
      throw Outcome.release().asException();
    }, job));
    Outcome failed = Handlers.runTaskOnce((context, given) -> {
      throw new IllegalArgumentException("bad");
    }, job);
    assertTrue(assertInstanceOf(Outcome.Retry.class, failed).error().contains("bad"));
  }
}
