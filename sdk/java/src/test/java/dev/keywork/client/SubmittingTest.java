package dev.keywork.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.keywork.errors.FieldViolation;
import dev.keywork.errors.KeyworkException;
import dev.keywork.errors.Reasons;
import dev.keywork.job.JobState;
import dev.keywork.support.Errors;
import dev.keywork.support.Log;
import dev.keywork.testing.FakeServer;
import dev.keywork.testing.SubmitFault;
import io.grpc.Status;
import java.io.IOException;
import java.net.ServerSocket;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** A submit ends with a typed outcome, and is tried again only where that is safe. */
class SubmittingTest {
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
  void aFreeKeyIsCreatedAndABusyOneNamesItsJob() {
    SubmitOutcome.Created created =
        assertInstanceOf(SubmitOutcome.Created.class, client.submit(Submit.of("q", "a", "v1")));
    SubmitOutcome busy = client.submit(Submit.of("q", "a", "v2"));
    assertInstanceOf(SubmitOutcome.AlreadyOutstanding.class, busy);
    assertFalse(busy.isAccepted());
    assertEquals(created.job().id(), busy.job().id());
    assertEquals(JobState.QUEUED, busy.job().state());
    assertEquals("v1", client.getJob("q", "a").orElseThrow().payload().asText());
    assertTrue(client.getJob("q", "free").isEmpty());
  }

  @Test
  void aBusyKeyIsAnErrorForWhoAsksForOne() {
    client.submit(Submit.of("q", "a", ""));
    Submit failing = Submit.builder("q", "a").onConflict(OnConflict.FAIL).build();
    KeyworkException error = assertThrows(KeyworkException.class, () -> client.submit(failing));
    assertEquals(Reasons.KEY_BUSY, error.reason());
    assertEquals(Status.Code.ALREADY_EXISTS, error.code());
    assertFalse(error.isRetryable());
    assertTrue(error.hasNoSideEffects());
  }

  @Test
  void whatIsNotServedYetSurfacesAsThat() {
    Submit rerun = Submit.builder("q", "a").onConflict(OnConflict.RERUN).build();
    assertEquals(
        Status.Code.UNIMPLEMENTED, assertThrows(KeyworkException.class, () -> client.submit(rerun)).code());
    KeyworkException error =
        assertThrows(KeyworkException.class, () -> client.schedules().list(PageRequest.first()));
    assertEquals(Status.Code.UNIMPLEMENTED, error.code());
    try (JobWatch watch = client.watchJobs("q")) {
      assertEquals(
          Status.Code.UNIMPLEMENTED, assertThrows(KeyworkException.class, watch::hasNext).code());
    }
  }

  @Test
  void aRefusalNamesTheFieldAndIsNotRepeated() {
    KeyworkException error =
        assertThrows(KeyworkException.class, () -> client.submit(Submit.of("q", "k".repeat(513), "")));
    assertEquals(Reasons.INVALID_FIELD, error.reason());
    assertEquals("key", error.violations().get(0).field());
    assertTrue(error.getMessage().contains("512"), error.getMessage());
    assertEquals(1, server.seen().submits().size());
  }

  @Test
  void anOutageIsTriedAgainWithTheSameRequestId() {
    server.script(script -> script
        .submitFault(new SubmitFault.Unavailable())
        .submitFault(new SubmitFault.AnswerLost()));
    SubmitOutcome outcome = client.submit(Submit.of("q", "a", ""));
    assertInstanceOf(SubmitOutcome.Created.class, outcome, "its own earlier try is no duplicate");
    List<String> tries = server.seen().submits();
    assertEquals(3, tries.size());
    assertEquals(1, new HashSet<>(tries).size(), tries.toString());
    assertEquals(tries.get(0), outcome.job().id());
  }

  @Test
  void aRequestIdOfTheCallersOwnFindsItsJobAgain() {
    Submit submit = Submit.builder("q", "a").requestId(UUID.randomUUID()).build();
    client.submit(submit);
    assertInstanceOf(SubmitOutcome.Duplicate.class, client.submit(submit));
  }

  @Test
  void aSubmitUsesItsDeadlineUpWhereNobodyIsThere() {
    takesItsDeadline(nobody -> nobody.submit(Submit.of("q", "a", "")));
  }

