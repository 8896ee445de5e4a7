package dev.keywork.client;

import dev.keywork.errors.KeyworkException;
import dev.keywork.internal.Calls;
import dev.keywork.internal.Channels;
import dev.keywork.internal.Threads;
import io.grpc.MethodDescriptor;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** A call that is safe to repeat, repeated while servers are away. */
final class Repeated<Q, A> {
  private final Channels channels;
  private final MethodDescriptor<Q, A> method;
  private final Q request;
  private final Patience patience;
  private final CompletableFuture<A> answer = new CompletableFuture<>();
  /** The try or the wait that is under way. */
  private volatile Future<?> step;

  private Repeated(Channels channels, MethodDescriptor<Q, A> method, Q request) {
    this.channels = channels;
    this.method = method;
    this.request = request;
    this.patience = new Patience(channels);
  }

  static <Q, A> CompletableFuture<A> call(Channels channels, MethodDescriptor<Q, A> method, Q request) {
    Repeated<Q, A> call = new Repeated<>(channels, method, request);
    call.once();
    call.answer.whenComplete((ignored, error) -> call.stopIfCancelled());
    return call.answer;
  }

  private void once() {
    CompletableFuture<A> once;
    try {
      once = Calls.unary(channels, patience.place(), method, request, patience.limit());
    } catch (KeyworkException closed) {
      answer.completeExceptionally(patience.told(closed));
      return;
    }
    step = once;
    once.whenComplete((value, error) -> {
      if (error == null) {
        patience.answered();
        answer.complete(value);
      } else {
        failed(KeyworkException.from(error));
      }
    });
    stopIfCancelled();
  }

  private void failed(KeyworkException error) {
    Optional<Duration> wait = patience.after(error);
    if (wait.isEmpty() || answer.isDone()) {
      answer.completeExceptionally(patience.told(error));
      return;
    }
    // What depends on the answer may block: it must not do so on the timer's thread.
    Runnable next = () -> Threads.callbacks().execute(this::onceMore);
    step = Threads.timerThread().schedule(next, wait.get().toNanos(), TimeUnit.NANOSECONDS);
    patience.warnOf(error);
    stopIfCancelled();
  }

  private void onceMore() {
    if (!answer.isDone()) {
      once();
    }
  }

  private void stopIfCancelled() {
    Future<?> running = step;
    if (answer.isCancelled() && running != null) {
      running.cancel(true);
    }
  }
}
