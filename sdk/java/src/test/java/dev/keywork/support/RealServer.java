package dev.keywork.support;

import dev.keywork.client.KeyworkClient;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** The built server, whose binary {@code KEYWORK_BIN} names, with a nats-server of its own. */
public final class RealServer implements AutoCloseable {
  private final Path data;
  private final int port;
  private Process process;

  public RealServer() {
    try {
      data = Files.createTempDirectory("keywork-java-");
      try (ServerSocket free = new ServerSocket(0)) {
        port = free.getLocalPort();
      }
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
    start();
  }

  public static boolean isBuilt() {
    return System.getenv("KEYWORK_BIN") != null;
  }

  public String endpoint() {
    return "http://127.0.0.1:" + port;
  }

  public KeyworkClient client() {
    return KeyworkClient.connect(endpoint());
  }

  /** Starts it, and waits until it says that it serves. */
  public void start() {
    try {
      process = new ProcessBuilder(
          System.getenv("KEYWORK_BIN"),
          "serve",
          "--listen",
          "127.0.0.1:" + port,
          "--data-dir",
          data.toString()).redirectErrorStream(true).start();
      BufferedReader lines = process.inputReader();
      for (String line = lines.readLine(); !line.contains("keywork serves"); line = lines.readLine()) {
        if (!process.isAlive()) {
          throw new AssertionError("the server did not start: " + line);
        }
      }
      Thread reader = new Thread(() -> lines.lines().forEach(line -> {}), "server-log");
      reader.setDaemon(true);
      reader.start();
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
  }

  public void stop() {
    process.toHandle().destroy();
    try {
      if (!process.waitFor(20, TimeUnit.SECONDS)) {
        process.destroyForcibly();
      }
    } catch (InterruptedException interrupted) {
      process.destroyForcibly();
      Thread.currentThread().interrupt();
    }
  }

  @Override
  public void close() {
    stop();
    try (Stream<Path> files = Files.walk(data)) {
      files.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
  }
}
