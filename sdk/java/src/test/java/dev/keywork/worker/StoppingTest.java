package dev.keywork.worker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.keywork.job.Outcome;
import dev.keywork.support.Errors;
import dev.keywork.support.Log;
import dev.keywork.support.Scene;
import dev.keywork.testing.Seen;
import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;

/** A worker that is told to stop finishes, releases, and leaves nothing to run out. */
class StoppingTest {
  @Test
  void aDrainFinishesWhatRunsAndStartsNothingNew() {
    try (Scene scene = Scene.withShortLeases()) {
      scene.submit("a", "b", "c");
      Worker worker = scene.start(scene.builder().concurrency(2));
      scene.untilStarted(2);
      worker.drain();
      int before = scene.server.until("the drain", seen -> seen.drains() == 1).heartbeats();
      // Several lease durations: heartbeats go on until the last settlement.
      scene.server.until("heartbeats", seen -> seen.heartbeats() >= before + 6);
      scene.openGate();
      assertNull(scene.end(worker));
      Seen seen = scene.server.seen();
      assertEquals(2, seen.completed().size());
      assertEquals(2, seen.delivered().size());
      assertEquals(0, seen.expired());
      assertEquals(1, scene.server.outstanding("q", "c").orElseThrow().attempt());
    }
  }

  @Test
  void anIdleWorkerDrainsAtOnce() {
    try (Scene scene = Scene.withLongLeases()) {
      Worker worker = scene.start(scene.builder());
      scene.server.until("a session", seen -> seen.sessions() == 1);
      scene.drain(worker);
      scene.server.until("the session's end", seen -> seen.sessions() == 0);
    }
  }

