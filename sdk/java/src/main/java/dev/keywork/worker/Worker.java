package dev.keywork.worker;

import dev.keywork.client.KeyworkClient;
import dev.keywork.internal.Access;
import dev.keywork.internal.Chain;
import dev.keywork.internal.Limits;
import dev.keywork.internal.ProgramLog;
import dev.keywork.internal.v1.QueueSubscription;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;

/**
 * Runs the jobs of one or more queues. Every method may be called from any thread.
 *
 * <pre>{@code
 * Worker worker = Worker.builder(client, "reconcile").task((context, job) -> reconcile(job.key())).build();
 * worker.run();
 * }</pre>
 */
public final class Worker implements AutoCloseable {
  private final Setup setup;
  private final Orders orders = new Orders();
  private final Counters counters = new Counters();
  private final AtomicBoolean started = new AtomicBoolean();

  /** The first signal has come. */
  private final AtomicBoolean signalled = new AtomicBoolean();

  /** The error that ended it was thrown to somebody. */
  private final AtomicBoolean told = new AtomicBoolean();

  private final CompletableFuture<Void> stopped = new CompletableFuture<>();
  private final Consumer<WorkerEvent> listener;
  private volatile Driver driver;

  private Worker(Builder from) {
    this.setup = from.setup();
    this.listener = from.listener;
  }

  /**
   * A worker of these queues, at the servers that the client knows. It has connections of its own.
   *
   * @param client the client
   * @param queues the queues' names
   * @return a builder
   */
  public static Builder builder(KeyworkClient client, String... queues) {
    Builder builder = new Builder(client);
    for (String queue : queues) {
      builder.subscribe(new Subscription(queue));
    }
    return builder;
  }

  /** Here, so that what a worker logs has this class as its source. */
  static void log(Level level, String text, Throwable thrown) {
    ProgramLog.logger().log(level, ProgramLog.oneLine(text), thrown);
  }

  /**
   * Works until SIGTERM or SIGINT, then drains. A second signal releases everything and makes this an error. An
   * interruption of this thread does so at once.
   *
   * @throws WorkerException it stopped for another reason than because it was asked to; a lost connection is none: the
   *     worker reconnects
   */
  public void run() {
    Signals signals = Signals.listen(this::onSignal);
    try {
      begin(false);
      awaitEnd();
    } finally {
      signals.close();
    }
  }

  /** The first signal drains, the second releases everything. */
  void onSignal() {
    // A drain by hand, such as a container's hook before the signal, is not the first signal.
    if (signalled.compareAndSet(false, true)) {
      drain();
    } else {
      releaseAll();
    }
  }

  /**
   * Works on a thread of its own until {@link #drain()}, {@link #releaseAll()} or {@link #close()}. Signals are the
   * caller's.
   *
   * @return completes when it has stopped, with a {@link WorkerException} where it was not only asked to; that error is
   *     logged too
   * @throws WorkerException it was started before
   */
  public CompletableFuture<Void> start() {
    begin(true);
    // Whoever completes or cancels what is returned does not mean the worker.
    CompletableFuture<Void> end = new CompletableFuture<>();
    stopped.whenComplete((ignored, error) -> {
      if (error == null) {
        end.complete(null);
      } else {
        end.completeExceptionally(error);
      }
    });
    return end;
  }

  private void begin(boolean logsFailure) {
    if (!started.compareAndSet(false, true)) {
      throw WorkerException.startedBefore();
    }
    List<String> queues = setup.queues().stream().map(QueueSubscription::getQueue).toList();
    try {
      Driver made = new Driver(setup, orders, new Teller(new WorkerLog(queues, logsFailure), listener), counters);
      driver = made;
      Thread thread = new Thread(() -> work(made), "keywork-worker");
      thread.setPriority(Thread.MAX_PRIORITY);
      thread.start();
    } catch (RuntimeException | Error withoutThreads) {
      stopped.completeExceptionally(WorkerException.broken(withoutThreads));
      throw withoutThreads;
    }
  }