  @Test
  void aBatchUsesItsDeadlineUpWhereNobodyIsThere() {
    takesItsDeadline(nobody -> nobody.submitBatch(List.of(Submit.of("q", "a", ""), Submit.of("q", "b", ""))));
  }

  @Test
  void aStreamUsesItsDeadlineUpWhereNobodyIsThere() {
    takesItsDeadline(nobody -> {
      SubmitResult last = nobody.submitMany(List.of(Submit.of("q", "a", ""), Submit.of("q", "b", ""))).get(1);
      throw assertInstanceOf(SubmitResult.Failed.class, last).cause();
    });
  }

  private static void takesItsDeadline(Consumer<KeyworkClient> submit) {
    try (KeyworkClient nobody = KeyworkClient.builder()
        .endpoint("http://127.0.0.1:1")
        .submitDeadline(Duration.ofSeconds(2))
        .build()) {
      long begun = System.nanoTime();
      KeyworkException error = assertThrows(KeyworkException.class, () -> submit.accept(nobody));
      long took = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begun);
      assertEquals(Status.Code.UNAVAILABLE, error.code());
      assertTrue(took >= 1_900 && took <= 2_500, "with a deadline of 2 s it took " + took + " ms");
    }
  }

  @Test
  void aLastTryThatNobodyAnswersHidesNothing() throws IOException {
    // The first server tells what is wrong, and the second one is never heard of.
    try (ServerSocket silent = new ServerSocket(0);
        KeyworkClient impatient = KeyworkClient.builder()
            .endpoint(server.endpoint())
            .endpoint("http://127.0.0.1:" + silent.getLocalPort())
            .submitDeadline(Duration.ofMillis(140))
            .build()) {
      // Connected, the first try is answered in time.
      impatient.getJob("q", "a");
      server.script(script -> script.submitFault(new SubmitFault.Unavailable()));
      KeyworkException error =
          assertThrows(KeyworkException.class, () -> impatient.submit(Submit.of("q", "a", "")));
      assertEquals(Reasons.NATS_UNAVAILABLE, error.reason());
    }
  }

  @Test
  void afterTheDeadlineTheLastErrorIsToldWithTheDoubtOfAllTries() {
    server.script(script -> {
      script.submitFault(new SubmitFault.AnswerLost());
      for (int tries = 0; tries < 100; tries++) {
        script.submitFault(new SubmitFault.Unavailable());
      }
    });
    try (KeyworkClient impatient =
        KeyworkClient.builder().endpoint(server.endpoint()).submitDeadline(Duration.ofSeconds(1)).build()) {
      KeyworkException error =
          assertThrows(KeyworkException.class, () -> impatient.submit(Submit.of("q", "a", "")));
      assertEquals(Reasons.NATS_UNAVAILABLE, error.reason());
      assertTrue(error.isRetryable());
      assertFalse(error.hasNoSideEffects(), "the first try may have counted");
    }
  }

  @Test
  void aServerThatWasNeverReachedHasDoneNothingAndIsNamed() throws Exception {
    int port;
    try (ServerSocket free = new ServerSocket(0)) {
      port = free.getLocalPort();
    }
    try (KeyworkClient lost = KeyworkClient.builder()
        .endpoint("http://127.0.0.1:" + port)
        .submitDeadline(Duration.ofMillis(700))
        .build()) {
      KeyworkException error =
          assertThrows(KeyworkException.class, () -> lost.submit(Submit.of("q", "a", "")));
      assertEquals(Status.Code.UNAVAILABLE, error.code());
      assertTrue(error.hasNoSideEffects());
      String text = error.getMessage();
      assertEquals("http://127.0.0.1:" + port + " cannot be reached: Connection refused", text);
    }
  }

  @Test
  void anOutageOfOneServerTurnsToTheNext() {
    try (FakeServer gone = FakeServer.start()) {
      gone.close();
      try (KeyworkClient both =
          KeyworkClient.builder().endpoint(gone.endpoint()).endpoint(server.endpoint()).build()) {
        assertTrue(both.submit(Submit.of("q", "a", "")).isAccepted());
        assertTrue(both.getJob("q", "a").isPresent());
      }
    }
  }

  @Test
  void aServerThatComesBackIsFoundWithoutWaitingForTheChannelsOwnBackoff() {
    CompletableFuture<SubmitOutcome> early;
    String endpoint = server.endpoint();
    server.close();
    try (KeyworkClient patient = KeyworkClient.connect(endpoint)) {
      Log<String> failed = new Log<>();
      early = patient.submitAsync(Submit.of("q", "a", ""));
      early.whenComplete((outcome, error) -> failed.add(String.valueOf(error)));
      assertTrue(failed.all().isEmpty());
      server = FakeServer.builder().startAt(Integer.parseInt(endpoint.substring(endpoint.lastIndexOf(':') + 1)));
      assertTrue(early.join().isAccepted());
    }
  }

  @Test
  void aCancelledFutureEndsTheTries() {
    server.script(script -> script.submitFault(new SubmitFault.Unavailable()));
    CompletableFuture<SubmitOutcome> outcome = client.submitAsync(Submit.of("q", "a", ""));
    String id = server.until("a try", seen -> !seen.submits().isEmpty()).submits().get(0);
    outcome.cancel(true);
    // These take as long as several waits between tries.
    for (int others = 0; others < 5; others++) {
      server.script(script -> script.submitFault(new SubmitFault.Unavailable()));
      assertTrue(client.submit(Submit.of("q", "other-" + others, "")).isAccepted());
    }
    List<String> tries = server.seen().submits();
    assertEquals(1, tries.stream().filter(id::equals).count(), tries.toString());
    assertTrue(outcome.isCancelled());
  }

  @Test
  void aBatchGivesEachItemItsOwnVerdictInOrder() {
    client.submit(Submit.of("q", "busy", ""));
    List<SubmitResult> results = client.submitBatch(List.of(
        Submit.of("q", "a", ""), Submit.of("q", "", ""), Submit.of("q", "busy", ""), Submit.of("q", "b", "")));
    assertInstanceOf(SubmitOutcome.Created.class, results.get(0).outcome());
    assertEquals("key", results.get(1).error().orElseThrow().violations().get(0).field());
    assertThrows(KeyworkException.class, () -> results.get(1).outcome());
    assertInstanceOf(SubmitOutcome.AlreadyOutstanding.class, results.get(2).outcome());
    assertInstanceOf(SubmitOutcome.Created.class, results.get(3).outcome());
  }

  @Test
  void manySubmitsAreAnsweredInTheirOrder() {
    List<Submit> submits = new ArrayList<>();
    for (int number = 0; number < 10_000; number++) {
      submits.add(Submit.of("q", "key-" + number, "v"));
    }
    List<SubmitResult> results = client.submitMany(submits);
    assertEquals(10_000, results.size());
    for (int number = 0; number < results.size(); number++) {
      assertEquals("key-" + number, results.get(number).outcome().job().key());
    }
  }

  @Test
  void nothingToSubmitIsAnsweredAtOnce() {
    assertEquals(List.of(), client.submitMany(List.of()));
    assertEquals(List.of(), client.submitBatch(List.of()));
    try (SubmitStream stream = client.submitStream()) {
      assertEquals(List.of(), server.seen().submits());
    }
  }

  @Test
  void aBrokenStreamIsMendedAndNothingIsSubmittedTwice() {
    server.script(script -> script.submitFault(new SubmitFault.Broken()));
    List<Submit> submits = new ArrayList<>();
    for (int number = 0; number < 1_000; number++) {
      submits.add(Submit.of("q", "key-" + number, ""));
    }
    List<SubmitResult> results = client.submitMany(submits);
    assertTrue(results.stream().allMatch(result -> result.outcome() instanceof SubmitOutcome.Created));
    assertEquals(1_000, new HashSet<>(server.seen().submits()).size());
    assertTrue(server.seen().submits().size() > 1_000, "some were sent again");
  }

  @Test
  void anItemsOutageIsTriedAgainAndARefusalIsNot() {
    server.script(script -> script
        .submitFault(new SubmitFault.AnswerLost())
        .submitFault(new SubmitFault.Refused(Errors.of(Status.Code.RESOURCE_EXHAUSTED, Reasons.QUEUE_FULL))));
    List<SubmitResult> results = client.submitMany(List.of(Submit.of("q", "a", ""), Submit.of("q", "b", "")));
    assertInstanceOf(SubmitOutcome.Created.class, results.get(0).outcome());
    assertEquals(Reasons.QUEUE_FULL, results.get(1).error().orElseThrow().reason());
    assertEquals(3, server.seen().submits().size());
  }

  @Test
  void aStreamThatIsIdleOutlivesItsServer() {
    String endpoint = server.endpoint();
    try (KeyworkClient patient = KeyworkClient.connect(endpoint);
        SubmitStream stream = patient.submitStream()) {
      assertTrue(stream.offer(Submit.of("q", "a", "")).join().isAccepted());
      server.close();
      server = FakeServer.builder().startAt(Integer.parseInt(endpoint.substring(endpoint.lastIndexOf(':') + 1)));
      assertTrue(stream.offer(Submit.of("q", "b", "")).join().isAccepted());
    }
    assertEquals(1, server.seen().submits().size());
  }

  @Test
  void aClosedStreamTakesNothingMore() {
    SubmitStream stream = client.submitStream();
    CompletableFuture<SubmitOutcome> outcome = stream.offer(Submit.of("q", "a", ""));
    stream.close();
    assertTrue(outcome.isDone(), "closing waits for the answers");
    assertThrows(IllegalStateException.class, () -> stream.offer(Submit.of("q", "b", "")));
  }

  @Test
  void aStreamThatReachesNobodyGivesUpAfterTheDeadline() {
    server.close();
    try (KeyworkClient impatient =
        KeyworkClient.builder().endpoint(server.endpoint()).submitDeadline(Duration.ofMillis(500)).build()) {
      List<SubmitResult> results =
          impatient.submitMany(List.of(Submit.of("q", "a", ""), Submit.of("q", "b", "")));
      for (SubmitResult result : results) {
        assertEquals(Status.Code.UNAVAILABLE, result.error().orElseThrow().code());
      }
    }
  }

  @Test
  void interceptorsWrapEverySubmit() throws ExecutionException, InterruptedException {
    Log<String> log = new Log<>();
    try (KeyworkClient wrapped = KeyworkClient.builder()
        .endpoint(server.endpoint())
        .interceptor((submit, next) -> next.apply(submit.toBuilder().attribute("by", "outer").build())
            .whenComplete((outcome, error) -> log.add(submit.key())))
        .interceptor((submit, next) -> {
          assertEquals("outer", submit.attributes().get("by"));
          return next.apply(submit);
        })
        .build()) {
      wrapped.submit(Submit.of("q", "one", ""));
      wrapped.submitBatch(List.of(Submit.of("q", "two", "")));
      wrapped.submitMany(List.of(Submit.of("q", "three", "")));
      log.until("all answers", all -> all.equals(List.of("one", "two", "three")));
      assertEquals("outer", wrapped.getJob("q", "three").orElseThrow().attributes().get("by"));
    }
  }

  @Test
  void whatAnInterceptorFailsWithIsNoOutage() {
    IllegalArgumentException no = new IllegalArgumentException("no such tenant");
    try (KeyworkClient wrapped = KeyworkClient.builder()
        .endpoint(server.endpoint())
        .interceptor((submit, next) -> CompletableFuture.failedFuture(no))
        .build()) {
      KeyworkException error = assertThrows(KeyworkException.class, () -> wrapped.submit(Submit.of("q", "a", "")));
      assertEquals(no.toString(), error.getMessage());
      assertFalse(error.isRetryable());
    }
  }

  @Test
  void aClosedClientSaysSoAndThatTryingAgainIsNoUse() {
    client.submit(Submit.of("q", "a", ""));
    client.close();
    List<Executable> calls = List.of(
        () -> client.submit(Submit.of("q", "b", "")),
        () -> client.submitBatch(List.of(Submit.of("q", "b", ""))),
        () -> client.submitMany(List.of(Submit.of("q", "b", ""))).get(0).outcome(),
        () -> client.queues().get("q"),
        () -> client.raw());
    for (Executable call : calls) {
      KeyworkException error = assertThrows(KeyworkException.class, call);
      assertEquals("the client is closed", error.getMessage());
      assertFalse(error.isRetryable());
      assertTrue(error.hasNoSideEffects());
    }
  }

  @Test
  void theErrorOfAFutureIsFoundBelowItsWrapper() {
    client.close();
    CompletionException wrapped = assertThrows(
        CompletionException.class, () -> client.submitAsync(Submit.of("q", "a", "")).thenApply(o -> o).join());
    assertEquals("the client is closed", KeyworkException.from(wrapped).getMessage());
  }

  @Test
  void whatTheWireCouldNotSayIsRefusedBeforeAnythingIsSent() {
    Submit twice = Submit.builder("q", "a").delay(Duration.ofSeconds(1)).startAt(Instant.now()).build();
    KeyworkException error = assertThrows(KeyworkException.class, () -> client.submit(twice));
    assertRefused(error, "start_at");
    assertEquals("start_at: must not be set together with delay [INVALID_FIELD]", error.getMessage());
    Submit never = Submit.builder("q", "a").maxAttempts(0).build();
    assertRefused(assertThrows(KeyworkException.class, () -> client.submit(never)), "max_attempts");
    List<Submit> three = List.of(Submit.of("q", "b", ""), twice.toBuilder().build(), Submit.of("q", "c", ""));
    for (List<SubmitResult> results : List.of(client.submitBatch(three), client.submitMany(three))) {
      assertTrue(results.get(0).error().isEmpty());
      assertRefused(results.get(1).error().orElseThrow(), "start_at");
      assertTrue(results.get(2).error().isEmpty());
    }
    assertEquals(4, server.seen().submits().size());
  }

  @Test
  void aKeyThatIsNoUnicodeIsRefusedInsteadOfBecomingAnother() {
    assertRefused(assertThrows(KeyworkException.class, () -> client.submit(Submit.of("q", "a\ud800", ""))), "key");
    assertTrue(client.submit(Submit.of("q", "\ud83d\ude00", "")).isAccepted());
  }

  private static void assertRefused(KeyworkException error, String field) {
    assertEquals(Status.Code.INVALID_ARGUMENT, error.code());
    assertEquals(Reasons.INVALID_FIELD, error.reason());
    assertEquals(List.of(field), error.violations().stream().map(FieldViolation::field).toList());
    assertTrue(error.hasNoSideEffects());
    assertFalse(error.isRetryable());
  }

  @Test
  void aStreamIsNotWaitedForOnItsOwnThread() throws Exception {
    Thread here = Thread.currentThread();
    Optional<Throwable> refused = Optional.empty();
    try (SubmitStream stream = client.submitStream()) {
      // What depends on an answer that is there already runs here.
      for (int number = 0; refused.isEmpty(); number++) {
        refused = stream.offer(Submit.of("q", "key-" + number)).thenApply(outcome -> {
          boolean isTheirs = Thread.currentThread() != here;
          return isTheirs ? Optional.<Throwable>of(assertThrows(IllegalStateException.class, stream::close))
              : Optional.<Throwable>empty();
        }).get(20, TimeUnit.SECONDS);
      }
    }
    assertTrue(refused.get().getMessage().contains("thenAcceptAsync"));
  }

  @Test
  void anInterceptorThatThrowsSpoilsItsOwnSubmitOnly() {
    SubmitInterceptor picky = (submit, next) -> {
      if (submit.key().equals("b")) {
        throw new IllegalStateException("not this one");
      }
      return next.apply(submit);
    };
    List<Submit> three = List.of(Submit.of("q", "a", ""), Submit.of("q", "b", ""), Submit.of("q", "c", ""));
    try (KeyworkClient own = KeyworkClient.builder().endpoint(server.endpoint()).interceptor(picky).build()) {
      for (List<SubmitResult> results : List.of(own.submitBatch(three), own.submitMany(three))) {
        assertTrue(results.get(0).error().isEmpty());
        assertTrue(results.get(1).error().orElseThrow().getMessage().contains("not this one"));
        assertTrue(results.get(2).error().isEmpty());
      }
    }
  }
}
