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
import java.util.List;
import java.util.Optional;
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
    assertEquals(config, client.createQueue("q", config).config());
    Queue updated = client.updateQueue("q", QueueConfig.builder().maxAttempts(5).build());
    assertEquals(Optional.of(5), updated.config().maxAttempts());
    assertEquals(config.leaseDuration(), updated.config().leaseDuration());
    assertEquals(config.backoff(), updated.config().backoff());
    KeyworkException error = assertThrows(
        KeyworkException.class, () -> client.createQueue("q", QueueConfig.builder().build()));
    assertEquals(Reasons.QUEUE_EXISTS, error.reason());
  }

  @Test
  void queuesAreListedPageByPage() {
    QueueConfig config = QueueConfig.builder().build();
    List.of("a", "b", "c").forEach(name -> client.createQueue(name, config));
    Page<Queue> first = client.listQueues(PageRequest.first(2));
    assertEquals(List.of("a", "b"), first.items().stream().map(Queue::name).toList());
    Page<Queue> second = client.listQueues(first.next().orElseThrow());
    assertEquals(List.of("c"), second.items().stream().map(Queue::name).toList());
    assertTrue(second.next().isEmpty());
  }

  @Test
  void aQueueIsPausedResumedPurgedAndDeleted() {
    client.submit(Submit.of("q", "a", ""));
    assertTrue(client.pauseQueue("q").paused());
    assertTrue(client.pull(Pull.builder("q").wait(Duration.ZERO).build()).isEmpty());
    assertTrue(!client.resumeQueue("q").paused());
    assertEquals(1, client.getQueue("q").stats().outstanding());
    assertEquals(
        Reasons.QUEUE_NOT_EMPTY,
        assertThrows(KeyworkException.class, () -> client.deleteQueue("q", false)).reason());
    assertEquals(1, client.purgeQueue("q"));
    client.deleteQueue("q", false);
    assertEquals(
        Reasons.QUEUE_NOT_FOUND, assertThrows(KeyworkException.class, () -> client.getQueue("q")).reason());
  }

  @Test
  void whatIsPulledIsExtendedAndSettledByItsToken() {
    client.submit(Submit.of("q", "a", "v"));
    Leased leased = client.pull(Pull.builder("q").maxJobs(5).workerId("cron").build()).get(0);
    assertEquals("v", leased.job().payload().asText());
    assertTrue(leased.job().fencingNumber() > 0);
    LeaseExtension extension = client.heartbeat(List.of(leased.token())).get(0);
    LeaseToken renewed = assertInstanceOf(LeaseExtension.Extended.class, extension).token();
    Settlement settlement = new Settlement(renewed, Outcome.complete());
    assertEquals(SettlementOutcome.SETTLED, client.ack(List.of(settlement)).get(0).outcome());
    assertEquals(SettlementOutcome.ALREADY_SETTLED, client.ack(List.of(settlement)).get(0).outcome());
    assertInstanceOf(LeaseExtension.Lost.class, client.heartbeat(List.of(renewed)).get(0));
    assertEquals(renewed, LeaseToken.of(renewed.toBytes()));
  }

  @Test
  void deadLettersAreListedRedrivenAndDeleted() {
    for (String key : List.of("a", "b", "c")) {
      client.submit(Submit.of("q", key, "v"));
      Leased leased = client.pull(Pull.builder("q").build()).get(0);
      client.ack(List.of(new Settlement(leased.token(), Outcome.fail("no"))));
    }
    List<DeadJob> dead = client.listDeadJobs("q", PageRequest.first()).items();
    assertEquals(List.of("a", "b", "c"), dead.stream().map(one -> one.job().key()).toList());
    assertEquals(1, client.listDeadJobs("q", "b", PageRequest.first()).items().size());
    assertEquals(List.of(), client.redriveDeadJobs("q", List.of()));
    Redriven redriven = client.redriveDeadJobs("q", List.of(dead.get(0).deadId())).get(0);
    assertTrue(redriven.result().outcome().isAccepted());
    assertEquals(1, client.deleteDeadJobs("q", List.of(dead.get(1).deadId(), 999L)));
    assertEquals(1, client.redriveOldestDeadJobs("q", 10).size());
    assertEquals(0, client.deleteAllDeadJobs("q"));
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
