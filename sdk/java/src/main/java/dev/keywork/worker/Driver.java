package dev.keywork.worker;

import dev.keywork.errors.KeyworkException;
import dev.keywork.internal.Backoff;
import dev.keywork.internal.Chain;
import dev.keywork.internal.Threads;
import dev.keywork.internal.Ticks;
import dev.keywork.internal.v1.LeaseResponse;
import dev.keywork.job.LostReason;
import dev.keywork.job.Outcome;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * The worker's loop: one thread that holds all state of the session and sends the heartbeats.
 *
 * <p>Handlers run elsewhere. Everybody else puts something to do into its mailbox; nothing that it does ever waits.
 */
final class Driver implements Runnable {
  /** How much of the mailbox is done before anything is sent: what one message can settle. */
  private static final int TAKEN = 1_000;

  /** When a handler that goes on after its cancellation is told of. */
  static final long STUBBORN = Duration.ofSeconds(5).toNanos();

  /** How long a server may take to open the session before that is logged. */
  private static final long SLOW = Duration.ofMillis(800).toNanos();

  /** How long releases and the last settlements may take to be confirmed. */
  private static final long FLUSH_WITHIN = Duration.ofSeconds(2).toNanos();

  /** What an executor such as one with a CallerRunsPolicy does would cost every lease. */
  private static final String NO_ROOM =
      "the executor had no thread for the handler: it needs room for as many as the concurrency";

  /** Where a worker is on its way to the end. */
  private enum Stop {
    /** Not stopping. */
    NO,
    /** Handlers run to their end; no job is started. */
    DRAINING,
    /** Handlers were told to stop, and may end by themselves. */
    CANCELLING,
    /** Handlers were interrupted again; what they held is released as they end. */
    RELEASING
  }

  final Setup setup;
  final Teller teller;
  final Counters counters;
  final Leases leases = new Leases();
  final Outbox outbox = new Outbox();
  final Session session = new Session();
  final Backoff backoff = new Backoff();
  final Beats beats;
  final Link link;

  /** Leases that wait for a handler slot. */
  final ArrayDeque<Held> waiting = new ArrayDeque<>();

  List<Terms> terms = List.of();

  /** The session with a server is live; read by everybody. */
  volatile boolean healthy;

  private final Orders orders;

  /** Never longer than there are handlers, and messages that the stream may bring before one is read. */
  private final LinkedBlockingQueue<Runnable> mailbox = new LinkedBlockingQueue<>();
  private final Inbound inbound = new Inbound(this);
  private final Outbound outbound = new Outbound(this);
  private final ExecutorService ownExecutor;
  private final Executor executor;

  /** The one that this runs on. */
  private volatile Thread thread;

  private Stop stop = Stop.NO;
  private long stopAt = Ticks.NEVER;
  private WorkerException failure;

  /** Results that were given up when the session could not go on. */
  private int unconfirmed;

  /** When the session that is being opened takes long. */
  long slowAt = Ticks.NEVER;

  /** When the leases' fences are to be looked at next. */
  private long nextSweep = Ticks.NEVER;

  Driver(Setup setup, Orders orders, Teller teller, Counters counters) {
    long now = Ticks.now();
    this.setup = setup;
    this.orders = orders;
    this.teller = teller;
    this.counters = counters;
    this.beats = new Beats(now);
    this.link = new Link(setup.options(), this, now);
    this.ownExecutor = setup.executor() == null ? Threads.forHandlers() : null;
    this.executor = setup.executor() == null ? ownExecutor : setup.executor();
  }

  /** Why it ended; null: because it was asked to. */
  WorkerException failure() {
    return failure;
  }

  /** Puts something to do into the mailbox. */
  void post(Runnable task) {
    mailbox.add(task);
  }

  /** The same for a connection, which counts only as long as it is the one in use. */
  void post(Dial from, Runnable task) {
    mailbox.add(() -> {
      if (link.isCurrent(from)) {
        task.run();
      }
    });
  }

  /** Works until it is stopped. */
  @Override
  public void run() {
    thread = Thread.currentThread();
    try {
      loop();
    } catch (InterruptedException | RuntimeException | Error unexpected) {
      failure = WorkerException.broken(unexpected);
    } finally {
      end();
    }
  }

