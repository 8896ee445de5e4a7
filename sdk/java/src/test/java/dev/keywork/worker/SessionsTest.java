package dev.keywork.worker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.keywork.client.KeyworkClient;
import dev.keywork.errors.KeyworkException;
import dev.keywork.errors.Reasons;
import dev.keywork.support.Errors;
import dev.keywork.support.Scene;
import dev.keywork.testing.FakeServer;
import dev.keywork.testing.GoAwayReason;
import dev.keywork.testing.Seen;
import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** A worker keeps its session whatever the server does, and stops only when it must. */
class SessionsTest {
  @Test
  void aStreamThatEndsOkIsOpenedAgainAndItsLeasesAreClaimed() {
    // So long that no heartbeat is due by itself while the test waits.
    FakeServer server = FakeServer.builder().leaseDuration(Duration.ofSeconds(120)).start();
    try (Scene scene = new Scene(server)) {
      scene.submit("a");
      Worker worker = scene.start(scene.builder());
      scene.untilStarted(1);
      server.endSessions();
      Seen seen = server.until("a second session", now -> now.hellos().size() == 2);
      assertEquals(0, seen.hellos().get(0).heldLeases());
      assertEquals(1, seen.hellos().get(1).heldLeases(), "the lease is claimed");
      assertEquals("ticket-1", seen.hellos().get(1).sessionTicket(), "with the newest ticket");
      assertEquals(seen.hellos().get(0).workerId(), seen.hellos().get(1).workerId());
      // It was extended last through the first session: how much time it has left is not to be counted on.
      server.until("a heartbeat at once", now -> now.heartbeats() > 0);
      scene.openGate();
      scene.untilCompleted("a");
      assertEquals(List.of("a"), server.seen().delivered(), "it ran once");
      scene.drain(worker);
    }
  }

  @Test
  void everyStatusThatIsNoRefusalMeansReconnect() {
    List<Status.Code> codes = List.of(
        Status.Code.UNAVAILABLE,
        Status.Code.UNKNOWN,
        Status.Code.CANCELLED,
        Status.Code.INTERNAL,
        Status.Code.RESOURCE_EXHAUSTED,
        Status.Code.ABORTED);
    try (Scene scene = Scene.withLongLeases()) {
      Worker worker = scene.start(scene.builder());
      for (int ended = 0; ended < codes.size(); ended++) {
        int sessions = ended + 1;
        scene.server.until("a session", seen -> seen.hellos().size() == sessions && seen.sessions() == 1);
        scene.server.endSessions(Errors.of(codes.get(ended)));
      }
      scene.server.until("a last session", seen -> seen.hellos().size() == codes.size() + 1);
      scene.drain(worker);
    }
  }

  @ParameterizedTest
  @EnumSource(
      value = Status.Code.class,
      names = {"INVALID_ARGUMENT", "UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND", "UNIMPLEMENTED"})
  void aRefusalStopsTheWorkerAndIsTold(Status.Code code) {
    try (Scene scene = Scene.withLongLeases()) {
      scene.server.script(script -> script.refuseSession(Errors.of(code)));
      Worker worker = scene.start(scene.builder());
      WorkerException error = scene.end(worker);
      assertEquals(WorkerException.Kind.REFUSED, error.kind());
      assertEquals(code, ((KeyworkException) error.getCause()).code());
      List<WorkerEvent> events = scene.events.all();
      assertTrue(events.get(events.size() - 2) instanceof WorkerEvent.Failed, events.toString());
      assertEquals(new WorkerEvent.Stopped(0, 0), events.get(events.size() - 1));
    }
  }

