package dev.keywork.conformance;

import com.google.gson.JsonObject;
import dev.keywork.job.Job;
import dev.keywork.job.Outcome;
import dev.keywork.worker.JobContext;
import dev.keywork.worker.JobHandler;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/** What the handlers do that the runner chooses. */
final class Chosen implements JobHandler {
  private final String usual;
  private final Desk desk;

  Chosen(String usual, Desk desk) {
    this.usual = usual;
    this.desk = desk;
  }

  @Override
  public Outcome handle(JobContext context, Job job) throws Exception {
    return switch (job.attributes().getOrDefault("handler", usual)) {
      case "complete" -> Outcome.complete();
      case "throw" -> {
        tellStarted(context, job);
        throw new IllegalStateException("thrown");
      }
      case "burn" -> burn(context, job);
      case "deaf" -> waitHere(context, job, true);
      default -> waitHere(context, job, false);
    };
  }

  private Outcome waitHere(JobContext context, Job job, boolean deaf) throws Exception {
    CompletableFuture<Args> turn = desk.queueUp(job.key());
    tellStarted(context, job);
    while (true) {
      try {
        Args how = turn.get();
        tell("ended", job);
        return outcome(how);
      } catch (InterruptedException interrupted) {
        if (!turn.isDone() && context.isCancelled()) {
          tellCancelled(context, job);
          if (!deaf) {
            desk.leave(job.key(), turn);
            throw new IllegalStateException("cancelled", interrupted);
          }
          return waitDeafly(turn, job);
        }
      }
    }
  }

  private static Outcome waitDeafly(CompletableFuture<Args> turn, Job job) throws ExecutionException {
    while (true) {
      try {
        Args how = turn.get();
        tell("ended", job);
        return outcome(how);
      } catch (InterruptedException ignored) {
        continue;
      }
    }
  }

  private static Outcome outcome(Args how) {
    return switch (how.text("with")) {
      case "error" -> throw new IllegalStateException(how.text("text"));
      case "retry" -> how.millis("delay_ms")
          .map(delay -> Outcome.retry(delay).because(how.text("text")))
          .orElseGet(() -> Outcome.retry(how.text("text")));
      case "fail" -> Outcome.fail(how.text("text"));
      case "release" -> Outcome.release();
      case "rerun" -> Outcome.rerun(how.millis("delay_ms").orElse(Duration.ZERO));
      default -> Outcome.complete();
    };
  }

  private static Outcome burn(JobContext context, Job job) {
    tellStarted(context, job);
    long ms = Long.parseLong(job.attributes().getOrDefault("ms", "0"));
    long end = System.nanoTime() + Duration.ofMillis(ms).toNanos();
    while (System.nanoTime() < end) {
      Thread.onSpinWait();
    }
    tell("ended", job);
    return Outcome.complete();
  }

  private static void tellStarted(JobContext context, Job job) {
    JsonObject attributes = new JsonObject();
    job.attributes().forEach(attributes::addProperty);
    JsonObject event = Emit.event("started");
    event.addProperty("queue", job.queue());
    event.addProperty("key", job.key());
    event.addProperty("job", job.id());
    event.addProperty("attempt", job.attempt());
    event.addProperty("fencing", job.fencingNumber());
    event.addProperty("payload", job.payload().asText());
    event.add("attributes", attributes);
    event.addProperty("left_ms", context.timeLeft().toMillis());
    event.addProperty("trace_id", Traces.current());
    Emit.emit(event);
  }

  private static void tellCancelled(JobContext context, Job job) {
    JsonObject event = named("cancelled", job);
    event.addProperty("reason", context.reason().orElseThrow().name());
    Emit.emit(event);
  }

  private static void tell(String name, Job job) {
    Emit.emit(named(name, job));
  }

  private static JsonObject named(String name, Job job) {
    JsonObject event = Emit.event(name);
    event.addProperty("key", job.key());
    event.addProperty("job", job.id());
    event.addProperty("fencing", job.fencingNumber());
    return event;
  }
}
