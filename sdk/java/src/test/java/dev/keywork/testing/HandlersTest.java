package dev.keywork.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.keywork.job.Job;
import dev.keywork.job.Outcome;
import dev.keywork.worker.CancelReason;
import dev.keywork.worker.JobTask;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
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

  private static final JobTask WAITS = (context, job) -> new CountDownLatch(1).await();

  @Test
  void anExceptionOfAHandlerThatStopsWithItsWorkerIsARelease() {
    HandlerRun run = Handlers.startTask(WAITS, job);
    assertFalse(run.hasEnded());
    run.cancel(CancelReason.WORKER_SHUTDOWN);
    assertEquals(Optional.of(Outcome.release()), run.outcome());
    assertTrue(run.hasEnded());
  }

  @Test
  void anOutcomeThatIsChosenAtTheWorkersStopCounts() {
    CountDownLatch told = new CountDownLatch(1);
    HandlerRun run = Handlers.start((context, given) -> {
      context.onCancel(told::countDown);
      try {
        told.await();
      } catch (InterruptedException cancelled) {
        // The callback comes from a thread of its own.
        told.await();
      }
      return Outcome.fail(context.reason().orElseThrow().name());
    }, job);
    run.cancel(CancelReason.WORKER_SHUTDOWN);
    run.cancel(CancelReason.LEASE_LOST);
    assertEquals(Optional.of(Outcome.fail("WORKER_SHUTDOWN")), run.outcome());
  }

  @Test
  void theResultOfALostLeaseOrACancelledJobIsDropped() {
    for (CancelReason reason : List.of(CancelReason.LEASE_LOST, CancelReason.JOB_CANCELLED)) {
      HandlerRun run = Handlers.start((context, given) -> {
        try {
          new CountDownLatch(1).await();
        } catch (InterruptedException cancelled) {
          assertEquals(reason, context.reason().orElseThrow());
        }
        return Outcome.complete();
      }, job);
      run.cancel(reason);
      assertEquals(Optional.empty(), run.outcome());
    }
  }

  @Test
  void anExceptionThatCannotSayWhatItIsFreesItsSlotAllTheSame() {
    Outcome failed = Handlers.runTaskOnce((context, given) -> {
      throw new IllegalStateException() {
        private static final long serialVersionUID = 1L;

        @Override
        public String getMessage() {
          throw new UnsupportedOperationException("no message");
        }
      };
    }, job);
    assertTrue(assertInstanceOf(Outcome.Retry.class, failed).error().contains("HandlersTest"));
  }

  @Test
  void theMessageOfAnExceptionThatHasNoneIsNoError() {
    String none = new IllegalStateException().getMessage();
    assertEquals(Outcome.fail(""), Handlers.runOnce((context, given) -> Outcome.fail(none), job));
    assertEquals(Outcome.retry(""), Handlers.runOnce((context, given) -> Outcome.retry(none), job));
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
