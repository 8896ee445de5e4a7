package dev.keywork.client;

import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

/** Wraps every submit, alone or among many: for tracing, metrics, defaults. */
@FunctionalInterface
public interface SubmitInterceptor {
  /**
   * Does what is to be done around {@code next}. It runs on the thread that submits, and must not block.
   *
   * @param submit the offer
   * @param next goes on with this offer, or another in its place
   * @return what {@code next} returned, or something made of it
   */
  CompletableFuture<SubmitOutcome> intercept(
      Submit submit, Function<Submit, CompletableFuture<SubmitOutcome>> next);
}
