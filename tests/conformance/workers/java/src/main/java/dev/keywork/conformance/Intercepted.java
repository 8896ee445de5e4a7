package dev.keywork.conformance;

import com.google.gson.JsonObject;
import dev.keywork.client.Submit;
import dev.keywork.client.SubmitOutcome;
import dev.keywork.job.Job;
import dev.keywork.job.Outcome;
import dev.keywork.worker.JobContext;
import dev.keywork.worker.JobHandler;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

/** Interceptors that tell when they are called, and change nothing. */
final class Intercepted {
  private Intercepted() {}

  static CompletableFuture<SubmitOutcome> submit(
      Submit submit, Function<Submit, CompletableFuture<SubmitOutcome>> next) {
    tell("submit", "before", submit.key());
    return next.apply(submit).whenComplete((outcome, error) -> tell("submit", "after", submit.key()));
  }

  static Outcome handle(JobContext context, Job job, JobHandler next) throws Exception {
    tell("handler", "before", job.key());
    try {
      return next.handle(context, job);
    } finally {
      tell("handler", "after", job.key());
    }
  }

  private static void tell(String what, String when, String key) {
    JsonObject event = Emit.event("intercepted");
    event.addProperty("what", what);
    event.addProperty("when", when);
    event.addProperty("key", key);
    Emit.emit(event);
  }
}