  private void loop() throws InterruptedException {
    while (true) {
      long now = Ticks.now();
      onTime(now);
      obey(now);
      if (isOver(now)) {
        return;
      }
      outbound.flush(now);
      work(mailbox.poll(Math.max(0, wake() - now), TimeUnit.NANOSECONDS));
    }
  }

  private void work(Runnable first) {
    Runnable task = first;
    for (int done = 0; task != null; task = mailbox.poll()) {
      task.run();
      done++;
      if (done == TAKEN) {
        return;
      }
    }
  }

  private void end() {
    healthy = false;
    link.close();
    WorkerEvent.Stopped stopped =
        new WorkerEvent.Stopped(leases.occupied(), unconfirmed + leases.unconfirmed());
    // Whatever ended the worker: no handler goes on as if its lease were still being extended.
    leases.cancelAll(CancelReason.LEASE_LOST);
    if (ownExecutor != null) {
      ownExecutor.shutdown();
    }
    if (failure != null) {
      teller.tell(new WorkerEvent.Failed(failure));
    }
    teller.tell(stopped);
    teller.end();
  }

  /** The earliest time at which something is due. */
  private long wake() {
    long wake = Math.min(Math.min(link.wake(), outbox.wake()), Math.min(stopAt, nextSweep));
    wake = Math.min(wake, Math.min(session.moveAt, slowAt));
    // Without room for a heartbeat, the room is waited for instead.
    boolean canBeat = session.live && link.hasRoom();
    return canBeat ? Math.min(wake, session.nextHeartbeat) : wake;
  }

  /** Does what is due. */
  private void onTime(long now) {
    if (nextSweep <= now) {
      sweep(now);
    }
    if (link.isTooSilent(now)) {
      inbound.onSilence(now);
    }
    if (session.moveAt <= now) {
      inbound.moveOn(now);
    }
    if (link.isDueToConnect(now)) {
      teller.tell(new WorkerEvent.Connecting(link.endpoint().name()));
      link.connect(now);
      slowAt = now + SLOW;
    }
    if (slowAt <= now) {
      slowAt = Ticks.NEVER;
      if (!session.live) {
        teller.slow();
      }
    }
    if (stopAt <= now) {
      stopFurther(now);
    }
  }

  /** Stops every handler whose lease may end before it is extended. */
  private void sweep(long now) {
    for (Held held : leases.fenced(terms, session.broke, now)) {
      lose(held, CancelReason.LEASE_LOST, null, now);
    }
    for (Held held : leases.stubborn(STUBBORN, now)) {
      Duration cancelledFor = Duration.ofNanos(now - held.lostAt);
      teller.tell(
          new WorkerEvent.HandlerIgnoresCancellation(held.job.queue(), held.job.key(), cancelledFor));
    }
    nextSweep = leases.nextFence(terms, session.broke);
    if (leases.occupiedByLost() > 0) {
      sweepBy(now + STUBBORN);
    }
  }

  /** A fence may have come nearer: look at it in time. */
  void sweepBy(long fence) {
    nextSweep = Math.min(nextSweep, fence);
  }

  void onConnected() {
    if (!link.isOpening()) {
      outbound.sayHello(Ticks.now());
    }
  }

  void onMessage(LeaseResponse message) {
    inbound.onMessage(message, Ticks.now());
  }

  void onEnd(KeyworkException error) {
    inbound.onEnd(error, Ticks.now());
  }

  void lose(Held held, CancelReason reason, LostReason why, long now) {
    if (!leases.lose(held, reason, now)) {
      return;
    }
    counters.leasesLost.increment();
    tellLost(held, why);
    sweepBy(now + STUBBORN);
  }

  void tellLost(Held held, LostReason why) {
    teller.tell(new WorkerEvent.LeaseLost(
        held.job.queue(), held.job.key(), held.job.fencingNumber(), Optional.ofNullable(why)));
  }

  /** Starts what waits, as far as there are slots and its lease still holds. */
  void startWaiting(long now) {
    while (!isStopping() && leases.occupied() < setup.concurrency() && !waiting.isEmpty()) {
      Held held = waiting.poll();
      if (Leases.fenceOf(held, terms, session.broke) <= now) {
        lose(held, CancelReason.LEASE_LOST, null, now);
      } else if (held.phase == Held.Phase.WAITING) {
        start(held);
      }
    }
  }

