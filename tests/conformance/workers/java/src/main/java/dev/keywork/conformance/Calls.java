package dev.keywork.conformance;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import dev.keywork.client.KeyworkClient;
import dev.keywork.client.LeaseExtension;
import dev.keywork.client.LeaseToken;
import dev.keywork.client.Leased;
import dev.keywork.client.PageRequest;
import dev.keywork.client.Pull;
import dev.keywork.client.Queue;
import dev.keywork.client.QueueConfig;
import dev.keywork.client.Settlement;
import dev.keywork.job.DeadJob;
import dev.keywork.job.DeadReason;
import dev.keywork.job.Job;
import dev.keywork.job.Outcome;
import dev.keywork.job.SettlementOutcome;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.List;
import java.util.function.Function;

/** {@code call}: one call of the client's hand-written API, and the members of its answer that scenarios ask for. */
final class Calls {
  /** The most of a list that is looked at. */
  private static final PageRequest PAGE = PageRequest.first(1_000);

  private Calls() {}

  static void run(KeyworkClient client, String call, Args command) {
    JsonObject result = answer(client, command.text("rpc"), command.object("args"));
    if (result == null) {
      Emit.refuse(call, "UNSUPPORTED", "there is no such call");
      return;
    }
    JsonObject event = Emit.event("answered", call);
    event.add("result", result);
    Emit.emit(event);
  }

  private static JsonObject answer(KeyworkClient client, String rpc, Args args) {
    String queue = args.text("queue");
    return switch (rpc) {
      case "get_job" -> client.getJob(queue, args.text("key")).map(Calls::ofJob).orElseGet(Calls::noJob);
      case "list_jobs" -> list("jobs", client.listJobs(queue, "", PAGE).items(), Calls::ofJob);
      case "cancel_job" -> ofJob(client.cancelJob(queue, args.text("key")));
      case "create_queue" -> ofQueue(client.queues().create(queue, config(args)));
      case "update_queue" -> ofQueue(client.queues().update(queue, config(args)));
      case "get_queue" -> ofQueue(client.queues().get(queue));
      case "pause_queue" -> ofQueue(client.queues().pause(queue));
      case "resume_queue" -> ofQueue(client.queues().resume(queue));
      case "delete_queue" -> {
        client.queues().delete(queue, true);
        yield new JsonObject();
      }
      case "purge_queue" -> number("purged", client.queues().purge(queue));
      case "list_queues" -> list("queues", client.queues().list(PAGE).items(), Calls::ofQueue);
      case "list_dead_jobs" -> list("jobs", client.deadLetters().list(queue, PAGE).items(), Calls::ofDead);
      case "redrive_dead_jobs" -> redrive(client, args);
      case "delete_dead_jobs" -> number("deleted", client.deadLetters().delete(queue, deadIds(client, args)));
      case "pull" -> list("jobs", client.leases().pull(pull(args)), Calls::ofLease);
      case "heartbeat" -> extended(client.leases().heartbeat(args.texts("tokens").stream().map(Calls::token).toList()));
      case "ack" -> ack(client, args);
      default -> null;
    };
  }

  private static QueueConfig config(Args args) {
    QueueConfig.Builder config = QueueConfig.builder();
    args.millis("lease_duration_ms").ifPresent(config::leaseDuration);
    args.number("max_attempts").ifPresent(attempts -> config.maxAttempts(attempts.intValue()));
    args.number("max_depth").ifPresent(config::maxDepth);
    args.millis("disconnect_grace_ms").ifPresent(config::disconnectGrace);
    args.millis("backoff_ms").ifPresent(wait -> config.backoff(wait, wait));
    return config.build();
  }

  private static List<Long> deadIds(KeyworkClient client, Args args) {
    List<String> keys = args.texts("keys");
    return client.deadLetters().list(args.text("queue"), PAGE).items().stream()
        .filter(dead -> keys.contains(dead.job().key()))
        .map(DeadJob::deadId)
        .toList();
  }

