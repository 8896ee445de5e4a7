package dev.keywork.conformance;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import dev.keywork.errors.FieldViolation;
import dev.keywork.errors.KeyworkException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** Writing events: each a line of its own, flushed at once. */
final class Emit {
  private static final Gson GSON = new GsonBuilder().disableHtmlEscaping().create();
  private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

  private Emit() {}

  static JsonObject event(String name) {
    JsonObject event = new JsonObject();
    event.addProperty("event", name);
    return event;
  }

  static JsonObject event(String name, String call) {
    JsonObject event = event(name);
    event.addProperty("call", call);
    return event;
  }

  static synchronized void emit(JsonObject event) {
    OUT.print(GSON.toJson(event) + '\n');
    OUT.flush();
  }

  /** A call failed with an error of the SDK. */
  static void fault(String call, KeyworkException error) {
    JsonArray fields = new JsonArray();
    error.violations().stream().map(FieldViolation::field).forEach(fields::add);
    JsonObject event = event("error", call);
    event.addProperty("code", error.code().name());
    event.addProperty("reason", error.reason());
    event.addProperty("retryable", error.isRetryable());
    event.addProperty("no_side_effects", error.hasNoSideEffects());
    event.add("fields", fields);
    event.addProperty("message", error.getMessage());
    emit(event);
  }

  /** A command that this program cannot follow. */
  static void refuse(String call, String code, String message) {
    JsonObject event = event("error", call);
    event.addProperty("code", code);
    event.addProperty("reason", "");
    event.add("fields", new JsonArray());
    event.addProperty("message", message);
    emit(event);
  }
}
