package dev.keywork.worker;

import java.time.Duration;
import java.time.Instant;
import java.util.Optional;

/**
 * A handler's view of its lease. When it is cancelled the handler must stop its effects: somebody else may be about to
 * run the job. A cancellation also interrupts the handler's thread.
 */
public interface JobContext {
  /**
   * Is the handler to stop?
   *
   * @return true: it is
   */
  default boolean isCancelled() {
    return reason().isPresent();
  }

  /**
   * Why the handler is to stop.
   *
   * @return the reason; empty while it is not to stop
   */
  Optional<CancelReason> reason();

  /**
   * Runs something when the handler is to stop; at once where that is already so. It runs on a thread of its own.
   *
   * @param action what to run
   */
  void onCancel(Runnable action);

  /**
   * How long until the handler is to stop unless the lease is extended. Heartbeats extend it while it runs.
   *
   * @return the time that is left; zero when it is over
   */
  Duration timeLeft();

  /**
   * When the handler is to stop unless the lease is extended, by this machine's wall clock.
   *
   * @return now and {@link #timeLeft()}
   */
  default Instant deadline() {
    return Instant.now().plus(timeLeft());
  }
}
