package dev.keywork.worker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.keywork.job.LostReason;
import dev.keywork.job.Outcome;
import dev.keywork.support.Errors;
import dev.keywork.support.Log;
import dev.keywork.support.Scene;
import dev.keywork.testing.FakeServer;
import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** A worker extends what it holds, and stops a handler before its lease can be somebody else's. */
class LeasesTest {
  @Test
  void aJobThatTakesManyLeaseDurationsRunsOnce() {
    try (Scene scene = Scene.withShortLeases()) {
      scene.submit("long");
      Worker worker = scene.start(scene.builder());
      scene.server.until("many heartbeats", seen -> seen.heartbeats() >= 10);
      scene.openGate();
      scene.untilCompleted("long");
      assertEquals(1, scene.server.seen().delivered().size());
      assertEquals(0, scene.server.seen().expired());
      scene.drain(worker);
    }
  }

  @Test
  void handlersThatBurnCpuCostNoHeartbeat() {
    try (Scene scene = Scene.withShortLeases()) {
      scene.submit("hot-1", "hot-2", "hot-3", "hot-4");
      Worker worker = scene.run(scene.builder().task((context, job) -> {
        long end = System.nanoTime() + Duration.ofSeconds(3).toNanos();
        while (System.nanoTime() < end) {
          Thread.onSpinWait();
        }
      }));
      scene.server.until("completion", seen -> seen.completed().size() == 4);
      assertEquals(4, scene.server.seen().delivered().size());
      assertEquals(0, worker.counts().leasesLost());
      scene.drain(worker);
    }
  }

  @Test
  void aWorkerWhoseHeartbeatsAreNotAnsweredStopsItsHandlersBeforeTheDeadline() {
    try (Scene scene = Scene.withShortLeases()) {
      scene.submit("a");
      scene.server.script(script -> script.ignoreHeartbeats(true));
      Worker worker = scene.start(scene.builder());
      scene.untilCancelled("a", CancelReason.LEASE_LOST);
      assertEquals(0, scene.server.seen().expired(), "the lease had not run out yet");
      scene.server.script(script -> script.ignoreHeartbeats(false));
      scene.server.until("another delivery", seen -> seen.delivered().size() == 2);
      scene.openGate();
      scene.server.until("completion", seen -> !seen.completed().isEmpty());
      assertEquals(1, scene.server.seen().settlements().size(), "the first handler's result was dropped");
      assertEquals(1, worker.counts().droppedResults());
      scene.drain(worker);
    }
  }