  @Test
  void aWorkerThatNeverReachedAServerDrainsAtOnce() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.server.script(script -> script.unwelcomeSessions(10));
      Worker worker = scene.start(scene.builder());
      scene.server.until("a try", seen -> !seen.hellos().isEmpty());
      scene.drain(worker);
    }
  }

  @Test
  void afterTheGraceHandlersAreCancelledAndTheirJobsReleased() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a");
      Worker worker = scene.start(scene.builder().shutdownGrace(Duration.ofMillis(100)));
      scene.untilStarted(1);
      scene.drain(worker);
      scene.untilCancelled("a", CancelReason.WORKER_SHUTDOWN);
      assertEquals(List.of("a"), scene.server.seen().settled(Outcome.Release.class));
      assertEquals(1, scene.server.outstanding("q", "a").orElseThrow().attempt(), "no attempt is lost");
    }
  }

  @Test
  void whatAHandlerReturnsAfterTheGraceStillCounts() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a");
      Log<String> started = new Log<>();
      Worker worker = scene.run(scene.builder().shutdownGrace(Duration.ofMillis(50)).task((context, job) -> {
        started.add(job.key());
        try {
          new CountDownLatch(1).await();
        } catch (InterruptedException cancelled) {
          assertEquals(CancelReason.WORKER_SHUTDOWN, context.reason().orElseThrow());
        }
      }));
      started.until("the handler", keys -> keys.size() == 1);
      scene.drain(worker);
      assertEquals(List.of("a"), scene.server.seen().completed());
    }
  }

  @Test
  void aHandlerThatIgnoresItsCancellationIsLeftBehindWithItsLease() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a");
      Log<String> started = new Log<>();
      CountDownLatch release = new CountDownLatch(1);
      Worker worker = scene.run(scene.builder().shutdownGrace(Duration.ofMillis(50)).task((context, job) -> {
        started.add(job.key());
        LeasesTest.awaitStubbornly(release);
      }));
      started.until("the handler", keys -> keys.size() == 1);
      worker.drain();
      assertNull(scene.end(worker));
      scene.events.untilAny("the report", new WorkerEvent.Stopped(1, 0)::equals);
      // Its job is not given to anybody while it runs.
      assertTrue(scene.server.seen().settlements().isEmpty());
      release.countDown();
    }
  }

  @Test
  void whatNobodyConfirmedIsCountedAtTheEndOfADrain() {
    try (Scene scene = Scene.withLongLeases()) {
      Worker worker = unanswered(scene);
      scene.drain(worker);
      scene.events.untilAny("the end", new WorkerEvent.Stopped(0, 1)::equals);
    }
  }

  @Test
  void whatNobodyConfirmedIsCountedWhereTheSessionIsRefused() {
    try (Scene scene = Scene.withLongLeases()) {
      Worker worker = unanswered(scene);
      scene.server.script(script -> script.refuseSession(Errors.of(Status.Code.PERMISSION_DENIED)));
      scene.server.endSessions();
      assertEquals(WorkerException.Kind.REFUSED, scene.end(worker).kind());
      scene.events.untilAny("the end", new WorkerEvent.Stopped(0, 1)::equals);
    }
  }

  /** A worker whose handler has ended, at a server that confirms no settlement. */
  private static Worker unanswered(Scene scene) {
    scene.server.script(script -> script.unansweredSettlements(1_000));
    scene.submit("a");
    scene.openGate();
    Worker worker = scene.start(scene.builder().shutdownGrace(Duration.ZERO).cancelGrace(Duration.ZERO));
    scene.server.until("the settlement", seen -> seen.settlements().size() == 1);
    return worker;
  }

  @Test
  void aSecondOrderReleasesEverythingAndIsAnError() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a", "b");
      Worker worker = scene.start(scene.builder());
      scene.untilStarted(2);
      worker.drain();
      scene.events.untilAny("the drain", WorkerEvent.Draining.class::isInstance);
      worker.releaseAll();
      assertEquals(WorkerException.Kind.FORCED, scene.end(worker).kind());
      List<String> released = scene.server.seen().settled(Outcome.Release.class);
      assertEquals(List.of("a", "b"), released.stream().sorted().toList());
    }
  }

  @Test
  void theFirstSignalAfterADrainByHandIsTheFirst() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a");
      Worker worker = scene.start(scene.builder());
      scene.untilStarted(1);
      worker.drain();
      scene.server.until("the drain", seen -> seen.drains() == 1);
      worker.onSignal();
      scene.openGate();
      assertNull(scene.end(worker));
      assertEquals(List.of("a"), scene.server.seen().completed());
    }
  }

  @Test
  void aSecondSignalReleasesEverything() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a");
      Worker worker = scene.start(scene.builder());
      scene.untilStarted(1);
      worker.onSignal();
      worker.onSignal();
      assertEquals(WorkerException.Kind.FORCED, scene.end(worker).kind());
      assertEquals(List.of("a"), scene.server.seen().settled(Outcome.Release.class));
    }
  }

  @Test
  void closingDrainsAndWaits() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a");
      scene.openGate();
      try (Worker worker = scene.start(scene.builder())) {
        scene.untilStarted(1);
        assertEquals(1, worker.counts().started());
      }
      scene.untilCompleted("a");
      assertTrue(scene.events.all().contains(new WorkerEvent.Stopped(0, 0)));
    }
  }

  @Test
  void anInterruptedRunReleasesItsJobs() throws InterruptedException {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a");
      Log<String> started = new Log<>();
      Worker worker = scene.builder().task((context, job) -> {
        started.add(job.key());
        new CountDownLatch(1).await();
      }).build();
      Log<WorkerException> ended = new Log<>();
      Thread runner = new Thread(() -> ended.add(assertThrows(WorkerException.class, worker::run)));
      runner.start();
      started.until("the handler", keys -> keys.size() == 1);
      runner.interrupt();
      ended.until("the end", all -> all.size() == 1);
      assertEquals(WorkerException.Kind.FORCED, ended.all().get(0).kind());
      assertEquals(List.of("a"), scene.server.seen().settled(Outcome.Release.class));
      runner.join();
    }
  }

  @Test
  void settlementsAreFlushedAlthoughTheStreamBreaksDuringTheDrain() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a");
      Worker worker = scene.start(scene.builder());
      scene.untilStarted(1);
      worker.drain();
      scene.server.until("the drain", seen -> seen.drains() == 1);
      scene.server.endSessions();
      scene.openGate();
      assertNull(scene.end(worker));
      assertEquals(List.of("a"), scene.server.seen().completed());
    }
  }

  @Test
  void aDrainWhileTheSessionOpensLeavesNoDeliveryBehind() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a", "b", "c", "d");
      scene.openGate();
      for (int tries = 0; tries < 20; tries++) {
        Worker worker = scene.start(scene.builder().workerId("worker-" + tries));
        // Somewhere between the first packet and the first delivery.
        for (int turns = 0; turns < tries * 20; turns++) {
          Thread.yield();
        }
        scene.drain(worker);
      }
      Seen seen = scene.server.seen();
      int ended = seen.completed().size() + seen.settled(Outcome.Release.class).size();
      assertEquals(seen.delivered().size(), ended, "every delivery was settled");
    }
  }
}
