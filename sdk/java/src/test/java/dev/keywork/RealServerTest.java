package dev.keywork;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.keywork.client.KeyworkClient;
import dev.keywork.client.LeaseExtension;
import dev.keywork.client.Leased;
import dev.keywork.client.PageRequest;
import dev.keywork.client.Pull;
import dev.keywork.client.Queue;
import dev.keywork.client.QueueConfig;
import dev.keywork.client.Settlement;
import dev.keywork.client.Submit;
import dev.keywork.client.SubmitOutcome;
import dev.keywork.client.SubmitResult;
import dev.keywork.errors.KeyworkException;
import dev.keywork.errors.Reasons;
import dev.keywork.job.DeadJob;
import dev.keywork.job.DeadReason;
import dev.keywork.job.JobState;
import dev.keywork.job.Outcome;
import dev.keywork.job.SettlementOutcome;
import dev.keywork.support.Log;
import dev.keywork.support.RealServer;
import dev.keywork.worker.CancelReason;
import dev.keywork.worker.Worker;
import dev.keywork.worker.WorkerEvent;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** The same against the real server, with a real nats-server. */
@EnabledIfEnvironmentVariable(named = "KEYWORK_BIN", matches = ".+")
class RealServerTest {
  private static RealServer server;
  private static KeyworkClient client;

  @BeforeAll
  static void start() {
    server = new RealServer();
    client = server.client();
  }

  @AfterAll
  static void stop() {
    client.close();
    server.close();
  }

  @Test
  void aJobGoesFromSubmitToItsEndAndTheKeyIsFree() {
    assertInstanceOf(SubmitOutcome.Created.class, client.submit(Submit.of("ends", "a", "v1")));
    SubmitOutcome busy = client.submit(Submit.of("ends", "a", "v2"));
    assertInstanceOf(SubmitOutcome.AlreadyOutstanding.class, busy);
    assertEquals(JobState.QUEUED, busy.job().state());
    Log<WorkerEvent> events = new Log<>();
    Log<String> payloads = new Log<>();
    try (Worker worker = Worker.builder(client, "ends")
        .onEvent(events::add)
        .task((context, job) -> payloads.add(job.payload().asText()))
        .build()) {
      worker.start();
      events.untilAny("the settlement", event -> event instanceof WorkerEvent.Settled settled
          && settled.outcome() == SettlementOutcome.SETTLED);
      assertInstanceOf(SubmitOutcome.Created.class, client.submit(Submit.of("ends", "a", "v3")));
      payloads.until("the second run", all -> all.equals(List.of("v1", "v3")));
    }
  }

  @Test
  void aFailedJobIsADeadLetterAndCanBeRedriven() {
    client.submit(Submit.of("fails", "a", ""));
    Log<String> log = new Log<>();
    try (Worker worker = Worker.builder(client, "fails")
        .handler((context, job) -> Outcome.fail("no such user"))
        .onEvent(event -> log.add(event.getClass().getSimpleName()))
        .build()) {
      worker.start();
      log.untilAny("the settlement", "Settled"::equals);
    }
    DeadJob dead = client.deadLetters().list("fails", PageRequest.first()).items().get(0);
    assertEquals(DeadReason.FAILED, dead.reason());
    assertEquals("no such user", dead.job().lastError());
    var redriven = client.deadLetters().redrive("fails", List.of(dead.deadId())).get(0);
    assertInstanceOf(SubmitOutcome.Created.class, redriven.result().outcome());
    assertEquals(1, client.getJob("fails", "a").orElseThrow().attempt());
  }

  @Test
  void errorsSayWhatTheContractSays() {
    KeyworkException tooLong =
        assertThrows(KeyworkException.class, () -> client.submit(Submit.of("errors", "k".repeat(513), "")));
    assertEquals(Reasons.INVALID_FIELD, tooLong.reason());
    assertEquals("key", tooLong.violations().get(0).field());
    assertTrue(tooLong.hasNoSideEffects());
    KeyworkException unknown = assertThrows(KeyworkException.class, () -> client.queues().get("no-such-queue"));
    assertEquals(Reasons.QUEUE_NOT_FOUND, unknown.reason());
  }

