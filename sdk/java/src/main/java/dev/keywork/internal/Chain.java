package dev.keywork.internal;

import dev.keywork.job.Job;
import dev.keywork.job.Outcome;
import dev.keywork.job.OutcomeException;
import dev.keywork.worker.HandlerInterceptor;
import dev.keywork.worker.JobHandler;
import java.util.List;

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
   * @param outcome how
   * @param byChance it threw an ordinary exception
   */
  public record End(Outcome outcome, boolean byChance) {}

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
      Outcome outcome = whole.handle(context, job);
      return outcome == null ? failed("the handler returned null") : new End(outcome, false);
    } catch (OutcomeException chosen) {
      return new End(chosen.outcome(), false);
    } catch (Throwable thrown) {
      // Errors too: a handler that runs out of stack frees its slot like any other.
      return failed(text(thrown));
    } finally {
      context.end();
    }
  }

  /**
   * The end of a run that failed by chance.
   *
   * @param text what went wrong
   * @return the end
   */
  public static End failed(String text) {
    return new End(Outcome.retry(text), true);
  }

  private static String text(Throwable thrown) {
    StringBuilder text = new StringBuilder(thrown.toString());
    Throwable cause = thrown.getCause();
    for (int depth = 0; cause != null && depth < 10; depth++, cause = cause.getCause()) {
      text.append(": ").append(cause);
    }
    return text.toString();
  }
}