  @Test
  void aRefusalInTheMiddleCancelsTheHandlers() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a");
      Worker worker = scene.start(scene.builder());
      scene.untilStarted(1);
      scene.server.endSessions(Errors.of(Status.Code.PERMISSION_DENIED));
      scene.untilCancelled("a", CancelReason.LEASE_LOST);
      assertEquals(WorkerException.Kind.REFUSED, scene.end(worker).kind());
    }
  }

  @Test
  void aServerThatNeverSaysWelcomeIsLeft() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.server.script(script -> script.unwelcomeSessions(1));
      scene.submit("a");
      Worker worker = scene.start(scene.builder());
      scene.untilStarted(1);
      assertTrue(scene.events.all().stream().anyMatch(WorkerEvent.Degraded.class::isInstance));
      assertEquals(2, scene.server.seen().hellos().size());
      scene.openGate();
      scene.drain(worker);
    }
  }

  @Test
  void aServerThatFallsSilentIsLeftWithinItsLivenessTimeout() {
    try (Scene scene = Scene.withShortLeases()) {
      Worker worker = scene.start(scene.builder());
      scene.untilReady();
      scene.server.script(script -> script.silent(true));
      scene.events.untilAny("the silence", WorkerEvent.Degraded.class::isInstance);
      assertFalse(worker.healthy());
      scene.server.script(script -> script.silent(false));
      scene.submit("a");
      scene.openGate();
      scene.untilCompleted("a");
      scene.drain(worker);
    }
  }

  @Test
  void aSupersededWorkerStopsAndDoesNotComeBack() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a");
      Worker older = scene.start(scene.builder().workerId("same"));
      scene.untilStarted(1);
      Worker newer = scene.start(scene.builder().workerId("same"));
      assertEquals(WorkerException.Kind.SUPERSEDED, scene.end(older).kind());
      scene.untilCancelled("a", CancelReason.LEASE_LOST);
      Seen seen = scene.server.until("the job to be handed on", now -> now.delivered().size() == 2);
      assertEquals(2, seen.hellos().size(), "no ping-pong");
      scene.openGate();
      scene.drain(newer);
    }
  }

  @Test
  void aStreamThatEndsAsSupersededStopsTheWorkerToo() {
    try (Scene scene = Scene.withLongLeases()) {
      Worker worker = scene.start(scene.builder());
      scene.server.until("a session", seen -> seen.sessions() == 1);
      scene.server.endSessions(Errors.of(Status.Code.ABORTED, Reasons.SESSION_SUPERSEDED));
      assertEquals(WorkerException.Kind.SUPERSEDED, scene.end(worker).kind());
    }
  }

  @Test
  void aHelloThatWasTooSlowIsSaidAgain() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.server.script(
          script -> script.refuseSession(Errors.of(Status.Code.UNAVAILABLE, Reasons.HELLO_LATE)));
      Worker worker = scene.start(scene.builder());
      scene.server.until("a session", seen -> seen.sessions() == 1);
      scene.drain(worker);
    }
  }

  @Test
  void aServerThatDrainsIsLeftWithTheLeasesKept() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.submit("a");
      Worker worker = scene.start(scene.builder());
      scene.untilStarted(1);
      scene.server.goAway(GoAwayReason.DRAINING, Duration.ofMillis(50));
      Seen seen = scene.server.until("a second session", now -> now.hellos().size() == 2);
      assertEquals(1, seen.hellos().get(1).heldLeases());
      scene.openGate();
      scene.untilCompleted("a");
      assertEquals(1, scene.server.seen().delivered().size());
      scene.drain(worker);
    }
  }

  @Test
  void aWorkerIsHealthyWhileItsSessionIsLive() {
    try (Scene scene = Scene.withLongLeases()) {
      scene.server.script(script -> script.refuseSession(Errors.of(Status.Code.UNAVAILABLE)));
      Worker worker = scene.start(scene.builder());
      assertFalse(worker.healthy());
      scene.untilReady();
      assertTrue(worker.healthy());
      assertEquals(1, worker.counts().sessions());
      scene.drain(worker);
      assertFalse(worker.healthy());
      WorkerException again = assertThrows(WorkerException.class, worker::run);
      assertEquals(WorkerException.Kind.STARTED_BEFORE, again.kind());
    }
  }

  @Test
  void aServerThatIsAwayIsLeftForTheNext() {
    try (Scene scene = Scene.withLongLeases();
        FakeServer gone = FakeServer.start()) {
      gone.close();
      scene.submit("a");
      scene.openGate();
      for (int tries = 0; tries < 4; tries++) {
        // A worker begins with any of its servers.
        try (KeyworkClient both =
            KeyworkClient.builder().endpoint(gone.endpoint()).endpoint(scene.server.endpoint()).build()) {
          Worker worker = scene.start(Worker.builder(both, "q").onEvent(scene.events::add));
          scene.untilReady();
          scene.drain(worker);
        }
      }
      scene.untilCompleted("a");
    }
  }
}