  @Test
  void aLeaseThatTheServerTakesAwayCancelsItsHandlerAtOnce() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a", "b");
      Worker worker = scene.start(scene.builder());
      scene.untilStarted(2);
      long before = System.nanoTime();
      scene.server.loseLease("q", "a", LostReason.EXPIRED, true);
      scene.untilCancelled("a", CancelReason.LEASE_LOST);
      Duration took = Duration.ofNanos(System.nanoTime() - before);
      assertTrue(took.compareTo(Duration.ofSeconds(1)) < 0, took.toString());
      scene.events.untilAny("the event", event -> event instanceof WorkerEvent.LeaseLost lost
          && lost.key().equals("a")
          && lost.reason().orElseThrow() == LostReason.EXPIRED);
      scene.openGate();
      scene.drain(worker);
    }
  }

  @Test
  void aJobThatIsCancelledTellsItsHandlerSo() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a");
      Worker worker = scene.start(scene.builder());
      scene.untilStarted(1);
      assertEquals(1, scene.client.queues().purge("q"));
      scene.untilCancelled("a", CancelReason.JOB_CANCELLED);
      scene.drain(worker);
    }
  }

  @Test
  void aLossThatOnlyAHeartbeatTellsCancelsToo() {
    try (Scene scene = Scene.withShortLeases()) {
      scene.submit("a");
      Worker worker = scene.start(scene.builder().concurrency(1));
      scene.untilStarted(1);
      scene.client.queues().pause("q");
      scene.server.loseLease("q", "a", LostReason.EXPIRED, false);
      scene.untilCancelled("a", CancelReason.LEASE_LOST);
      scene.drain(worker);
    }
  }

  @Test
  void whereThereIsADisconnectGraceHandlersStopThatLongAfterTheStreamBroke() {
    FakeServer server = FakeServer.builder()
        .leaseDuration(Duration.ofSeconds(60))
        .disconnectGrace(Duration.ofMillis(500))
        .start();
    try (Scene scene = new Scene(server)) {
      scene.submit("a");
      Worker worker = scene.start(scene.builder());
      scene.untilStarted(1);
      IntStream.range(0, 20).forEach(
          number -> server.script(script -> script.refuseSession(Errors.of(Status.Code.UNAVAILABLE))));
      server.endSessions();
      scene.untilCancelled("a", CancelReason.LEASE_LOST);
      server.script(script -> script.refuseNoMore());
      scene.openGate();
      scene.untilCompleted("a");
      scene.drain(worker);
    }
  }

  @Test
  void aHandlerThatLostItsLeaseKeepsItsSlotUntilItEnds() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("stubborn");
      Log<String> started = new Log<>();
      CountDownLatch release = new CountDownLatch(1);
      Worker worker = scene.run(scene.builder().concurrency(2).task((context, job) -> {
        started.add(job.key());
        awaitStubbornly(release);
      }));
      started.until("the handler", keys -> keys.size() == 1);
      scene.client.queues().purge("q");
      scene.server.until("a lower capacity", seen -> seen.capacity() == 1);
      scene.events.untilAny("the report", WorkerEvent.HandlerIgnoresCancellation.class::isInstance);
      release.countDown();
      scene.server.until("the full capacity", seen -> seen.capacity() == 2);
      assertEquals(1, worker.counts().droppedResults());
      scene.drain(worker);
    }
  }

  /** Waits whatever interrupts it. */
  static void awaitStubbornly(CountDownLatch latch) {
    while (true) {
      try {
        latch.await();
        return;
      } catch (InterruptedException ignored) {
        continue;
      }
    }
  }

  @Test
  void noMoreHandlersRunAtOnceThanTheConcurrencySays() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a", "b", "c", "d", "e");
      Worker worker = scene.start(scene.builder().concurrency(2));
      scene.untilStarted(2);
      assertEquals(2, scene.server.seen().delivered().size(), "what has no slot stays in the queue");
      scene.openGate();
      scene.server.until("all to complete", seen -> seen.completed().size() == 5);
      scene.drain(worker);
    }
  }

  @Test
  void theDeadlineOfAContextMovesWithTheHeartbeats() {
    try (Scene scene = Scene.withShortLeases()) {
      scene.submit("a");
      Worker worker = scene.run(scene.builder().task((context, job) -> {
        Duration least = context.timeLeft();
        while (context.timeLeft().compareTo(least) <= 0) {
          least = context.timeLeft();
          Thread.onSpinWait();
        }
      }));
      scene.untilCompleted("a");
      assertTrue(scene.server.seen().heartbeats() > 0);
      scene.drain(worker);
    }
  }

  @Test
  void aHeartbeatThatCouldNotBeConfirmedExtendsNothing() {
    try (Scene scene = Scene.withShortLeases()) {
      scene.submit("a");
      scene.server.script(script -> script.unconfirmedHeartbeats(true));
      Worker worker = scene.start(scene.builder());
      scene.untilCancelled("a", CancelReason.LEASE_LOST);
      assertEquals(0, scene.server.seen().expired(), "in time");
      assertEquals(1, scene.server.seen().hellos().size(), "the session went on");
      scene.server.script(script -> script.unconfirmedHeartbeats(false));
      scene.openGate();
      scene.drain(worker);
    }
  }

  @Test
  void whatIsToHappenOnACancellationHappensOnceAlsoWhenAskedForTooLate() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a");
      Log<String> log = new Log<>();
      Worker worker = scene.run(scene.builder().handler((context, job) -> {
        context.onCancel(() -> log.add("before"));
        log.add("started");
        try {
          new CountDownLatch(1).await();
        } catch (InterruptedException interrupted) {
          log.add("interrupted: " + context.isCancelled());
        }
        context.onCancel(() -> log.add("after"));
        return Outcome.complete();
      }));
      log.untilAny("the start", "started"::equals);
      scene.server.loseLease("q", "a", LostReason.CANCELLED, true);
      log.untilAny("the late one", "after"::equals);
      List<String> all = log.untilAny("the early one", "before"::equals);
      assertTrue(all.contains("interrupted: true"), all.toString());
      assertEquals(1, all.stream().filter("before"::equals).count());
      scene.drain(worker);
    }
  }
}
