package dev.keywork.otel;

import static io.opentelemetry.api.common.AttributeKey.longKey;
import static io.opentelemetry.api.common.AttributeKey.stringKey;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.keywork.client.KeyworkClient;
import dev.keywork.client.Submit;
import dev.keywork.internal.LeaseContext;
import dev.keywork.job.Job;
import dev.keywork.job.Outcome;
import dev.keywork.support.Log;
import dev.keywork.testing.FakeServer;
import dev.keywork.worker.CancelReason;
import dev.keywork.worker.JobHandler;
import dev.keywork.worker.Worker;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.context.Scope;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.testing.exporter.InMemorySpanExporter;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.data.SpanData;
import io.opentelemetry.sdk.trace.data.StatusData;
import io.opentelemetry.sdk.trace.export.SimpleSpanProcessor;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** The trace of a submit goes on in its handler. */
class KeyworkTracingTest {
  private final InMemorySpanExporter spans = InMemorySpanExporter.create();
  private final OpenTelemetrySdk openTelemetry = OpenTelemetrySdk.builder()
      .setTracerProvider(
          SdkTracerProvider.builder().addSpanProcessor(SimpleSpanProcessor.create(spans)).build())
      .build();
  private final KeyworkTracing tracing = KeyworkTracing.of(openTelemetry);

  private static final JobHandler THROWS = (context, job) -> {
    throw new IllegalStateException("no");
  };

  /** The span of one handler that runs one job of that key. */
  private SpanData handled(String key, JobHandler handler) {
    try (FakeServer server = FakeServer.start(); KeyworkClient client = server.client()) {
      client.submit(Submit.of("q", key, ""));
      Worker worker = Worker.builder(client, "q").interceptor(tracing.handlers()).handler(handler).build();
      worker.start();
      server.until("the settlement", seen -> !seen.settlements().isEmpty());
      worker.close();
    }
    return spans.getFinishedSpanItems().stream()
        .filter(span -> key.equals(span.getAttributes().get(stringKey("keywork.key"))))
        .findFirst()
        .orElseThrow();
  }

  private static void assertEnds(SpanData span, String outcome, StatusData status, int exceptions) {
    assertEquals(outcome, span.getAttributes().get(stringKey("keywork.outcome")));
    assertEquals(status, span.getStatus());
    assertEquals(exceptions, span.getEvents().size());
  }

  private static StatusData error(String text) {
    return StatusData.create(StatusCode.ERROR, text);
  }

  @Test
  void aHandlersSpanIsAChildOfWhatIsCurrentAtTheSubmitWhichMakesNone() {
    try (FakeServer server = FakeServer.start();
        KeyworkClient client =
            KeyworkClient.builder().endpoint(server.endpoint()).interceptor(tracing.submits()).build()) {
      Span request = openTelemetry.getTracer("test").spanBuilder("request").startSpan();
      try (Scope scope = request.makeCurrent()) {
        client.submit(Submit.of("q", "a", ""));
      }
      request.end();
      Log<String> seen = new Log<>();
      try (Worker worker = Worker.builder(client, "q").interceptor(tracing.handlers()).task(
          (context, job) -> seen.add(Span.current().getSpanContext().getTraceId())).build()) {
        worker.start();
        seen.until("the handler", all -> !all.isEmpty());
      }
      assertEquals(request.getSpanContext().getTraceId(), seen.all().get(0));
      List<SpanData> made = spans.getFinishedSpanItems();
      assertEquals(List.of("request", "process q"), made.stream().map(SpanData::getName).toList());
      assertEquals(request.getSpanContext().getSpanId(), made.get(1).getParentSpanId());
    }
  }

  @Test
  void aSubmitWithoutASpanCarriesNothing() {
    try (FakeServer server = FakeServer.start();
        KeyworkClient client =
            KeyworkClient.builder().endpoint(server.endpoint()).interceptor(tracing.submits()).build()) {
      client.submit(Submit.of("q", "a", ""));
      assertEquals(Map.of(), client.getJob("q", "a").orElseThrow().attributes());
    }
  }

  @Test
  void aSpanSaysWhichJobItRuns() {
    Log<Job> ran = new Log<>();
    SpanData span = handled("a", (context, job) -> {
      ran.add(job);
      return Outcome.complete();
    });
    Job job = ran.all().get(0);
    assertEquals("process q", span.getName());
    assertEquals(SpanKind.CONSUMER, span.getKind());
    Attributes told = span.getAttributes();
    assertEquals("keywork", told.get(stringKey("messaging.system")));
    assertEquals("process", told.get(stringKey("messaging.operation.type")));
    assertEquals("q", told.get(stringKey("messaging.destination.name")));
    assertEquals(job.id(), told.get(stringKey("messaging.message.id")));
    assertEquals(1, told.get(longKey("keywork.attempt")));
    assertEquals(job.fencingNumber(), told.get(longKey("keywork.fencing_number")));
    assertEnds(span, "complete", StatusData.unset(), 0);
  }

  @Test
  void aSpanSaysHowTheAttemptEnded() {
    assertEnds(handled("throws", THROWS), "retry", error("java.lang.IllegalStateException: no"), 1);
    assertEnds(handled("null", (context, job) -> null), "retry", error("the handler returned null"), 0);
    assertEnds(handled("retry", (context, job) -> Outcome.retry("later")), "retry", error("later"), 0);
    assertEnds(handled("fail", (context, job) -> Outcome.fail("never")), "fail", error("never"), 0);
    assertEnds(handled("release", (context, job) -> Outcome.release()), "release", StatusData.unset(), 0);
    assertEnds(handled("rerun", (context, job) -> Outcome.rerun(Duration.ofHours(1))), "rerun", StatusData.unset(), 0);
    assertEnds(handled("deep", (context, job) -> {
      throw Outcome.fail("never").asException();
    }), "fail", error("never"), 0);
  }

  @Test
  void anExceptionOfAHandlerThatStopsWithItsWorkerIsARelease() throws Exception {
    LeaseContext context = new LeaseContext(Long.MAX_VALUE);
    context.cancel(CancelReason.WORKER_SHUTDOWN);
    Job job = Job.builder("q", "stop").build();
    assertThrows(IllegalStateException.class, () -> tracing.handlers().intercept(context, job, THROWS));
    assertEnds(spans.getFinishedSpanItems().get(0), "release", StatusData.unset(), 0);
  }

  @Test
  void aContextThatIsThereAlreadyIsKept() {
    try (FakeServer server = FakeServer.start();
        KeyworkClient client =
            KeyworkClient.builder().endpoint(server.endpoint()).interceptor(tracing.submits()).build()) {
      String theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
      client.submit(Submit.builder("q", "a").attribute("traceparent", theirs).build());
      assertEquals(theirs, client.getJob("q", "a").orElseThrow().attributes().get("traceparent"));
    }
  }
}
