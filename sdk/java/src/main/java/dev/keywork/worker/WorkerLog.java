package dev.keywork.worker;

import dev.keywork.internal.Chain;
import dev.keywork.internal.Outage;
import dev.keywork.internal.ProgramLog;
import dev.keywork.job.Job;
import dev.keywork.job.Outcome;
import java.lang.System.Logger.Level;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;

/**
 * What a worker says of itself in the program's log, under the name {@code dev.keywork}, whether anybody listens to its
 * events or not. It writes from a thread of its own: a log that blocks or throws costs no lease.
 */
final class WorkerLog {
  /** So many lines may wait for a log that is slow; the others are counted. */
  private static final int BACKLOG = 10_000;

  /** So many queues are named in each line. */
  private static final int NAMED = 3;

  private final Aside thread = new Aside("keywork-log-", BACKLOG);
  private final AtomicLong leftOut = new AtomicLong();
  private final String worker;
  private final boolean failureToo;

  /** The server that it was last about to connect to. */
  private String endpoint = "";

  private final Outage outage = new Outage();

  /**
   * A log.
   *
   * @param queues what the worker serves
   * @param failureToo log the error that ends the worker, since nobody is thrown it
   */
  WorkerLog(List<String> queues, boolean failureToo) {
    String others = queues.size() > NAMED ? " and " + (queues.size() - NAMED) + " more" : "";
    this.worker = "worker of " + String.join(", ", queues.subList(0, Math.min(NAMED, queues.size()))) + others;
    this.failureToo = failureToo;
  }

  /** Everything but what happens with every job. Only the worker's loop calls this. */
  void tell(WorkerEvent event, long now) {
    if (event instanceof WorkerEvent.Connecting connecting) {
      endpoint = connecting.endpoint();
      write(Level.DEBUG, "connects to " + endpoint);
    } else if (event instanceof WorkerEvent.Ready) {
      outage.isOver();
      write(Level.INFO, "is ready, at " + endpoint);
    } else if (event instanceof WorkerEvent.Degraded degraded) {
      degraded(degraded.error(), now);
    } else if (event instanceof WorkerEvent.Draining) {
      write(Level.INFO, "drains: it takes no more jobs and finishes what runs");
    } else if (event instanceof WorkerEvent.Stopped stopped) {
      stopped(stopped);
    } else if (event instanceof WorkerEvent.LeaseLost lost) {
      String why = lost.reason().map(Enum::name).orElse("it was not extended in time");
      write(Level.WARNING, "lost the lease of " + job(lost.queue(), lost.key()) + ": " + why);
    } else if (event instanceof WorkerEvent.SettlementRejected rejected) {
      String job = job(rejected.queue(), rejected.key());
      write(Level.WARNING, "settled " + job + " in vain, the server refuses it: " + rejected.error());
    } else if (event instanceof WorkerEvent.HandlerIgnoresCancellation stubborn) {
      String job = job(stubborn.queue(), stubborn.key());
      long seconds = stubborn.cancelledFor().toSeconds();
      write(Level.WARNING, "cancelled the handler of " + job + " " + seconds + " s ago, and it still runs");
    } else if (event instanceof WorkerEvent.Failed failed && failureToo) {
      write(Level.WARNING, failed.error().getMessage());
    }
  }

  private void degraded(String error, long now) {
    if (outage.isToBeWarnedOf(now)) {
      write(Level.WARNING, "is degraded and tries again: " + ProgramLog.at(endpoint, error));
    }
  }

  /** It has no answer yet. What becomes of that is told in its time: it is no warning less for this one. */
  void slow(long now) {
    if (outage.isDue(now)) {
      write(Level.WARNING, "has no answer yet from " + endpoint);
    }
  }

  private void stopped(WorkerEvent.Stopped how) {
    String text = "has stopped";
    if (how.abandoned() > 0) {
      text += ", handlers that ignore their cancellation were left behind: " + how.abandoned();
    }
    if (how.unconfirmed() > 0) {
      text += ", results were not confirmed, so their jobs run again when their leases are over: " + how.unconfirmed();
    }
    write(how.abandoned() + how.unconfirmed() > 0 ? Level.WARNING : Level.INFO, text);
  }

  /** A handler has ended: its owner must know that it failed by chance, or that its job is a dead letter. */
  void handlerEnded(Job job, Outcome outcome, Chain.End end) {
    boolean last = job.maxAttempts() > 0 && job.attempt() >= job.maxAttempts();
    if (outcome instanceof Outcome.Fail fail) {
      ended(job, "its handler failed it for good, so it is a dead letter", fail.reason(), null);
    } else if (outcome instanceof Outcome.Retry retry && end.byChance()) {
      String next = last ? "so it is a dead letter" : "so it is tried again";
      ended(job, "its handler failed, " + next, end.thrown() == null ? retry.error() : "", end.thrown());
    } else if (outcome instanceof Outcome.Retry retry && last) {
      ended(job, "its handler asked for a retry in its last attempt, so it is a dead letter", retry.error(), null);
    }
  }

  private void ended(Job job, String how, String error, Throwable thrown) {
    String attempt = job.attempt() + (job.maxAttempts() > 0 ? " of " + job.maxAttempts() : "");
    String text = "ran " + job(job.queue(), job.key()) + ", attempt " + attempt + ", and " + how;
    write(Level.WARNING, error.isEmpty() ? text : text + ": " + error, thrown);
  }

  private static String job(String queue, String key) {
    return queue + '/' + key;
  }

  private void write(Level level, String text) {
    write(level, text, null);
  }

  private void write(Level level, String text, Throwable thrown) {
    if (!thread.run(() -> log(level, text, thrown))) {
      leftOut.incrementAndGet();
    }
  }

  private void log(Level level, String text, Throwable thrown) {
    long missing = leftOut.getAndSet(0);
    if (missing > 0) {
      Worker.log(Level.WARNING, worker + ": the log is slow, and lines are left out: " + missing, null);
    }
    Worker.log(level, worker + ": " + text, thrown);
  }

  void end() {
    thread.end();
  }

  void awaitEnd(long nanos) {
    thread.awaitEnd(nanos);
  }
}
