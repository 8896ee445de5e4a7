package dev.keywork.client;

import dev.keywork.errors.KeyworkException;
import dev.keywork.internal.Channels;
import io.grpc.Status;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;

/**
 * Offers jobs without waiting for each answer: pipelined, bounded in flight, and mended when the stream breaks. For
 * sources without an end, and for many jobs; any thread may offer.
 *
 * <p>Unanswered offers are made again, with the same request ids, after a break. An offer whose answer is an error has
 * failed for good or stayed unanswered for the client's submit deadline. When no server could be reached for that
 * long, everything that is unanswered or offered later fails with that error: open another stream then.
 */
public final class SubmitStream implements AutoCloseable {
  /** The most offers that are unanswered at a time; servers stop reading at 4,096. */
  private static final int WINDOW = 4_000;

  private final Submits submits;
  private final SubmitPump pump;
  private final Semaphore window = new Semaphore(WINDOW);

  SubmitStream(Channels channels, Submits submits) {
    this.submits = submits;
    this.pump = new SubmitPump(channels, window);
  }

  /**
   * Offers a job. Waits while 4,000 offers are unanswered.
   *
   * @param submit the offer
   * @return the answer, when it comes; what depends on it runs on the stream's thread unless it is told to run
   *     elsewhere, and must not block there
   * @throws KeyworkException this thread was interrupted while it waited
   * @throws IllegalStateException the stream is closed, or this is its own thread and there is no room
   */
  public CompletableFuture<SubmitOutcome> offer(Submit submit) {
    return submits.through(submit, this::enqueue);
  }

  private CompletableFuture<SubmitOutcome> enqueue(Submit submit) {
    Offer offer;
    try {
      offer = Offer.of(submit);
    } catch (KeyworkException refused) {
      return CompletableFuture.failedFuture(refused);
    }
    if (!window.tryAcquire()) {
      awaitRoom();
    }
    return pump.offer(offer);
  }

  private void awaitRoom() {
    if (pump.isOwnThread()) {
      throw onItsThread("an offer, while 4,000 are unanswered,");
    }
    try {
      window.acquire();
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw KeyworkException.builder(Status.Code.CANCELLED)
          .description("interrupted while waiting for room on the submit stream")
          .noSideEffects(true)
          .cause(interrupted)
          .build();
    }
  }

  /**
   * Waits until everything is answered, and closes the stream.
   *
   * @throws IllegalStateException this is the stream's own thread, which would wait for itself
   */
  @Override
  public void close() {
    if (pump.isOwnThread()) {
      throw onItsThread("close");
    }
    pump.close();
  }

  private static IllegalStateException onItsThread(String what) {
    return new IllegalStateException(
        what + " would wait for ever on the stream's own thread: use thenAcceptAsync, or another of the Async methods");
  }
}
