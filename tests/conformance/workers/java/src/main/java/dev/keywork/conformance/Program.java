package dev.keywork.conformance;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import dev.keywork.client.KeyworkClient;
import dev.keywork.errors.KeyworkException;
import dev.keywork.worker.Worker;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.BiConsumer;

/**
 * The Java SDK's worker-under-test: reads commands from stdin, writes events to stdout, one JSON object a line.
 *
 * <p>The protocol is in {@code tests/conformance/README.md}. Nothing here decides anything: what the runner sees is
 * what the SDK does.
 */
public final class Program {
  private static final String VERSION = "0.1.0";

  /** What scenarios may ask of this SDK. */
  private static final List<String> CAPABILITIES = List.of(
      "worker", "submit", "submit_many", "call", "burn", "settled_event", "signals", "interceptors", "trace", "sync");

  private final ExecutorService calls = Executors.newCachedThreadPool();
  private final Desk desk = new Desk();
  private KeyworkClient client;
  private Worker worker;

  private Program() {}

  /**
   * Follows commands until stdin or the worker ends.
   *
   * @param arguments {@code --list-capabilities} only says hello
   * @throws IOException stdin broke
   */
  public static void main(String[] arguments) throws IOException {
    sayHello();
    if (!List.of(arguments).contains("--list-capabilities")) {
      new Program().followCommands();
    }
    System.exit(0);
  }

  private static void sayHello() {
    JsonArray capabilities = new JsonArray();
    CAPABILITIES.forEach(capabilities::add);
    JsonObject hello = Emit.event("hello");
    hello.addProperty("sdk", "java");
    hello.addProperty("version", VERSION);
    hello.addProperty("runtime", System.getProperty("java.vm.name") + ' ' + System.getProperty("java.version"));
    hello.add("capabilities", capabilities);
    Emit.emit(hello);
  }

  private void followCommands() throws IOException {
    var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      Args command = read(line);
      if (command == null) {
        continue;
      }
      if (command.text("do").equals("exit")) {
        return;
      }
      obey(command.text("call"), command);
    }
  }

  private static Args read(String line) {
    try {
      return new Args(JsonParser.parseString(line).getAsJsonObject());
    } catch (JsonParseException | IllegalStateException malformed) {
      Emit.refuse("", "UNSUPPORTED", String.valueOf(malformed.getMessage()));
      return null;
    }
  }

  private void obey(String call, Args command) {
    switch (command.text("do")) {
      case "connect" -> connect(call, command);
      case "start" -> start(call, command);
      case "submit" -> beside(call, command, (asked, args) -> Submits.one(client, asked, args));
      case "submit_many" -> beside(call, command, (asked, args) -> Submits.many(client, asked, args));
      case "throughput" -> beside(call, command, (asked, args) -> Submits.throughput(client, asked, args));
      case "call" -> beside(call, command, (asked, args) -> Calls.run(client, asked, args));
      case "finish" -> {
        if (!desk.finish(command.text("key"), command)) {
          Emit.refuse(call, "NOT_WAITING", "no handler of this key waits");
        }
      }
      case "drain", "release_all", "healthy", "stats" -> withWorker(call, command.text("do"));
      default -> Emit.refuse(call, "UNSUPPORTED", "there is no such command");
    }
  }

  private void connect(String call, Args command) {
    KeyworkClient.Builder builder = KeyworkClient.builder();
    if (command.flag("interceptors")) {
      builder.interceptor(Intercepted::submit);
    }
    builder.interceptor(Traces.submits());
    command.texts("endpoints").forEach(builder::endpoint);
    command.millis("submit_deadline_ms").ifPresent(builder::submitDeadline);
    command.millis("call_timeout_ms").ifPresent(builder::callTimeout);
    try {
      client = builder.build();
      Emit.emit(Emit.event("connected", call));
    } catch (IllegalArgumentException refused) {
      Emit.refuse(call, "INVALID_ARGUMENT", refused.getMessage());
    }
  }

  private void start(String call, Args command) {
    if (client == null) {
      notConnected(call);
      return;
    }
    try {
      worker = Work.build(client, command, desk);
    } catch (IllegalArgumentException refused) {
      Emit.refuse(call, "INVALID_ARGUMENT", refused.getMessage());
      return;
    }
    Worker running = worker;
    Thread thread = new Thread(() -> System.exit(Work.run(running)), "run");
    thread.start();
  }

  /** Runs a call beside whatever comes next. */
  private void beside(String call, Args command, BiConsumer<String, Args> run) {
    if (client == null) {
      notConnected(call);
      return;
    }
    calls.execute(() -> {
      try {
        run.accept(call, command);
      } catch (KeyworkException error) {
        Emit.fault(call, error);
      } catch (RuntimeException unexpected) {
        Emit.refuse(call, "UNSUPPORTED", unexpected.toString());
      }
    });
  }

  private static void notConnected(String call) {
    Emit.refuse(call, "UNSUPPORTED", "connect comes first");
  }

  private void withWorker(String call, String what) {
    if (worker == null) {
      Emit.refuse(call, "UNSUPPORTED", "no worker was started");
      return;
    }
    switch (what) {
      case "drain" -> worker.drain();
      case "release_all" -> worker.releaseAll();
      case "stats" -> Work.tellStats(worker, call);
      default -> {
        JsonObject event = Emit.event("healthy", call);
        event.addProperty("value", worker.healthy());
        Emit.emit(event);
      }
    }
  }
}
