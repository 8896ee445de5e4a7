package dev.keywork.client;

import dev.keywork.job.LostReason;
import java.time.Duration;

/** What became of one lease that was to be extended. */
public sealed interface LeaseExtension {
  /**
   * It was extended.
   *
   * @param token the token to use from now on
   * @param timeLeft how long it holds, from when the server sent this
   */
  record Extended(LeaseToken token, Duration timeLeft) implements LeaseExtension {}

  /**
   * It is as before: try again.
   *
   * @param token the token
   */
  record TryAgain(LeaseToken token) implements LeaseExtension {}

  /**
   * It is lost.
   *
   * @param reason why
   */
  record Lost(LostReason reason) implements LeaseExtension {}
}
