package dev.keywork.worker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.keywork.client.KeyworkClient;
import dev.keywork.client.Submit;
import dev.keywork.errors.Reasons;
import dev.keywork.job.LostReason;
import dev.keywork.job.Outcome;
import dev.keywork.support.Errors;
import dev.keywork.support.Records;
import dev.keywork.testing.FakeServer;
import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;

/** A worker says in the log what its owner must know, whether anybody listens to its events or not. */
class LoggingTest {
  private static Worker worker(KeyworkClient client, String queue, JobHandler handler) {
    return Worker.builder(client, queue).shutdownGrace(Duration.ofMillis(50)).handler(handler).build();
  }

  @Test
  void aServerThatIsNotThereIsUnderstoodAtOnce() {
    String nobody = "http://127.0.0.1:1";
    try (Records log = new Records("log-nobody");
        KeyworkClient client = KeyworkClient.connect(nobody);
        Worker worker = worker(client, "log-nobody", (context, job) -> Outcome.complete())) {
      worker.start();
      assertEquals(Worker.class.getName(), log.until(Level.FINE, "connects to " + nobody).getSourceClassName());
      String text = log.until(Level.WARNING, "Connection refused").getMessage();
      assertEquals(text.indexOf(nobody), text.lastIndexOf(nobody), text);
    }
  }

  @Test
  void aServerThatDoesNotAnswerIsUnderstoodWithinASecondAndItsErrorIsToldAllTheSame() {
    try (Records log = new Records("log-slow"); FakeServer server = FakeServer.start();
        KeyworkClient client = server.client()) {
      server.script(script -> script.unwelcomeSessions(1));
      Worker worker = worker(client, "log-slow", (context, job) -> Outcome.complete());
      worker.start();
      log.until(Level.WARNING, "has no answer yet from " + server.endpoint());
      server.endSessions();
      log.until(Level.WARNING, "is degraded");
      log.until(Level.INFO, "is ready");
      worker.close();
      assertEquals(2, log.lines(Level.WARNING).lines().count(), log.lines(Level.WARNING));
    }
  }

  @Test
  void aWorkerOfManyQueuesDoesNotNameThemAllInEachLine() {
    try (Records log = new Records("log-a, log-b, log-c and 2 more")) {
      WorkerLog worker = new WorkerLog(List.of("log-a", "log-b", "log-c", "log-d", "log-e"), false);
      worker.tell(new WorkerEvent.Draining(), 0);
      log.until(Level.INFO, "drains");
    }
  }

  @Test
  void oneOutageIsWarnedOfAtFirstAndThenEveryHalfMinute() {
    try (Records log = new Records("log-outage")) {
      WorkerLog worker = new WorkerLog(List.of("log-outage"), false);
      worker.tell(new WorkerEvent.Connecting("http://there"), 0);
      for (int second = 1; second <= 61; second++) {
        worker.tell(new WorkerEvent.Degraded("away, second " + second), Duration.ofSeconds(second).toNanos());
      }
      worker.tell(new WorkerEvent.Ready(), Duration.ofSeconds(62).toNanos());
      worker.tell(new WorkerEvent.Degraded("away again"), Duration.ofSeconds(63).toNanos());
      log.until(Level.WARNING, "http://there: away again");
      String warnings = log.lines(Level.WARNING);
      assertEquals(4, warnings.lines().count(), warnings);
      assertTrue(warnings.contains("second 1\n") && warnings.contains("31") && warnings.contains("61"), warnings);
    }
  }

  @Test
  void aLifeWithoutTroubleIsReadyDrainingStopped() {
    try (Records log = new Records("log-life"); FakeServer server = FakeServer.start();
        KeyworkClient client = server.client()) {
      client.submit(Submit.of("log-life", "a", ""));
      Worker worker = worker(client, "log-life", (context, job) -> Outcome.complete());
      worker.start();
      server.until("the job", seen -> !seen.completed().isEmpty());
      worker.close();
      String lines = log.lines(Level.INFO);
      assertEquals(3, lines.lines().count(), lines);
      assertTrue(lines.contains("is ready, at " + server.endpoint()), lines);
      assertEquals("", log.lines(Level.WARNING));
    }
  }

