package dev.keywork.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.keywork.errors.KeyworkException;
import dev.keywork.errors.Reasons;
import dev.keywork.internal.v1.GetQueueRequest;
import dev.keywork.job.DeadJob;
import dev.keywork.job.Outcome;
import dev.keywork.job.SettlementOutcome;
import dev.keywork.testing.FakeServer;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Queues, dead letters, and leasing without a worker. */
class LookingAfterTest {
  private FakeServer server;
  private KeyworkClient client;

  @BeforeEach
  void start() {
    server = FakeServer.start();
    client = server.client();
  }

  @AfterEach
  void stop() {
    client.close();
    server.close();
  }

  @Test
  void anUpdateChangesWhatIsSetAndNothingElse() {
    QueueConfig config = QueueConfig.builder()
        .leaseDuration(Duration.ofSeconds(30))
        .maxAttempts(3)
        .backoff(Duration.ofSeconds(1), Duration.ofSeconds(9))
        .build();
    assertEquals(config, client.queues().create("q", config).config());
    Queue updated = client.queues().update("q", QueueConfig.builder().maxAttempts(5).build());
    assertEquals(Optional.of(5), updated.config().maxAttempts());
    assertEquals(config.leaseDuration(), updated.config().leaseDuration());
    assertEquals(config.backoff(), updated.config().backoff());
    KeyworkException error = assertThrows(
        KeyworkException.class, () -> client.queues().create("q", QueueConfig.builder().build()));
    assertEquals(Reasons.QUEUE_EXISTS, error.reason());
  }

  @Test
  void queuesAreListedPageByPage() {
    QueueConfig config = QueueConfig.builder().build();
    List.of("a", "b", "c").forEach(name -> client.queues().create(name, config));
    Page<Queue> first = client.queues().list(PageRequest.first(2));
    assertEquals(List.of("a", "b"), first.items().stream().map(Queue::name).toList());
    Page<Queue> second = client.queues().list(first.next().orElseThrow());
    assertEquals(List.of("c"), second.items().stream().map(Queue::name).toList());
    assertTrue(second.next().isEmpty());
  }

  @Test
  void allPagesAreGoneThroughAndNoneIsAskedForBeforeItsTurn() {
    QueueConfig config = QueueConfig.builder().build();
    List.of("a", "b", "c").forEach(name -> client.queues().create(name, config));
    List<String> asked = new ArrayList<>();
    Function<PageRequest, Page<Queue>> inTwos = page -> {
      asked.add(page.token());
      return client.queues().list(new PageRequest(2, page.token()));
    };
    assertEquals("a", Page.all(inTwos).findFirst().orElseThrow().name());
    assertEquals(1, asked.size());
    assertEquals(List.of("a", "b", "c"), Page.all(inTwos).map(Queue::name).toList());
    assertEquals(3, asked.size());
  }

  @Test
  void nothingIsNothing() {
    assertEquals(List.of(), client.deadLetters().redrive("q", List.of()));
    assertEquals(0, client.deadLetters().delete("q", List.of()));
    assertEquals(List.of(), client.leases().heartbeat(List.of()));
    assertEquals(List.of(), client.leases().ack(List.of()));
    KeyworkException none = assertThrows(KeyworkException.class, () -> client.deadLetters().redriveOldest("q", 0));
    assertEquals("max_jobs", none.violations().get(0).field());
  }

  @Test
  void aQueueIsPausedResumedPurgedAndDeleted() {
    client.submit(Submit.of("q", "a", ""));
    assertTrue(client.queues().pause("q").paused());
    assertTrue(client.leases().pull(Pull.builder("q").wait(Duration.ZERO).build()).isEmpty());
    assertTrue(!client.queues().resume("q").paused());
    assertEquals(1, client.queues().get("q").stats().outstanding());
    assertEquals(
        Reasons.QUEUE_NOT_EMPTY,
        assertThrows(KeyworkException.class, () -> client.queues().delete("q", false)).reason());
    assertEquals(1, client.queues().purge("q"));
    client.queues().delete("q", false);
    assertEquals(
        Reasons.QUEUE_NOT_FOUND, assertThrows(KeyworkException.class, () -> client.queues().get("q")).reason());
  }

