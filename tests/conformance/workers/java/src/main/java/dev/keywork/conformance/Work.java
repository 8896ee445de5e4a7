package dev.keywork.conformance;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import dev.keywork.client.KeyworkClient;
import dev.keywork.errors.KeyworkException;
import dev.keywork.worker.Subscription;
import dev.keywork.worker.Worker;
import dev.keywork.worker.WorkerCounts;
import dev.keywork.worker.WorkerEvent;
import dev.keywork.worker.WorkerException;

/** The worker: made as the runner says, and run as a user runs it. */
final class Work {
  private Work() {}

  static Worker build(KeyworkClient client, Args args, Desk desk) {
    String handler = args.text("handler", "wait");
    Worker.Builder builder = Worker.builder(client)
        .handler(new Chosen(handler, desk))
        .onEvent(event -> tell(event, !handler.equals("complete")));
    if (args.flag("interceptors")) {
      builder.interceptor(Intercepted::handle);
    }
    builder.interceptor(Traces.handlers());
    args.list("queues").forEach(queue -> builder.subscribe(subscription(queue)));
    args.number("concurrency").ifPresent(handlers -> builder.concurrency(handlers.intValue()));
    args.millis("shutdown_grace_ms").ifPresent(builder::shutdownGrace);
    if (!args.text("worker_id").isEmpty()) {
      builder.workerId(args.text("worker_id"));
    }
    return builder.build();
  }

  private static Subscription subscription(JsonElement queue) {
    if (!queue.isJsonObject()) {
      return new Subscription(queue.getAsString());
    }
    Args args = new Args(queue.getAsJsonObject());
    return new Subscription(args.text("queue"), args.number("weight").orElse(1L).intValue());
  }

  /** Runs it to its end; gives the process's exit code. */
  static int run(Worker worker) {
    try {
      worker.run();
      tellStopped(true, "", "");
      return 0;
    } catch (WorkerException error) {
      boolean refused = error.getCause() instanceof KeyworkException;
      String code = refused ? ((KeyworkException) error.getCause()).code().name() : error.kind().name();
      tellStopped(false, code, error.getMessage());
      return 1;
    }
  }

  private static void tellStopped(boolean ok, String code, String message) {
    JsonObject event = Emit.event("stopped");
    event.addProperty("ok", ok);
    event.addProperty("code", code);
    event.addProperty("message", message);
    Emit.emit(event);
  }

  private static void tell(WorkerEvent event, boolean settledToo) {
    if (event instanceof WorkerEvent.Connecting) {
      tellState("connecting");
    } else if (event instanceof WorkerEvent.Ready) {
      tellState("ready");
    } else if (event instanceof WorkerEvent.Degraded) {
      tellState("degraded");
    } else if (event instanceof WorkerEvent.Draining) {
      tellState("draining");
    } else if (event instanceof WorkerEvent.Stopped) {
      tellState("stopped");
    } else if (event instanceof WorkerEvent.LeaseLost lost) {
      tellLost(lost);
    } else if (event instanceof WorkerEvent.Settled settled && settledToo) {
      tellSettled(settled);
    }
  }

  private static void tellState(String state) {
    JsonObject event = Emit.event("state");
    event.addProperty("state", state);
    Emit.emit(event);
  }

  private static void tellLost(WorkerEvent.LeaseLost lost) {
    JsonObject event = Emit.event("lease_lost");
    event.addProperty("queue", lost.queue());
    event.addProperty("key", lost.key());
    event.addProperty("reason", lost.reason().map(Enum::name).orElse(""));
    Emit.emit(event);
  }

  private static void tellSettled(WorkerEvent.Settled settled) {
    JsonObject event = Emit.event("settled");
    event.addProperty("key", settled.key());
    event.addProperty("job", settled.jobId());
    event.addProperty("fencing", settled.fencingNumber());
    event.addProperty("outcome", settled.outcome().name());
    Emit.emit(event);
  }

  static void tellStats(Worker worker, String call) {
    WorkerCounts counts = worker.counts();
    JsonObject event = Emit.event("stats", call);
    event.addProperty("started", counts.started());
    event.addProperty("settled", counts.settled());
    event.addProperty("leases_lost", counts.leasesLost());
    event.addProperty("dropped_results", counts.droppedResults());
    event.addProperty("sessions", counts.sessions());
    Emit.emit(event);
  }
}