  @Test
  void anExceptionOfAHandlerIsLoggedWithItsStackAndNothingOfAKeyBeginsALine() {
    try (Records log = new Records("log-throws"); FakeServer server = FakeServer.start();
        KeyworkClient client = server.client()) {
      client.submit(Submit.of("log-throws", "a\nb", ""));
      IllegalStateException thrown = new IllegalStateException("no such table");
      Worker worker = worker(client, "log-throws", (context, job) -> {
        throw thrown;
      });
      worker.start();
      LogRecord line = log.until(Level.WARNING, "log-throws/a\\nb, attempt 1");
      assertSame(thrown, line.getThrown());
      worker.close();
    }
  }

  @Test
  void anErrorInTheLastAttemptIsToldAsADeadLetter() {
    try (Records log = new Records("log-last"); FakeServer server = FakeServer.start();
        KeyworkClient client = server.client()) {
      client.submit(Submit.builder("log-last", "last").maxAttempts(1).build());
      client.submit(Submit.builder("log-last", "more").maxAttempts(2).build());
      Worker worker = Worker.builder(client, "log-last").task((context, job) -> {
        if (job.key().equals("last") || job.attempt() == 1) {
          throw new IllegalStateException("no such table");
        }
      }).build();
      worker.start();
      server.until("the other job", seen -> seen.completed().equals(List.of("more")));
      log.until(Level.WARNING, "log-last/last, attempt 1 of 1, and its handler failed, so it is a dead letter");
      log.until(Level.WARNING, "log-last/more, attempt 1 of 2, and its handler failed, so it is tried again");
      worker.close();
      assertEquals(2, log.lines(Level.WARNING).lines().count(), log.lines(Level.WARNING));
    }
  }

  @Test
  void anOutcomeThatAHandlerChoseIsLoggedWhereItMakesADeadLetter() {
    try (Records log = new Records("log-chosen"); FakeServer server = FakeServer.start();
        KeyworkClient client = server.client()) {
      for (String key : List.of("fail", "retry", "release")) {
        client.submit(Submit.builder("log-chosen", key).maxAttempts(2).build());
      }
      AtomicBoolean released = new AtomicBoolean();
      Worker worker = Worker.builder(client, "log-chosen").handler((context, job) -> {
        if (job.key().equals("fail")) {
          throw Outcome.fail("not wanted").asException();
        }
        if (job.key().equals("retry")) {
          return Outcome.retry(Duration.ZERO).because("not yet");
        }
        return released.compareAndSet(false, true) ? Outcome.release() : Outcome.complete();
      }).build();
      worker.start();
      server.until("all of them", seen -> seen.settled(Outcome.Fail.class).size() == 1
          && seen.settled(Outcome.Retry.class).size() == 2
          && seen.completed().equals(List.of("release")));
      worker.close();
      log.until(Level.WARNING, "log-chosen/fail, attempt 1 of 2, and its handler failed it for good, so it is a dead "
          + "letter: not wanted");
      log.until(Level.WARNING, "log-chosen/retry, attempt 2 of 2, and its handler asked for a retry in its last "
          + "attempt, so it is a dead letter: not yet");
      assertEquals(2, log.lines(Level.WARNING).lines().count(), log.lines(Level.WARNING));
    }
  }

  @Test
  void resultsThatNobodyConfirmedAreTold() {
    try (Records log = new Records("log-unconfirmed"); FakeServer server = FakeServer.start();
        KeyworkClient client = server.client()) {
      server.script(script -> script.unansweredSettlements(1_000));
      client.submit(Submit.of("log-unconfirmed", "a", ""));
      Worker worker = Worker.builder(client, "log-unconfirmed")
          .shutdownGrace(Duration.ZERO)
          .cancelGrace(Duration.ZERO)
          .task((context, job) -> {})
          .build();
      worker.start();
      server.until("the settlement", seen -> seen.settlements().size() == 1);
      worker.close();
      log.until(Level.WARNING,
          "has stopped, results were not confirmed, so their jobs run again when their leases are over: 1");
    }
  }

