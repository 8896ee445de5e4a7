package dev.keywork.worker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.keywork.client.Submit;
import dev.keywork.job.DeadJob;
import dev.keywork.job.DeadReason;
import dev.keywork.job.Outcome;
import dev.keywork.job.SettlementOutcome;
import dev.keywork.support.Errors;
import dev.keywork.support.Log;
import dev.keywork.support.Scene;
import dev.keywork.testing.Seen;
import io.grpc.Status;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** What a handler's end means for its job, and that the server hears of it. */
class SettlingTest {
  /** Runs one job through a handler and waits for its settlement. */
  private static Seen settle(Scene scene, JobHandler handler) {
    scene.submit("a");
    Worker worker = scene.run(scene.builder().handler(handler));
    scene.server.until("the settlement", seen -> !seen.settlements().isEmpty());
    scene.drain(worker);
    return scene.server.seen();
  }

  @Test
  void aHandlerThatReturnsCompletesItsJob() {
    try (Scene scene = Scene.withLongLeases()) {
      assertEquals(List.of("a"), settle(scene, (context, job) -> Outcome.complete()).completed());
      assertTrue(scene.server.outstanding("q", "a").isEmpty(), "the key is free");
    }
  }

  @Test
  void anExceptionMeansRetryWithItsTextAndThatOfItsCauses() {
    try (Scene scene = Scene.withLongLeases()) {
      Seen seen = settle(scene, (context, job) -> {
        throw new IllegalStateException("no", new IOException("disk full"));
      });
      Outcome.Retry retry = (Outcome.Retry) seen.settlements().get(0).outcome();
      assertTrue(retry.error().contains("no") && retry.error().contains("disk full"), retry.error());
      assertTrue(retry.delay().isEmpty(), "the queue's backoff");
    }
  }

