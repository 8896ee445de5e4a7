package dev.keywork.conformance;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import dev.keywork.client.KeyworkClient;
import dev.keywork.client.OnConflict;
import dev.keywork.client.Submit;
import dev.keywork.client.SubmitOutcome;
import dev.keywork.client.SubmitResult;
import dev.keywork.errors.KeyworkException;
import dev.keywork.job.JobState;
import io.opentelemetry.context.Scope;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.UUID;
import java.util.stream.IntStream;

/** Offering jobs, as the runner says. */
final class Submits {
  /** The payload of a throughput run's jobs. */
  private static final String PAYLOAD = "x".repeat(256);

  private Submits() {}

  static void one(KeyworkClient client, String call, Args args) {
    Submit submit;
    try {
      submit = submit(args);
    } catch (IllegalArgumentException malformed) {
      Emit.refuse(call, "INVALID_ARGUMENT", malformed.getMessage());
      return;
    }
    SubmitOutcome outcome = submitTraced(client, submit, args);
    JsonObject event = Emit.event("submitted", call);
    event.addProperty("outcome", name(outcome));
    event.addProperty("job", outcome.job().id());
    event.addProperty("state", state(outcome.job().state()));
    Emit.emit(event);
  }

  @SuppressWarnings("try") // A scope is only ever closed.
  private static SubmitOutcome submitTraced(KeyworkClient client, Submit submit, Args args) {
    try (Scope scope = Traces.of(args)) {
      return client.submit(submit);
    }
  }

  private static Submit submit(Args args) {
    Submit.Builder submit = Submit.builder(args.text("queue"), args.text("key"))
        .payload(args.text("payload"))
        .attributes(args.map("attributes"));
    if (!args.text("request_id").isEmpty()) {
      submit.requestId(UUID.fromString(args.text("request_id")));
    }
    if (!args.text("on_conflict").isEmpty()) {
      submit.onConflict(OnConflict.valueOf(args.text("on_conflict")));
    }
    args.millis("delay_ms").ifPresent(submit::delay);
    args.millis("expires_in_ms").ifPresent(left -> submit.expiresAt(Instant.now().plus(left)));
    args.number("max_attempts").ifPresent(attempts -> submit.maxAttempts(attempts.intValue()));
    return submit.build();
  }

  static void many(KeyworkClient client, String call, Args args) {
    List<Submit> submits = args.texts("keys").stream()
        .map(key -> Submit.of(args.text("queue"), key, args.text("payload")))
        .toList();
    JsonArray outcomes = new JsonArray();
    client.submitMany(submits).forEach(result -> outcomes.add(outcomeOrReason(result)));
    JsonObject event = Emit.event("submitted_many", call);
    event.add("outcomes", outcomes);
    Emit.emit(event);
  }

  static void throughput(KeyworkClient client, String call, Args args) {
    int jobs = args.number("jobs").orElseThrow().intValue();
    long begun = System.nanoTime();
    Iterable<Submit> submits = () -> IntStream.range(0, jobs)
        .mapToObj(number -> Submit.of(args.text("queue"), args.text("prefix") + '-' + number, PAYLOAD))
        .iterator();
    long created = client.submitMany(submits).stream()
        .filter(result -> result.error().isEmpty() && result.outcome() instanceof SubmitOutcome.Created)
        .count();
    JsonObject event = Emit.event("submitted_many", call);
    event.addProperty("created", created);
    event.addProperty("ms", Duration.ofNanos(System.nanoTime() - begun).toMillis());
    Emit.emit(event);
  }

  static String outcomeOrReason(SubmitResult result) {
    return result.error().map(KeyworkException::reason).orElseGet(() -> name(result.outcome()));
  }

  /** An outcome's name in the contract. */
  private static String name(SubmitOutcome outcome) {
    return outcome.getClass().getSimpleName().replaceAll("(?<=.)(?=[A-Z])", "_").toUpperCase(java.util.Locale.ROOT);
  }

  /** A state's name in the contract. */
  static String state(JobState state) {
    return state == JobState.UNKNOWN ? "" : state.name();
  }
}
