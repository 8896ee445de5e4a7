package dev.keywork.worker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.keywork.job.Outcome;
import dev.keywork.support.Log;
import dev.keywork.support.Scene;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import org.junit.jupiter.api.Test;

/** Executors, listeners, callbacks and callers that do what they should not: it costs no lease, and is told. */
class BadCompanyTest {
  private static void assertRetriedBecause(Executor executor, String why) {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a");
      Log<Thread> ran = new Log<>();
      Worker worker = scene.run(scene.builder().executor(executor).task((context, job) -> {
        ran.add(Thread.currentThread());
      }));
      scene.server.until("the retry", seen -> seen.settled(Outcome.Retry.class).size() == 1);
      String error = ((Outcome.Retry) scene.server.seen().settlements().get(0).outcome()).error();
      assertTrue(error.contains(why), error);
      assertTrue(ran.all().isEmpty());
      scene.drain(worker);
    }
  }

  @Test
  void anExecutorThatRunsHandlersOnTheThreadOfTheLeasesIsRefused() {
    assertRetriedBecause(Runnable::run, "room for as many as the concurrency");
  }

  @Test
  void anExecutorThatThrowsEndsTheAttemptAndNotTheWorker() {
    assertRetriedBecause(task -> {
      throw new IllegalStateException("closed");
    }, "closed");
  }

  @Test
  void aListenerThatThrowsIsToldTheNextEvent() {
    try (Scene scene = Scene.withLongLeases()) {
      Log<WorkerEvent> heard = new Log<>();
      Worker worker = scene.start(scene.builder().onEvent(event -> {
        heard.add(event);
        throw new AssertionError("a listener that throws");
      }));
      heard.untilAny("readiness", WorkerEvent.Ready.class::isInstance);
      scene.drain(worker);
      heard.untilAny("the end", WorkerEvent.Stopped.class::isInstance);
    }
  }

  @Test
  void aHandlerThatLocksItsContextHoldsUpNobody() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a");
      CountDownLatch locked = new CountDownLatch(1);
      Worker worker = scene.run(scene.builder().task((context, job) -> {
        synchronized (context) {
          locked.countDown();
          CountDownLatch cancelled = new CountDownLatch(1);
          context.onCancel(cancelled::countDown);
          LeasesTest.awaitStubbornly(cancelled);
        }
      }));
      LeasesTest.awaitStubbornly(locked);
      worker.releaseAll();
      assertEquals(WorkerException.Kind.FORCED, scene.end(worker).kind());
    }
  }

  @Test
  void aWorkerThatWasClosedBeforeItsStartEndsAtOnce() {
    try (Scene scene = Scene.withLongLeases()) {
      Worker worker = scene.builder().task((context, job) -> {}).build();
      worker.close();
      worker.close();
      worker.run();
      assertThrows(WorkerException.class, worker::run);
      worker.close();
    }
  }

  @Test
  void whoCancelsTheFutureOfAStartDoesNotTouchTheWorker() {
    try (Scene scene = Scene.withLongLeases()) {
      Worker worker = scene.builder().task((context, job) -> {}).build();
      worker.start().cancel(true);
      scene.untilReady();
      assertTrue(worker.healthy());
      worker.close();
      assertEquals(new WorkerEvent.Stopped(0, 0), scene.events.all().get(scene.events.all().size() - 1));
    }
  }

  @Test
  void aListenerMayDrainTheWorker() {
    try (Scene scene = Scene.withLongLeases()) {
      Log<Worker> known = new Log<>();
      Worker worker = scene.run(scene.builder().task((context, job) -> {}).onEvent(event -> {
        if (event instanceof WorkerEvent.Ready) {
          known.until("the worker", all -> all.size() == 1).get(0).drain();
        }
      }));
      known.add(worker);
      assertNull(scene.end(worker));
      assertNotEquals(0, worker.counts().sessions());
    }
  }
}