  @Test
  void theErrorOfOneOfManyIsThatOfOneAlone() {
    Submit bad = Submit.of("q", "");
    KeyworkException alone = assertThrows(KeyworkException.class, () -> client.submit(bad));
    for (List<SubmitResult> results : List.of(client.submitBatch(List.of(bad)), client.submitMany(List.of(bad)))) {
      KeyworkException among = results.get(0).error().orElseThrow();
      assertEquals(alone.getMessage(), among.getMessage());
      assertEquals(alone.violations(), among.violations());
      assertEquals(alone.code(), among.code());
    }
  }

  @Test
  void whatIsPulledIsExtendedAndSettled() {
    client.submit(Submit.of("pulled", "a", "v"));
    Leased leased = client.leases().pull(Pull.builder("pulled").wait(Duration.ofSeconds(5)).build()).get(0);
    var extended = assertInstanceOf(
        LeaseExtension.Extended.class, client.leases().heartbeat(List.of(leased.token())).get(0));
    var settlement = new Settlement(extended.token(), Outcome.complete());
    assertEquals(SettlementOutcome.SETTLED, client.leases().ack(List.of(settlement)).get(0).outcome());
    assertTrue(client.getJob("pulled", "a").isEmpty());
  }

  @Test
  void aQueueIsConfiguredPausedAndPurged() {
    QueueConfig config = QueueConfig.builder().leaseDuration(Duration.ofSeconds(7)).maxAttempts(3).build();
    Queue made = client.queues().create("configured", config);
    assertEquals(Duration.ofSeconds(7), made.config().leaseDuration().orElseThrow());
    Queue updated = client.queues().update("configured", QueueConfig.builder().maxAttempts(4).build());
    assertEquals(4, updated.config().maxAttempts().orElseThrow());
    assertEquals(Duration.ofSeconds(7), updated.config().leaseDuration().orElseThrow());
    assertTrue(client.queues().pause("configured").paused());
    client.submit(Submit.of("configured", "a", ""));
    assertEquals(1, client.queues().purge("configured"));
    client.queues().delete("configured", true);
  }

  @Test
  void thousandsOfJobsRunOnceEach() {
    List<Submit> submits =
        IntStream.range(0, 2_000).mapToObj(number -> Submit.of("many", "key-" + number, "v")).toList();
    Log<String> ran = new Log<>();
    try (Worker worker = Worker.builder(client, "many")
        .concurrency(100)
        .task((context, job) -> ran.add(job.key()))
        .build()) {
      worker.start();
      assertTrue(client.submitMany(submits).stream()
          .allMatch(result -> result.outcome() instanceof SubmitOutcome.Created));
      List<String> all = ran.until("all to run", keys -> keys.size() >= 2_000);
      assertEquals(2_000, all.stream().distinct().count());
    }
  }

  @Test
  void aPurgeTellsTheHandlerThatItsJobIsCancelled() {
    client.submit(Submit.of("purged", "a", ""));
    Log<Object> log = new Log<>();
    try (Worker worker = Worker.builder(client, "purged").task((context, job) -> {
      context.onCancel(() -> log.add(context.reason().orElseThrow()));
      log.add("started");
      new CountDownLatch(1).await();
    }).build()) {
      worker.start();
      log.untilAny("the handler", "started"::equals);
      client.queues().purge("purged");
      log.untilAny("the cancellation", CancelReason.JOB_CANCELLED::equals);
    }
  }

  @Test
  void aJobOutlivesTheRestartOfItsServer() {
    try (RealServer other = new RealServer();
        KeyworkClient its = other.client()) {
      its.submit(Submit.of("restarts", "a", ""));
      CountDownLatch gate = new CountDownLatch(1);
      Log<String> log = new Log<>();
      try (Worker worker = Worker.builder(its, "restarts")
          .onEvent(event -> log.add(event.getClass().getSimpleName()))
          .task((context, job) -> {
            log.add("started");
            gate.await();
            log.add("ended");
          })
          .build()) {
        worker.start();
        log.untilAny("the handler", "started"::equals);
        other.stop();
        log.untilAny("the end of the session", "Degraded"::equals);
        other.start();
        log.until("another session", all -> all.stream().filter("Ready"::equals).count() == 2);
        gate.countDown();
        log.untilAny("the settlement", "Settled"::equals);
      }
      assertEquals(1, log.all().stream().filter("started"::equals).count());
      assertTrue(its.getJob("restarts", "a").isEmpty());
    }
  }
}
