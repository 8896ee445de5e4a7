package dev.keywork;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.keywork.client.KeyworkClient;
import dev.keywork.client.Submit;
import dev.keywork.job.Outcome;
import dev.keywork.support.Log;
import dev.keywork.testing.FakeServer;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The examples, each as a program of its own. */
class ExamplesTest {
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

  /** A program that runs. */
  private record Program(Process process, Log<String> lines) {
    int exitCode() throws InterruptedException {
      assertTrue(process.waitFor(20, TimeUnit.SECONDS), "it did not end");
      return process.exitValue();
    }
  }

  private Program run(String example) throws IOException {
    String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
    ProcessBuilder builder = new ProcessBuilder(
        java, "-cp", System.getProperty("java.class.path"), Path.of("examples", example + ".java").toString());
    builder.environment().put("KEYWORK_SERVER", server.endpoint());
    Process process = builder.redirectErrorStream(true).start();
    Log<String> lines = new Log<>();
    BufferedReader output = process.inputReader();
    Thread reader = new Thread(() -> output.lines().forEach(lines::add), "output of " + example);
    reader.setDaemon(true);
    reader.start();
    return new Program(process, lines);
  }

  @Test
  void theFirstProgramRunsItsJobAndStopsCleanlyAtASignal() throws Exception {
    Program program = run("Quickstart");
    server.until("the job to complete", seen -> seen.completed().equals(List.of("cluster-eu-1")));
    program.lines.untilAny("its line", "cluster-eu-1, attempt 1"::equals);
    program.process.toHandle().destroy();
    assertEquals(0, program.exitCode());
  }

  @Test
  void manyJobsAreOfferedAtOnce() throws Exception {
    client.submit(Submit.of("reindex", "document-7", ""));
    Program program = run("BatchSubmit");
    assertEquals(0, program.exitCode());
    program.lines.untilAny("its line", "accepted 9999, busy 1, failed 0"::equals);
  }

  @Test
  void aLongJobTakesItsSteps() throws Exception {
    client.submit(Submit.of("rebuild", "a", "1"));
    client.submit(Submit.of("rebuild", "b", "many"));
    Program program = run("LongJob");
    server.until("the job to complete", seen -> seen.completed().equals(List.of("a")));
    server.until("the other to fail", seen -> seen.settled(Outcome.Fail.class).equals(List.of("b")));
    program.process.toHandle().destroy();
    assertEquals(0, program.exitCode());
  }

  @Test
  void aSecondSignalGivesEverythingBack() throws Exception {
    client.submit(Submit.of("sync", "a", ""));
    Program program = run("GracefulShutdown");
    program.lines.untilAny("the handler", "started a"::equals);
    program.process.toHandle().destroy();
    server.until("the drain", seen -> seen.drains() == 1);
    program.process.toHandle().destroy();
    assertEquals(1, program.exitCode());
    assertEquals(List.of("a"), server.seen().settled(Outcome.Release.class));
  }

  @Test
  void aProgramIsTested() throws Exception {
    Program program = run("Testing");
    assertEquals(0, program.exitCode());
    program.lines.untilAny("its line", "all is well"::equals);
  }
}
