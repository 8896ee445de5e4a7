package dev.keywork.testing;

import dev.keywork.internal.Chain;
import dev.keywork.internal.LeaseContext;
import dev.keywork.internal.Threads;
import dev.keywork.internal.Ticks;
import dev.keywork.job.Job;
import dev.keywork.job.Outcome;
import dev.keywork.worker.CancelReason;
import dev.keywork.worker.JobHandler;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * A handler that runs on a thread of its own, with a lease that lasts until the test cancels it. {@link Handlers#start}
 * makes it.
 */
public final class HandlerRun {
  private static final Duration LASTING = Duration.ofHours(1);
  private static final long PATIENCE_SECONDS = 20;

  private final LeaseContext context = lasting();
  private final CompletableFuture<Optional<Outcome>> end = new CompletableFuture<>();

  HandlerRun(JobHandler handler, Job job) {
    CountDownLatch begun = new CountDownLatch(1);
    Chain chain = new Chain(List.of(), (lease, given) -> {
      begun.countDown();
      return handler.handle(lease, given);
    });
    Threads.daemons("keywork-handler-").newThread(() -> run(chain, job)).start();
    awaitBegin(begun);
  }

  /** What is cancelled before that would not be run at all. */
  private static void awaitBegin(CountDownLatch begun) {
    try {
      begun.await();
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new AssertionError("interrupted while waiting for the handler to begin", interrupted);
    }
  }

  static LeaseContext lasting() {
    return new LeaseContext(Ticks.after(Ticks.now(), LASTING));
  }

  private void run(Chain chain, Job job) {
    try {
      end.complete(chain.run(context, job).settled(context.reason()));
    } catch (RuntimeException | Error unexpected) {
      end.completeExceptionally(unexpected);
    }
  }

  /**
   * Cancels the handler's context, as a worker does: its thread is interrupted, and what it gave to {@code onCancel}
   * runs. The first reason stays; after the handler's end this does nothing.
   *
   * @param reason why the handler is to stop
   */
  public void cancel(CancelReason reason) {
    context.cancel(reason);
  }

  /**
   * Has the handler ended?
   *
   * @return true: it has
   */
  public boolean hasEnded() {
    return end.isDone();
  }

  /**
   * Waits for the handler's end, at most 20 s.
   *
   * @return what a worker would settle: after {@code WORKER_SHUTDOWN} an exception of the handler is a release. Empty:
   *     the lease is lost or the job cancelled, and the worker drops the result
   * @throws AssertionError it does not end, or this thread was interrupted
   */
  public Optional<Outcome> outcome() {
    try {
      return end.get(PATIENCE_SECONDS, TimeUnit.SECONDS);
    } catch (TimeoutException waitedInVain) {
      throw new AssertionError("waited in vain for the handler to end", waitedInVain);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new AssertionError("interrupted while waiting for the handler to end", interrupted);
    } catch (ExecutionException unexpected) {
      throw new AssertionError("failed to run the handler", unexpected.getCause());
    }
  }
}