  private static JsonObject redrive(KeyworkClient client, Args args) {
    JsonArray outcomes = new JsonArray();
    client.deadLetters().redrive(args.text("queue"), deadIds(client, args))
        .forEach(redriven -> outcomes.add(Submits.outcomeOrReason(redriven.result())));
    JsonObject result = new JsonObject();
    result.add("outcomes", outcomes);
    return result;
  }

  private static Pull pull(Args args) {
    return Pull.builder(args.text("queue"))
        .maxJobs(args.number("max_jobs").orElse(1L).intValue())
        .wait(args.millis("wait_ms").orElse(Duration.ZERO))
        .build();
  }

  private static JsonObject ack(KeyworkClient client, Args args) {
    Outcome outcome = switch (args.text("with")) {
      case "release" -> Outcome.release();
      case "fail" -> Outcome.fail(args.text("text"));
      case "retry", "error" -> new Outcome.Retry(args.millis("delay_ms"), args.text("text"));
      default -> Outcome.complete();
    };
    var settlement = new Settlement(token(args.text("token")), outcome);
    SettlementOutcome answer = client.leases().ack(List.of(settlement)).get(0).outcome();
    JsonObject result = new JsonObject();
    result.addProperty("outcome", answer == SettlementOutcome.UNKNOWN ? "" : answer.name());
    return result;
  }

  /** A token that is no Base64 is sent as the bytes that it is: the server is to refuse it. */
  private static LeaseToken token(String text) {
    try {
      return LeaseToken.of(Base64.getDecoder().decode(text));
    } catch (IllegalArgumentException malformed) {
      return LeaseToken.of(text.getBytes(StandardCharsets.UTF_8));
    }
  }

  private static JsonObject noJob() {
    JsonObject result = new JsonObject();
    result.addProperty("state", "");
    return result;
  }

  private static JsonObject ofJob(Job job) {
    JsonObject result = new JsonObject();
    result.addProperty("key", job.key());
    result.addProperty("id", job.id());
    result.addProperty("state", Submits.state(job.state()));
    result.addProperty("attempt", job.attempt());
    return result;
  }

  private static JsonObject ofQueue(Queue queue) {
    JsonObject result = new JsonObject();
    result.addProperty("queue", queue.name());
    result.addProperty("lease_duration_ms", queue.config().leaseDuration().orElse(Duration.ZERO).toMillis());
    result.addProperty("max_attempts", queue.config().maxAttempts().orElse(null));
    result.addProperty("paused", queue.paused());
    return result;
  }

  private static JsonObject ofDead(DeadJob dead) {
    JsonObject result = new JsonObject();
    result.addProperty("key", dead.job().key());
    result.addProperty("reason", dead.reason() == DeadReason.UNKNOWN ? "" : dead.reason().name());
    return result;
  }

  private static JsonObject ofLease(Leased lease) {
    JsonObject result = new JsonObject();
    result.addProperty("key", lease.job().key());
    result.addProperty("token", Base64.getEncoder().encodeToString(lease.token().toBytes()));
    result.addProperty("fencing_number", lease.job().fencingNumber());
    result.addProperty("attempt", lease.job().attempt());
    return result;
  }

  /** How many leases hold, and how many are lost. */
  private static JsonObject extended(List<LeaseExtension> results) {
    JsonObject result = number("renewed", results.stream().filter(LeaseExtension.Extended.class::isInstance).count());
    result.addProperty("lost", results.stream().filter(LeaseExtension.Lost.class::isInstance).count());
    return result;
  }

  private static JsonObject number(String name, long value) {
    JsonObject result = new JsonObject();
    result.addProperty(name, value);
    return result;
  }

  private static <T> JsonObject list(String name, List<T> items, Function<T, JsonObject> read) {
    JsonArray array = new JsonArray();
    items.forEach(item -> array.add(read.apply(item)));
    JsonObject result = new JsonObject();
    result.add(name, array);
    return result;
  }
}