  @Test
  void handlersThatAreLeftBehindAreTold() {
    CountDownLatch release = new CountDownLatch(1);
    try (Records log = new Records("log-left"); FakeServer server = FakeServer.start();
        KeyworkClient client = server.client()) {
      client.submit(Submit.of("log-left", "a", ""));
      CountDownLatch begun = new CountDownLatch(1);
      Worker worker = worker(client, "log-left", (context, job) -> {
        begun.countDown();
        LeasesTest.awaitStubbornly(release);
        return Outcome.complete();
      });
      worker.start();
      LeasesTest.awaitStubbornly(begun);
      worker.close();
      log.until(Level.WARNING, "has stopped, handlers that ignore their cancellation were left behind: 1");
    } finally {
      release.countDown();
    }
  }

  @Test
  void whatMustBeKnownOfALeaseIsAWarning() {
    try (Records log = new Records("log-lease")) {
      WorkerLog worker = new WorkerLog(List.of("log-lease"), false);
      worker.tell(new WorkerEvent.LeaseLost("q", "a", 7, Optional.of(LostReason.EXPIRED)), 0);
      worker.tell(new WorkerEvent.LeaseLost("q", "b", 8, Optional.empty()), 0);
      worker.tell(new WorkerEvent.SettlementRejected("q", "c", "no reruns here"), 0);
      worker.tell(new WorkerEvent.HandlerIgnoresCancellation("q", "d", Duration.ofSeconds(5)), 0);
      log.until(Level.WARNING, "q/a: EXPIRED");
      log.until(Level.WARNING, "q/b: it was not extended in time");
      log.until(Level.WARNING, "no reruns here");
      log.until(Level.WARNING, "handler of q/d 5 s ago");
    }
  }

  @Test
  void theErrorThatRunThrowsIsNotLoggedAndThatOfStartIs() {
    try (Records log = new Records("log-refused"); FakeServer server = FakeServer.start();
        KeyworkClient client = server.client()) {
      var refusal = Errors.of(Status.Code.NOT_FOUND, Reasons.QUEUE_NOT_FOUND);
      server.script(script -> script.refuseSession(refusal).refuseSession(refusal));
      Worker ran = worker(client, "log-refused", (context, job) -> Outcome.complete());
      assertThrows(WorkerException.class, ran::run);
      // It was thrown; closing has nothing to add.
      ran.close();
      assertEquals("", log.lines(Level.WARNING));
      assertTrue(log.lines(Level.INFO).contains("has stopped"));
      Worker started = worker(client, "log-refused", (context, job) -> Outcome.complete());
      started.start();
      log.until(Level.WARNING, Reasons.QUEUE_NOT_FOUND);
      assertThrows(WorkerException.class, started::close);
    }
  }

  @Test
  void aLogThatBlocksCostsNoLeaseAndHoldsUpNoEnd() {
    CountDownLatch release = new CountDownLatch(1);
    Handler stuck = new Handler() {
      @Override
      public void publish(LogRecord entry) {
        if (entry.getMessage().startsWith("worker of log-stuck")) {
          LeasesTest.awaitStubbornly(release);
          throw new IllegalStateException("the log is broken");
        }
      }

      @Override
      public void flush() {
        // Nothing is held back.
      }

      @Override
      public void close() {
        // Nothing is open.
      }
    };
    Logger logger = Logger.getLogger("dev.keywork");
    logger.addHandler(stuck);
    try (FakeServer server = FakeServer.builder().leaseDuration(Duration.ofMillis(1_500)).start();
        KeyworkClient client = server.client()) {
      client.submit(Submit.of("log-stuck", "a", ""));
      Worker worker = Worker.builder(client, "log-stuck").task((context, job) -> {
        int beats = server.seen().heartbeats();
        server.until("heartbeats", seen -> seen.heartbeats() > beats + 4);
        assertFalse(context.isCancelled());
      }).build();
      worker.start();
      server.until("the job", seen -> seen.completed().size() == 1);
      worker.close();
      assertEquals(0, server.seen().expired());
    } finally {
      release.countDown();
      logger.removeHandler(stuck);
    }
  }
}
