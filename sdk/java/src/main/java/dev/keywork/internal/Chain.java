package dev.keywork.internal;

import dev.keywork.job.Job;
import dev.keywork.job.Outcome;
import dev.keywork.job.OutcomeException;
import dev.keywork.worker.CancelReason;
import dev.keywork.worker.HandlerInterceptor;
import dev.keywork.worker.JobHandler;
import java.util.List;
import java.util.Optional;

/** The interceptors and the handler of a worker. */
public final class Chain {
  private final JobHandler whole;

  /**
   * Wraps a handler.
   *
   * @param interceptors the outermost first
   * @param handler the handler
   */
  public Chain(List<HandlerInterceptor> interceptors, JobHandler handler) {
    JobHandler next = handler;
    for (int place = interceptors.size() - 1; place >= 0; place--) {
      HandlerInterceptor interceptor = interceptors.get(place);
      JobHandler rest = next;
      next = (context, job) -> interceptor.intercept(context, job, rest);
    }
    this.whole = next;
  }

  /**
   * How a handler's run ended.
   *
   * @param outcome what it says
   * @param byChance it failed, and did not choose how to end
   * @param thrown the ordinary exception that it threw; null: it threw none
   */
  public record End(Outcome outcome, boolean byChance, Throwable thrown) {
    /**
     * What a worker settles.
     *
     * @param reason why the handler was told to stop; empty where it was not
     * @return the outcome: a failure of a handler that stops with its worker gives the job back. Empty: the lease is
     *     lost, and the result is dropped
     */
    public Optional<Outcome> settled(Optional<CancelReason> reason) {
      if (reason.isEmpty()) {
        return Optional.of(outcome);
      }
      if (reason.get() != CancelReason.WORKER_SHUTDOWN) {
        return Optional.empty();
      }
      return Optional.of(byChance ? Outcome.release() : outcome);
    }
  }

  /**
   * Runs one job to its end, whatever the handler does.
   *
   * @param context its lease
   * @param job the job
   * @return how the run ended
   */
  public End run(LeaseContext context, Job job) {
    // On a busy machine a thread may begin when its lease is over: the job may have begun elsewhere.
    if (context.isCancelled() || context.timeLeft().isZero()) {
      return failed("the lease was over before the handler began");
    }
    context.begin();
    try {
      return chosen(whole.handle(context, job));
    } catch (OutcomeException thrown) {
      return chosen(thrown.outcome());
    } catch (Throwable thrown) {
      // Errors too: a handler that runs out of stack frees its slot like any other.
      return new End(Outcome.retry(text(thrown)), true, thrown);
    } finally {
      context.end();
    }
  }

  private static End chosen(Outcome outcome) {
    return outcome == null ? failed("the handler returned null") : new End(outcome, false, null);
  }

  /**
   * The end of a run that failed by chance.
   *
   * @param text what went wrong
   * @return the end
   */
  public static End failed(String text) {
    return new End(Outcome.retry(text), true, null);
  }

  private static String text(Throwable thrown) {
    try {
      StringBuilder text = new StringBuilder(thrown.toString());
      Throwable cause = thrown.getCause();
      for (int depth = 0; cause != null && depth < 10; depth++, cause = cause.getCause()) {
        text.append(": ").append(cause);
      }
      return text.toString();
    } catch (RuntimeException | Error unspeakable) {
      // Exceptions are code of others too, and the slot is to be freed whatever they do.
      return thrown.getClass().getName();
    }
  }
}