  private void work(Driver made) {
    WorkerException failure;
    try {
      made.run();
      failure = made.failure();
    } catch (RuntimeException | Error unexpected) {
      failure = WorkerException.broken(unexpected);
    }
    if (failure == null) {
      stopped.complete(null);
    } else {
      stopped.completeExceptionally(failure);
    }
  }

  /** Waits for the end; an interruption hurries it. */
  private void awaitEnd() {
    boolean interrupted = false;
    try {
      while (true) {
        try {
          stopped.get();
          return;
        } catch (InterruptedException hurried) {
          interrupted = true;
          releaseAll();
        }
      }
    } catch (ExecutionException failed) {
      told.set(true);
      throw failed.getCause() instanceof WorkerException error ? error.here() : WorkerException.broken(failed);
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** Takes no more jobs, finishes what runs within the shutdown grace, and ends. Does not wait. */
  public void drain() {
    give(Orders.Order.DRAIN);
  }

  /**
   * Interrupts every handler, releases its job as it ends, and ends with {@link WorkerException.Kind#FORCED}: what a
   * second signal does. Does not wait.
   */
  public void releaseAll() {
    give(Orders.Order.RELEASE_ALL);
  }

  private void give(Orders.Order order) {
    orders.give(order);
    Driver told = driver;
    if (told != null) {
      // Wakes it up: it looks for itself.
      told.post(() -> {});
    }
  }

  /**
   * Drains and waits for the end, where it was started. Not for a handler, which would wait for itself: there is {@link
   * #drain()}.
   *
   * @throws WorkerException it stopped for another reason than because it was asked to, and {@link #run()} has not
   *     thrown that already
   */
  @Override
  public void close() {
    drain();
    if (started.get() && !told.get()) {
      awaitEnd();
    }
  }

  /**
   * Is the session with a server live?
   *
   * @return true: it is
   */
  public boolean healthy() {
    Driver asked = driver;
    return asked != null && asked.healthy;
  }

  /**
   * What it has done so far.
   *
   * @return the counts
   */
  public WorkerCounts counts() {
    return counters.read();
  }

  /**
   * Its name, as servers know it.
   *
   * @return the name
   */
  public String workerId() {
    return setup.workerId();
  }

  @Override
  public String toString() {
    return "Worker[" + workerId() + (healthy() ? ", healthy]" : ", not healthy]");
  }

  /** The options of a {@link Worker}. */
  public static final class Builder {
    private final KeyworkClient client;
    private final List<QueueSubscription> queues = new ArrayList<>();
    private final List<HandlerInterceptor> interceptors = new ArrayList<>();
    private JobHandler handler;
    private int concurrency = 16;
    private Duration shutdownGrace = Duration.ofSeconds(25);
    private Duration cancelGrace = Duration.ofSeconds(1);
    private String workerId;
    private Executor executor;
    private Consumer<WorkerEvent> listener;

    private Builder(KeyworkClient client) {
      this.client = Objects.requireNonNull(client, "client");
    }

    /**
     * Adds a queue, with a weight.
     *
     * @param queue its name
     * @param weight its share of the worker against its other queues: 1 to 100
     * @return this
     */
    public Builder subscribe(String queue, int weight) {
      return subscribe(new Subscription(queue, weight));
    }

    /**
     * Adds a queue, with a weight.
     *
     * @param subscription the queue
     * @return this
     */
    public Builder subscribe(Subscription subscription) {
      queues.add(QueueSubscription.newBuilder()
          .setQueue(subscription.queue())
          .setWeight(subscription.weight())
          .build());
      return this;
    }

    /**
     * Runs the jobs, and says how each attempt ends.
     *
     * @param runs the handler
     * @return this
     */
    public Builder handler(JobHandler runs) {
      this.handler = Objects.requireNonNull(runs, "handler");
      return this;
    }

    /**
     * Runs the jobs; each is done when this returns.
     *
     * @param runs the handler
     * @return this
     */
    public Builder task(JobTask runs) {
      return handler(Objects.requireNonNull(runs, "task").asHandler());
    }

    /**
     * How many handlers run at once, which is how many leases the worker holds: 1 to 100,000. Default: 16.
     *
     * @param handlers how many
     * @return this
     */
    public Builder concurrency(int handlers) {
      this.concurrency = handlers;
      return this;
    }

    /**
     * How long running handlers may take to end after the worker was told to stop, before they are cancelled. Default:
     * 25 s.
     *
     * @param grace how long
     * @return this
     */
    public Builder shutdownGrace(Duration grace) {
      this.shutdownGrace = Objects.requireNonNull(grace, "shutdownGrace");
      return this;
    }

    /**
     * How long a handler may take to end after it was cancelled because the worker stops, before it is interrupted
     * again and left behind. Default: 1 s.
     *
     * @param grace how long
     * @return this
     */
    public Builder cancelGrace(Duration grace) {
      this.cancelGrace = Objects.requireNonNull(grace, "cancelGrace");
      return this;
    }

    /**
     * Names this process at the servers. A newer worker of the same name takes over from an older one, so no two that
     * run at once may share it. Default: a random one.
     *
     * @param id the name
     * @return this
     */
    public Builder workerId(String id) {
      this.workerId = Objects.requireNonNull(id, "workerId");
      return this;
    }

    /**
     * Runs the handlers. It must have a thread for as many as the concurrency: where it runs one on the thread that
     * gives it the job, as a {@code CallerRunsPolicy} does, that attempt fails, since heartbeats need that thread.
     * Default: a virtual thread for each job where the runtime has them (Java 21 and later), else a pool that grows and
     * shrinks.
     *
     * @param runs the executor; it is not closed with the worker
     * @return this
     */
    public Builder executor(Executor runs) {
      this.executor = runs;
      return this;
    }

    /**
     * Is told of everything that happens, in order, on a thread of its own.
     *
     * @param hears the listener
     * @return this
     */
    public Builder onEvent(Consumer<WorkerEvent> hears) {
      this.listener = hears;
      return this;
    }

    /**
     * Wraps every handler call; the first one added is the outermost.
     *
     * @param interceptor what wraps
     * @return this
     */
    public Builder interceptor(HandlerInterceptor interceptor) {
      interceptors.add(Objects.requireNonNull(interceptor, "interceptor"));
      return this;
    }

    /**
     * Makes the worker. Nothing is connected yet.
     *
     * @return the worker
     * @throws IllegalArgumentException an option is missing, or breaks its limit
     */
    public Worker build() {
      if (handler == null) {
        throw new IllegalArgumentException("a worker needs a handler or a task");
      }
      if (workerId != null && workerId.isEmpty()) {
        throw new IllegalArgumentException("workerId must not be empty");
      }
      Limits.between("concurrency", concurrency, 1, 100_000);
      Limits.notNegative("shutdownGrace", shutdownGrace);
      Limits.notNegative("cancelGrace", cancelGrace);
      checkQueues();
      return new Worker(this);
    }

    private void checkQueues() {
      if (queues.isEmpty()) {
        throw new IllegalArgumentException("a worker needs at least one queue");
      }
      Set<String> seen = new HashSet<>();
      for (QueueSubscription queue : queues) {
        Limits.between("weight of the queue " + queue.getQueue(), queue.getWeight(), 1, 100);
        if (!seen.add(queue.getQueue())) {
          throw new IllegalArgumentException("queues must differ, but " + queue.getQueue() + " is given twice");
        }
      }
    }

    private Setup setup() {
      return new Setup(
          Access.optionsOf(client),
          List.copyOf(queues),
          concurrency,
          shutdownGrace,
          cancelGrace,
          workerId == null ? "java-" + UUID.randomUUID() : workerId,
          new Chain(interceptors, handler),
          executor);
    }
  }
}
