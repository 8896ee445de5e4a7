package dev.keywork.worker;

import dev.keywork.internal.Chain;
import dev.keywork.internal.Ticks;
import dev.keywork.job.Job;
import dev.keywork.job.Outcome;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;

/**
 * What a worker says of itself in the program's log, under the name {@code dev.keywork}, whether anybody listens to its
 * events or not. It writes from a thread of its own: a log that blocks or throws costs no lease.
 */
final class WorkerLog {
  private static final String NAME = "dev.keywork";

  /** The least time between two warnings of one outage. */
  static final long PAUSE = Duration.ofSeconds(30).toNanos();

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

  /** When the next warning of the outage may come; 0: there is no outage. */
  private long nextWarning;

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
      nextWarning = 0;
      write(Level.INFO, "is ready, at " + endpoint);
    } else if (event instanceof WorkerEvent.Degraded degraded) {
      degraded(degraded.error(), now);
    } else if (event instanceof WorkerEvent.Draining) {
      write(Level.INFO, "drains: it takes no more jobs and finishes what runs");
    } else if (event instanceof WorkerEvent.Stopped stopped) {
      stopped(stopped.abandoned());
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
    if (nextWarning <= now) {
      nextWarning = now + PAUSE;
      // Some errors name the server themselves.
      String where = error.contains(endpoint) ? "" : endpoint + ": ";
      write(Level.WARNING, "is degraded and tries again: " + where + error);
    }
  }

  /** It has no answer yet. What becomes of that is told in its time: it is no warning less for this one. */
  void slow(long now) {
    if (nextWarning <= now) {
      write(Level.WARNING, "has no answer yet from " + endpoint);
    }
  }

  private void stopped(int abandoned) {
    if (abandoned == 0) {
      write(Level.INFO, "has stopped");
    } else {
      write(Level.WARNING, "has stopped and left handlers behind that ignore their cancellation: " + abandoned);
    }
  }

  /** A handler has failed by chance, and its job is tried again. */
  void handlerFailed(Job job, Chain.End end) {
    String attempt = job.attempt() + (job.maxAttempts() > 0 ? " of " + job.maxAttempts() : "");
    String text = "ran " + job(job.queue(), job.key()) + ", attempt " + attempt + ", and its handler failed";
    if (end.thrown() == null && end.outcome() instanceof Outcome.Retry retry) {
      text += ": " + retry.error();
    }
    write(Level.WARNING, text, end.thrown());
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
    System.Logger logger = System.getLogger(NAME);
    long missing = leftOut.getAndSet(0);
    if (missing > 0) {
      logger.log(Level.WARNING, worker + ": the log is slow, and lines are left out: " + missing);
    }
    logger.log(level, oneLine(worker + ": " + text), thrown);
  }

  /** Keys and errors may hold anything: none of it begins a line of its own. */
  private static String oneLine(String text) {
    StringBuilder line = new StringBuilder(text.length());
    for (char character : text.toCharArray()) {
      if (character == '\n') {
        line.append("\\n");
      } else {
        line.append(Character.isISOControl(character) ? '?' : character);
      }
    }
    return line.toString();
  }

  void end() {
    thread.end();
  }

  void awaitEnd(long nanos) {
    thread.awaitEnd(nanos);
  }
}
