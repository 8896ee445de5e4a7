package dev.keywork.client;

import dev.keywork.errors.KeyworkException;
import dev.keywork.internal.Channels;
import dev.keywork.internal.v1.SubmitBatchRequest;
import dev.keywork.internal.v1.SubmitBatchResponse;
import dev.keywork.internal.v1.SubmitRequest;
import dev.keywork.internal.v1.WorkQueueGrpc;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import java.util.function.Supplier;

/** Offering jobs: alone, in one call, on a stream; each through the client's interceptors. */
final class Submits {
  private final Channels channels;
  private final List<SubmitInterceptor> interceptors;

  Submits(Channels channels, List<SubmitInterceptor> interceptors) {
    this.channels = channels;
    this.interceptors = List.copyOf(interceptors);
  }

  CompletableFuture<SubmitOutcome> one(Submit submit) {
    return through(submit, passed -> orFailed(() -> offerOne(passed)));
  }

  private CompletableFuture<SubmitOutcome> offerOne(Submit submit) {
    Offer offer = Offer.of(submit);
    var answer = Repeated.call(channels, WorkQueueGrpc.getSubmitMethod(), offer.request());
    CompletableFuture<SubmitOutcome> outcome = answer.thenApply(offer::read);
    outcome.whenComplete((ignored, error) -> {
      if (outcome.isCancelled()) {
        answer.cancel(true);
      }
    });
    return outcome;
  }

  CompletableFuture<List<SubmitResult>> batch(Iterable<Submit> submits) {
    List<Item> items = new ArrayList<>();
    List<CompletableFuture<SubmitOutcome>> outcomes = new ArrayList<>();
    for (Submit submit : submits) {
      outcomes.add(orFailed(() -> through(submit, passed -> {
        Item item = new Item(Offer.of(passed), new CompletableFuture<>());
        items.add(item);
        return item.outcome;
      })));
    }
    if (items.isEmpty()) {
      return CompletableFuture.completedFuture(results(outcomes));
    }
    return call(items).thenApply(answer -> {
      deal(items, answer);
      return results(outcomes);
    });
  }

  /** What refuses one offer before it is sent, such as an interceptor that throws, spoils no other. */
  static CompletableFuture<SubmitOutcome> orFailed(Supplier<CompletableFuture<SubmitOutcome>> offer) {
    try {
      return offer.get();
    } catch (RuntimeException refused) {
      return CompletableFuture.failedFuture(refused);
    }
  }

  private CompletableFuture<SubmitBatchResponse> call(List<Item> items) {
    List<SubmitRequest> requests = items.stream().map(item -> item.offer.request()).toList();
    SubmitBatchRequest request = SubmitBatchRequest.newBuilder().addAllItems(requests).build();
    return Repeated.call(channels, WorkQueueGrpc.getSubmitBatchMethod(), request);
  }

  private static void deal(List<Item> items, SubmitBatchResponse answer) {
    for (int place = 0; place < items.size(); place++) {
      Item item = items.get(place);
      boolean told = place < answer.getResultsCount();
      complete(item.outcome, told ? item.offer.read(answer.getResults(place)) : missing());
    }
  }

  private static SubmitResult missing() {
    return new SubmitResult.Failed(KeyworkException.builder(Status.Code.INTERNAL)
        .description("the server answered fewer items than it was offered")
        .build());
  }

  static void complete(CompletableFuture<SubmitOutcome> future, SubmitResult result) {
    if (result instanceof SubmitResult.Answered answered) {
      future.complete(answered.outcome());
    } else if (result instanceof SubmitResult.Failed failed) {
      future.completeExceptionally(failed.cause());
    }
  }

  /** Waits for all, and says how each ended. */
  static List<SubmitResult> results(List<CompletableFuture<SubmitOutcome>> outcomes) {
    List<SubmitResult> results = new ArrayList<>(outcomes.size());
    for (CompletableFuture<SubmitOutcome> outcome : outcomes) {
      results.add(outcome.<SubmitResult>thenApply(SubmitResult.Answered::new)
          .exceptionally(error -> new SubmitResult.Failed(KeyworkException.from(unwrapped(error))))
          .join());
    }
    return results;
  }

  private static Throwable unwrapped(Throwable error) {
    boolean wrapped = error instanceof java.util.concurrent.CompletionException && error.getCause() != null;
    return wrapped ? error.getCause() : error;
  }

  /** Passes an offer through the interceptors; the first one added is the outermost. */
  CompletableFuture<SubmitOutcome> through(Submit submit, Function<Submit, CompletableFuture<SubmitOutcome>> last) {
    Function<Submit, CompletableFuture<SubmitOutcome>> next = last;
    for (int place = interceptors.size() - 1; place >= 0; place--) {
      SubmitInterceptor interceptor = interceptors.get(place);
      Function<Submit, CompletableFuture<SubmitOutcome>> rest = next;
      next = passed -> interceptor.intercept(passed, rest);
    }
    return next.apply(submit);
  }

  private record Item(Offer offer, CompletableFuture<SubmitOutcome> outcome) {}
}
