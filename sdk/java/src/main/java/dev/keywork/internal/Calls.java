package dev.keywork.internal;

import dev.keywork.errors.KeyworkException;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/** One unary call: a try, within a time limit. Nothing is repeated here: whether that is safe depends on the call. */
public final class Calls {
  private Calls() {}

  /**
   * Calls once.
   *
   * @param <Q> the request
   * @param <A> the answer
   * @param channels the way
   * @param place which server
   * @param method the method
   * @param request the request
   * @param limit how long it may take
   * @return the answer, or a {@link KeyworkException}; cancelling it cancels the call
   */
  public static <Q, A> CompletableFuture<A> unary(
      Channels channels, int place, MethodDescriptor<Q, A> method, Q request, Duration limit) {
    CallOptions options = CallOptions.DEFAULT.withDeadlineAfter(Ticks.nanos(limit), TimeUnit.NANOSECONDS);
    ClientCall<Q, A> call = channels.at(place).newCall(method, options);
    CompletableFuture<A> answer = new CompletableFuture<>();
    answer.whenComplete((ignored, error) -> {
      if (answer.isCancelled()) {
        call.cancel("nobody waits for the answer any more", null);
      }
    });
    ClientCalls.asyncUnaryCall(call, request, new Answer<>(answer, channels.name(place)));
    return answer;
  }

  /**
   * Waits for an answer.
   *
   * @param <A> the answer
   * @param future what is waited for
   * @return the answer
   * @throws KeyworkException the call failed, or this thread was interrupted, which cancels the call
   */
  public static <A> A await(CompletableFuture<A> future) {
    try {
      return future.get();
    } catch (InterruptedException interrupted) {
      future.cancel(true);
      Thread.currentThread().interrupt();
      throw KeyworkException.builder(Status.Code.CANCELLED)
          .description("interrupted while waiting for the server's answer")
          .cause(interrupted)
          .build();
    } catch (ExecutionException failed) {
      throw here(KeyworkException.from(failed.getCause()));
    }
  }

  /** The same error with this thread's stack, so that it shows which call of the program failed. */
  private static KeyworkException here(KeyworkException error) {
    return error.toBuilder().cause(error).build();
  }

  private record Answer<A>(CompletableFuture<A> to, String server) implements StreamObserver<A> {
    @Override
    public void onNext(A value) {
      to.complete(value);
    }

    @Override
    public void onError(Throwable error) {
      to.completeExceptionally(KeyworkException.from(error, server));
    }

    @Override
    public void onCompleted() {
      // The answer came before.
    }
  }
}
