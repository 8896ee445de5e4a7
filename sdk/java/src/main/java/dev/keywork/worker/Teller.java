package dev.keywork.worker;

import dev.keywork.internal.Chain;
import dev.keywork.internal.Ticks;
import dev.keywork.job.Job;
import dev.keywork.job.Outcome;
import java.time.Duration;
import java.util.function.Consumer;
import java.util.function.Supplier;

/** Tells what happens: the owner, if he listens, and the log. Neither can hold up the other, or the worker. */
final class Teller {
  private static final Duration LAST_WORDS = Duration.ofSeconds(2);

  /** So many events may wait for an owner who is slow to listen; of what happens with every job half as many. */
  private static final int BACKLOG = 200_000;

  private final WorkerLog log;
  private final Consumer<WorkerEvent> listener;
  private final Aside owner;

  /** Nobody listens where the listener is null. */
  Teller(WorkerLog log, Consumer<WorkerEvent> listener) {
    this.log = log;
    this.listener = listener;
    this.owner = listener == null ? null : new Aside("keywork-events-", BACKLOG);
  }

  /** For what happens with every job: it is not logged, and nothing is made where nobody listens. */
  void tellOften(Supplier<WorkerEvent> event) {
    if (owner != null && !owner.isHalfFull()) {
      tellOwner(event.get());
    }
  }

  void tell(WorkerEvent event) {
    log.tell(event, Ticks.now());
    if (owner != null) {
      tellOwner(event);
    }
  }

  private void tellOwner(WorkerEvent event) {
    owner.run(() -> listener.accept(event));
  }

  /** A server takes long to open the session. */
  void slow() {
    log.slow(Ticks.now());
  }

  /** A handler has ended, and this is what its lease is settled with. */
  void handlerEnded(Job job, Outcome outcome, Chain.End end) {
    log.handlerEnded(job, outcome, end);
  }

  /** Nothing more is told; what was told is heard first. */
  void end() {
    long latest = Ticks.after(Ticks.now(), LAST_WORDS);
    log.end();
    if (owner != null) {
      owner.end();
      owner.awaitEnd(latest - Ticks.now());
    }
    log.awaitEnd(latest - Ticks.now());
  }
}