  @Test
  void whatIsPulledIsExtendedAndSettledByItsToken() {
    client.submit(Submit.of("q", "a", "v"));
    Leased leased = client.leases().pull(Pull.builder("q").maxJobs(5).workerId("cron").build()).get(0);
    assertEquals("v", leased.job().payload().asText());
    assertTrue(leased.job().fencingNumber() > 0);
    LeaseExtension extension = client.leases().heartbeat(List.of(leased.token())).get(0);
    LeaseToken renewed = assertInstanceOf(LeaseExtension.Extended.class, extension).token();
    Settlement settlement = new Settlement(renewed, Outcome.complete());
    assertEquals(SettlementOutcome.SETTLED, client.leases().ack(List.of(settlement)).get(0).outcome());
    assertEquals(SettlementOutcome.ALREADY_SETTLED, client.leases().ack(List.of(settlement)).get(0).outcome());
    assertInstanceOf(LeaseExtension.Lost.class, client.leases().heartbeat(List.of(renewed)).get(0));
    assertEquals(renewed, LeaseToken.of(renewed.toBytes()));
  }

  @Test
  void deadLettersAreListedRedrivenAndDeleted() {
    for (String key : List.of("a", "b", "c")) {
      client.submit(Submit.of("q", key, "v"));
      Leased leased = client.leases().pull(Pull.builder("q").build()).get(0);
      client.leases().ack(List.of(new Settlement(leased.token(), Outcome.fail("no"))));
    }
    List<DeadJob> dead = client.deadLetters().list("q", PageRequest.first()).items();
    assertEquals(List.of("a", "b", "c"), dead.stream().map(one -> one.job().key()).toList());
    assertEquals(1, client.deadLetters().list("q", "b", PageRequest.first()).items().size());
    Redriven redriven = client.deadLetters().redrive("q", List.of(dead.get(0).deadId())).get(0);
    assertTrue(redriven.result().outcome().isAccepted());
    assertEquals(1, client.deadLetters().delete("q", List.of(dead.get(1).deadId(), 999L)));
    assertEquals(1, client.deadLetters().redriveOldest("q", 10).size());
    assertEquals(0, client.deadLetters().deleteAll("q"));
  }

  @Test
  void deadLettersMayBeRedrivenWhileTheyAreListed() {
    for (String key : List.of("a", "b", "c")) {
      client.submit(Submit.of("q", key));
      Leased leased = client.leases().pull(Pull.builder("q").build()).get(0);
      client.leases().ack(List.of(new Settlement(leased.token(), Outcome.fail("no"))));
    }
    List<String> redriven = new ArrayList<>();
    Page.all(page -> client.deadLetters().list("q", new PageRequest(1, page.token()))).forEach(dead -> {
      client.deadLetters().redrive("q", List.of(dead.deadId()));
      redriven.add(dead.job().key());
    });
    assertEquals(List.of("a", "b", "c"), redriven);
    // The condition may ask the server itself.
    server.until("no dead letter", seen -> client.deadLetters().list("q", PageRequest.first()).items().isEmpty());
  }

  @Test
  void everyRpcIsReachableRaw() {
    client.submit(Submit.of("q", "a", ""));
    GetQueueRequest request = GetQueueRequest.newBuilder().setName("q").build();
    assertEquals("q", client.raw().queueAdmin().getQueue(request).getQueue().getName());
    GetQueueRequest unknown = GetQueueRequest.newBuilder().setName("other").build();
    StatusRuntimeException error = assertThrows(
        StatusRuntimeException.class, () -> client.raw().queueAdmin().getQueue(unknown));
    assertEquals(Reasons.QUEUE_NOT_FOUND, KeyworkException.from(error).reason());
  }
}
