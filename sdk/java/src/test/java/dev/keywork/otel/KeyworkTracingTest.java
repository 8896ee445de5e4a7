package dev.keywork.otel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.keywork.client.KeyworkClient;
import dev.keywork.client.Submit;
import dev.keywork.support.Log;
import dev.keywork.testing.FakeServer;
import dev.keywork.worker.Worker;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.context.Scope;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.testing.exporter.InMemorySpanExporter;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.data.SpanData;
import io.opentelemetry.sdk.trace.export.SimpleSpanProcessor;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The trace of a submit goes on in its handler. */
class KeyworkTracingTest {
  private final InMemorySpanExporter spans = InMemorySpanExporter.create();
  private final OpenTelemetrySdk openTelemetry = OpenTelemetrySdk.builder()
      .setTracerProvider(
          SdkTracerProvider.builder().addSpanProcessor(SimpleSpanProcessor.create(spans)).build())
      .build();
  private final KeyworkTracing tracing = KeyworkTracing.of(openTelemetry);

  private SpanData span(SpanKind kind) {
    List<SpanData> found =
        spans.getFinishedSpanItems().stream().filter(span -> span.getKind() == kind).toList();
    assertEquals(1, found.size(), found.toString());
    return found.get(0);
  }

  @Test
  void aHandlersSpanIsAChildOfTheSubmitsSpan() {
    try (FakeServer server = FakeServer.start();
        KeyworkClient client =
            KeyworkClient.builder().endpoint(server.endpoint()).interceptor(tracing.submits()).build()) {
      Span request = openTelemetry.getTracer("test").spanBuilder("request").startSpan();
      try (Scope scope = request.makeCurrent()) {
        client.submit(Submit.of("q", "a", ""));
      }
      request.end();
      Log<String> seen = new Log<>();
      try (Worker worker = Worker.builder(client, "q").interceptor(tracing.handlers()).task((context, job) -> {
        seen.add(Span.current().getSpanContext().getTraceId());
        throw new IllegalStateException("no");
      }).build()) {
        worker.start();
        seen.until("the handler", all -> !all.isEmpty());
      }
      SpanData handled = spans.getFinishedSpanItems().stream()
          .filter(span -> span.getKind() == SpanKind.CONSUMER)
          .findFirst()
          .orElseThrow();
      SpanData submitted = span(SpanKind.PRODUCER);
      assertEquals(request.getSpanContext().getTraceId(), seen.all().get(0));
      assertEquals(request.getSpanContext().getSpanId(), submitted.getParentSpanId());
      assertEquals(submitted.getSpanId(), handled.getParentSpanId());
      assertEquals(StatusCode.ERROR, handled.getStatus().getStatusCode());
    }
  }

  @Test
  void aContextThatIsThereAlreadyIsKept() {
    try (FakeServer server = FakeServer.start();
        KeyworkClient client =
            KeyworkClient.builder().endpoint(server.endpoint()).interceptor(tracing.submits()).build()) {
      String theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
      client.submit(Submit.builder("q", "a").attribute("traceparent", theirs).build());
      assertEquals(theirs, client.getJob("q", "a").orElseThrow().attributes().get("traceparent"));
      assertTrue(server.seen().submits().size() == 1);
    }
  }
}