  private void start(Held held) {
    leases.start(held);
    counters.started.increment();
    try {
      executor.execute(() -> runOne(held));
    } catch (RuntimeException | Error refused) {
      // Whatever their executor throws. This thread has leases to keep.
      Chain.End end = Chain.failed("the worker could not start the handler: " + refused);
      post(() -> onFinished(held, end));
    }
  }

  /** On the handler's thread. */
  private void runOne(Held held) {
    boolean here = Thread.currentThread() == thread;
    Chain.End end = here ? Chain.failed(NO_ROOM) : setup.chain().run(held.context, held.job);
    post(() -> onFinished(held, end));
  }

  private void onFinished(Held held, Chain.End end) {
    long now = Ticks.now();
    if (Leases.fenceOf(held, terms, session.broke) <= now) {
      lose(held, CancelReason.LEASE_LOST, null, now);
    }
    Optional<Outcome> outcome = end.settled(held.context.reason());
    if (leases.finish(held, outcome.orElse(end.outcome()))) {
      outbox.push(held);
      teller.handlerEnded(held.job, held.outcome, end);
    } else {
      counters.droppedResults.increment();
    }
    startWaiting(now);
  }

  // ---- Stopping ----

  boolean isStopping() {
    return stop != Stop.NO;
  }

  /** Follows an order that has not been followed yet. */
  private void obey(long now) {
    Orders.Order order = orders.given();
    if (order == Orders.Order.DRAIN && stop == Stop.NO) {
      drain(now);
    }
    if (order == Orders.Order.RELEASE_ALL && stop != Stop.RELEASING) {
      if (failure == null) {
        failure = WorkerException.forced();
      }
      releaseAll(now);
    }
  }

  private void drain(long now) {
    teller.tell(new WorkerEvent.Draining());
    stop = Stop.DRAINING;
    stopAt = Ticks.after(now, setup.shutdownGrace());
    giveBackWaiting();
    if (!session.live) {
      link.hurry(now + FLUSH_WITHIN);
    }
  }

  /** Gives back what was delivered and has not started. */
  void giveBackWaiting() {
    for (Held held = waiting.poll(); held != null; held = waiting.poll()) {
      if (leases.giveBack(held)) {
        outbox.push(held);
      }
    }
  }

  private void stopFurther(long now) {
    switch (stop) {
      case DRAINING -> {
        leases.cancelAll(CancelReason.WORKER_SHUTDOWN);
        stop = Stop.CANCELLING;
        stopAt = Ticks.after(now, setup.cancelGrace());
      }
      case CANCELLING -> releaseAll(now);
      case NO, RELEASING -> {
        // The time is over: what is left is left.
      }
    }
  }

  /**
   * Interrupts every handler. A thread cannot be taken away from its handler: the lease of one that ends is released;
   * the lease of one that goes on all the same runs out by itself, so that nobody else runs the job meanwhile.
   */
  private void releaseAll(long now) {
    leases.cancelAll(CancelReason.WORKER_SHUTDOWN);
    leases.interruptAll();
    giveBackWaiting();
    stop = Stop.RELEASING;
    stopAt = now + FLUSH_WITHIN;
  }

  /** The session can never go on: handlers are stopped, since nothing extends their leases any more. */
  void fail(WorkerException error, long now) {
    failure = error;
    session.live = false;
    healthy = false;
    link.closeNow();
    unconfirmed = leases.unconfirmed();
    for (Held held : new ArrayList<>(leases.held())) {
      leases.settled(held);
      lose(held, CancelReason.LEASE_LOST, null, now);
    }
    stop = Stop.CANCELLING;
    stopAt = Ticks.after(now, setup.cancelGrace());
  }

  /** Stopping, and nothing is left to wait for. */
  private boolean isOver(long now) {
    // A session that is being opened may bring deliveries: they are to be released, not dropped.
    boolean told = session.live ? session.drainAcknowledged : !link.isOpening();
    boolean done = leases.isEmpty() && told;
    return switch (stop) {
      case NO -> false;
      case DRAINING, CANCELLING -> done;
      case RELEASING -> done || stopAt <= now;
    };
  }
}