  @Test
  void anErrorOfTheRuntimeFreesItsSlotToo() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a", "b", "c");
      Worker worker = scene.run(scene.builder().concurrency(1).handler((context, job) -> {
        if (job.attempt() == 1) {
          throw new StackOverflowError("too deep");
        }
        return Outcome.complete();
      }));
      scene.server.until("all to complete", seen -> seen.completed().size() == 3);
      assertEquals(6, worker.counts().started());
      scene.drain(worker);
    }
  }

  @Test
  void typedOutcomesAreSettledAsTheySay() {
    List<Outcome> outcomes = List.of(
        Outcome.retry(Duration.ofMinutes(5)).because("later"), Outcome.fail("never"), Outcome.release());
    for (Outcome outcome : outcomes) {
      try (Scene scene = Scene.withLongLeases()) {
        assertEquals(outcome, settle(scene, (context, job) -> outcome).settlements().get(0).outcome());
      }
    }
  }

  @Test
  void anOutcomeCanBeThrown() {
    try (Scene scene = Scene.withLongLeases()) {
      settle(scene, (context, job) -> {
        throw Outcome.fail("no such user").asException();
      });
      DeadJob dead = scene.server.dead("q").get(0);
      assertEquals(DeadReason.FAILED, dead.reason());
      assertEquals("no such user", dead.job().lastError());
    }
  }

  @Test
  void aHandlerThatReturnsNullHasFailed() {
    try (Scene scene = Scene.withLongLeases()) {
      assertTrue(settle(scene, (context, job) -> null).settlements().get(0).outcome() instanceof Outcome.Retry);
    }
  }

  @Test
  void aSettlementThatTheServerRefusesBecomesARetry() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a");
      Worker worker = scene.run(scene.builder().handler((context, job) ->
          job.attempt() == 1 ? Outcome.rerun(Duration.ZERO) : Outcome.complete()));
      scene.untilCompleted("a");
      scene.events.untilAny("the report", WorkerEvent.SettlementRejected.class::isInstance);
      Outcome.Retry retry = (Outcome.Retry) scene.server.seen().settlements().get(1).outcome();
      assertTrue(retry.error().contains("refused"), retry.error());
      scene.drain(worker);
    }
  }

  @Test
  void aRetryWithADelayThatIsRefusedBecomesOneWithout() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.server.script(script -> script.answerSettlement(SettlementOutcome.REJECTED));
      scene.submit("a");
      Worker worker = scene.run(scene.builder().handler(
          (context, job) -> job.attempt() == 1 ? Outcome.retry(Duration.ofDays(400)) : Outcome.complete()));
      Seen seen = scene.server.until("the second attempt", now -> now.completed().equals(List.of("a")));
      assertEquals(List.of("a"), seen.settled(Outcome.Retry.class));
      scene.drain(worker);
    }
  }

  @Test
  void aLongErrorIsCutBetweenCharacters() {
    try (Scene scene = Scene.withLongLeases()) {
      Seen seen = settle(scene, (context, job) -> Outcome.retry("ü".repeat(5_000) + "!"));
      assertEquals("ü".repeat(1_024), ((Outcome.Retry) seen.settlements().get(0).outcome()).error());
    }
  }

  @Test
  void aSettlementThatIsNotAnsweredIsSentAgainInTheNextSession() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a");
      scene.server.script(script -> script.unansweredSettlements(1));
      scene.openGate();
      Worker worker = scene.start(scene.builder());
      scene.server.until("the settlement", seen -> seen.settlements().size() == 1);
      scene.server.endSessions();
      Seen seen = scene.server.until("the same once more", now -> now.settlements().size() == 2);
      assertEquals(SettlementOutcome.ALREADY_SETTLED, seen.settlements().get(1).answer());
      scene.drain(worker);
      assertEquals(1, worker.counts().settled());
    }
  }

  @Test
  void aSettlementThatCouldNotBeConfirmedIsSentAgain() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a");
      scene.server.script(script -> script.answerSettlement(SettlementOutcome.TRY_AGAIN));
      scene.openGate();
      Worker worker = scene.start(scene.builder());
      scene.untilCompleted("a");
      assertEquals(2, scene.server.seen().settlements().size());
      scene.drain(worker);
      scene.events.untilAny("the event", event -> event instanceof WorkerEvent.Settled settled
          && settled.key().equals("a")
          && settled.fencingNumber() > 0
          && settled.outcome() == SettlementOutcome.SETTLED);
    }
  }

  @Test
  void aSettlementThatComesTooLateIsCountedAndTold() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a");
      scene.server.script(script -> script.answerSettlement(SettlementOutcome.LEASE_LOST));
      scene.openGate();
      Worker worker = scene.start(scene.builder());
      scene.events.untilAny("the event", event -> event instanceof WorkerEvent.Settled settled
          && settled.outcome() == SettlementOutcome.LEASE_LOST);
      assertEquals(1, worker.counts().leasesLost());
      assertEquals(1, worker.counts().droppedResults());
      scene.drain(worker);
    }
  }

  @Test
  void settlementsThatAreReadyTogetherGoInOneMessage() {
    try (Scene scene = Scene.withLongLeases()) {
      List<Submit> submits = new ArrayList<>();
      for (int number = 0; number < 500; number++) {
        submits.add(Submit.of("q", "key-" + number, ""));
      }
      scene.client.submitMany(submits);
      Worker worker = scene.start(scene.builder().concurrency(500));
      scene.untilStarted(500);
      IntStream.range(0, 20).forEach(number ->
          scene.server.script(script -> script.refuseSession(Errors.of(Status.Code.UNAVAILABLE))));
      scene.server.endSessions();
      scene.openGate();
      scene.steps.until("all to end", all -> all.size() == 1_000);
      scene.server.script(script -> script.refuseNoMore());
      Seen seen = scene.server.until("all to complete", now -> now.completed().size() == 500);
      // On a busy machine some handlers return when the first message has gone.
      assertTrue(seen.settlementMessages() <= 10, seen.settlementMessages() + " messages");
      scene.drain(worker);
    }
  }

  @Test
  void interceptorsWrapTheHandlerInTheirOrder() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a");
      Log<String> log = new Log<>();
      Worker worker = scene.run(scene.builder()
          .interceptor((context, job, next) -> {
            log.add("outer");
            Outcome outcome = next.handle(context, job);
            log.add(outcome.toString());
            return Outcome.complete();
          })
          .interceptor((context, job, next) -> {
            log.add("inner");
            return next.handle(context, job.toBuilder().payload("other").build());
          })
          .handler((context, job) -> {
            log.add(job.payload().asText());
            return Outcome.fail("no");
          }));
      scene.untilCompleted("a");
      assertEquals(List.of("outer", "inner", "other", Outcome.fail("no").toString()), log.all());
      scene.drain(worker);
    }
  }

  @Test
  void anExecutorThatRefusesAHandlerCostsNoSlot() {
    ExecutorService closed = Executors.newSingleThreadExecutor();
    closed.shutdown();
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a");
      Worker worker = scene.start(scene.builder().executor(closed));
      Seen seen = scene.server.until("the settlement", now -> !now.settlements().isEmpty());
      assertTrue(seen.settlements().get(0).outcome() instanceof Outcome.Retry);
      scene.drain(worker);
    }
  }

  @Test
  void handlersRunOnVirtualThreadsWhereTheRuntimeHasThem() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a");
      Log<Boolean> virtual = new Log<>();
      Worker worker = scene.run(scene.builder().task((context, job) -> virtual.add(isVirtual(Thread.currentThread()))));
      scene.untilCompleted("a");
      assertEquals(List.of(Runtime.version().feature() >= 21), virtual.all());
      scene.drain(worker);
    }
  }

  private static boolean isVirtual(Thread thread) throws ReflectiveOperationException {
    try {
      return (boolean) Thread.class.getMethod("isVirtual").invoke(thread);
    } catch (NoSuchMethodException older) {
      return false;
    }
  }
}
