package dev.keywork.support;

import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.keywork.client.KeyworkClient;
import dev.keywork.client.Submit;
import dev.keywork.job.Job;
import dev.keywork.job.Outcome;
import dev.keywork.testing.FakeServer;
import dev.keywork.worker.CancelReason;
import dev.keywork.worker.JobContext;
import dev.keywork.worker.Worker;
import dev.keywork.worker.WorkerEvent;
import dev.keywork.worker.WorkerException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** A server, and workers whose handlers wait at a gate until they are let through or cancelled. */
public final class Scene implements AutoCloseable {
  /** What a handler went through. */
  public sealed interface Step {
    record Started(String key) implements Step {}

    record Cancelled(String key, CancelReason reason) implements Step {}

    record Ended(String key) implements Step {}
  }

  private static final long PATIENCE_SECONDS = 20;

  public final FakeServer server;
  public final KeyworkClient client;
  public final Log<Step> steps = new Log<>();
  public final Log<WorkerEvent> events = new Log<>();
  private final CountDownLatch gate = new CountDownLatch(1);
  private final List<Worker> workers = new ArrayList<>();

  public Scene(FakeServer server) {
    this.server = server;
    this.client = server.client();
  }

  /** Leases as short as a busy machine keeps to. */
  public static Scene withShortLeases() {
    return new Scene(FakeServer.builder().leaseDuration(Duration.ofMillis(1_500)).start());
  }

  public static Scene withLongLeases() {
    return new Scene(FakeServer.start());
  }

  public void submit(String... keys) {
    for (String key : keys) {
      assertTrue(client.submit(Submit.of("q", key, "")).isAccepted());
    }
  }

  public Worker.Builder builder() {
    return Worker.builder(client, "q").concurrency(4).onEvent(events::add);
  }

  /** Starts a worker whose handlers wait at the gate. */
  public Worker start(Worker.Builder builder) {
    return run(builder.handler(this::atTheGate));
  }

  /** Starts a worker with handlers of its own. */
  public Worker run(Worker.Builder builder) {
    Worker worker = builder.build();
    workers.add(worker);
    ends.add(worker.start());
    return worker;
  }

  private final List<CompletableFuture<Void>> ends = new ArrayList<>();

  private Outcome atTheGate(JobContext context, Job job) throws InterruptedException {
    steps.add(new Step.Started(job.key()));
    try {
      gate.await();
    } catch (InterruptedException interrupted) {
      steps.add(new Step.Cancelled(job.key(), context.reason().orElseThrow()));
      throw interrupted;
    }
    steps.add(new Step.Ended(job.key()));
    return Outcome.complete();
  }

  public void openGate() {
    gate.countDown();
  }

  public void untilStarted(int count) {
    steps.until(count + " handlers to start",
        all -> all.stream().filter(Step.Started.class::isInstance).count() >= count);
  }

  public void untilCancelled(String key, CancelReason reason) {
    Step step = new Step.Cancelled(key, reason);
    steps.untilAny(step.toString(), step::equals);
  }

  public void untilReady() {
    events.until("readiness", all -> !all.isEmpty() && all.get(all.size() - 1) instanceof WorkerEvent.Ready);
  }

  public void untilCompleted(String... keys) {
    server.until("the jobs to complete", seen -> seen.completed().equals(List.of(keys)));
  }

  /** Waits for the end of a worker that something else has caused; null: it was clean. */
  public WorkerException end(Worker worker) {
    try {
      ends.get(workers.indexOf(worker)).get(PATIENCE_SECONDS, TimeUnit.SECONDS);
      return null;
    } catch (java.util.concurrent.ExecutionException failed) {
      if (failed.getCause() instanceof WorkerException error) {
        return error;
      }
      throw new AssertionError(failed);
    } catch (InterruptedException | TimeoutException waitedInVain) {
      throw new AssertionError("the worker did not end", waitedInVain);
    }
  }

  public void drain(Worker worker) {
    worker.drain();
    WorkerException error = end(worker);
    if (error != null) {
      throw error;
    }
  }

  @Override
  public void close() {
    workers.forEach(Worker::releaseAll);
    openGate();
    for (CompletableFuture<Void> end : ends) {
      try {
        end.join();
      } catch (CompletionException forced) {
        // A test that has failed leaves its workers running; their end is not what it is about.
        continue;
      }
    }
    client.close();
    server.close();
  }
}
