package dev.keywork.testing;

import dev.keywork.client.KeyworkClient;
import dev.keywork.errors.KeyworkException;
import dev.keywork.internal.Threads;
import dev.keywork.internal.Ticks;
import dev.keywork.internal.Wire;
import dev.keywork.internal.v1.GoAway;
import dev.keywork.internal.v1.LeaseResponse;
import dev.keywork.job.DeadJob;
import dev.keywork.job.Job;
import dev.keywork.job.LostReason;
import io.grpc.Server;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Predicate;

/** A server for tests, on a free port of 127.0.0.1. Close it. */
public final class FakeServer implements AutoCloseable {
  /** How often deadlines are looked at. */
  private static final long TICK_MILLIS = 5;

  /** How long {@link #until} waits. */
  private static final Duration PATIENCE = Duration.ofSeconds(20);

  private static final int MESSAGE_BYTES = 64 << 20;

  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  private final State state;

  /** Grows with every change; under the lock. */
  private long version;

  private final Queue<KeyworkClient> clients = new ConcurrentLinkedQueue<>();
  private final Server server;
  private volatile int port;
  private final ScheduledExecutorService clock =
      Executors.newSingleThreadScheduledExecutor(Threads.daemons("keywork-fake-clock-"));

  private FakeServer(Builder options, int onPort) {
    this.state = new State(options);
    this.server = NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", onPort))
        .addService(new FakeWorkQueue(this))
        .addService(new FakeQueueAdmin(this))
        .maxInboundMessageSize(MESSAGE_BYTES)
        .permitKeepAliveTime(1, TimeUnit.SECONDS)
        .permitKeepAliveWithoutCalls(true)
        .build();
  }

  /**
   * A server with the defaults.
   *
   * @return the server, started
   */
  public static FakeServer start() {
    return builder().start();
  }

  /**
   * A server with options.
   *
   * @return a builder
   */
  public static Builder builder() {
    return new Builder();
  }

  /**
   * Where it listens.
   *
   * @return a URI
   */
  public String endpoint() {
    return "http://127.0.0.1:" + port;
  }

  /**
   * A client of it, with the defaults.
   *
   * @return the client; it is closed with the server, unless it was before
   */
  public KeyworkClient client() {
    KeyworkClient client = KeyworkClient.connect(endpoint());
    clients.add(client);
    return client;
  }

  /**
   * Changes what it does wrong from now on.
   *
   * @param change changes the script
   */
  public void script(Consumer<Script> change) {
    change(now -> change.accept(now.script));
  }

  /**
   * What it has seen so far.
   *
   * @return what it has seen
   */
  public Seen seen() {
    lock.lock();
    try {
      return state.notes.read();
    } finally {
      lock.unlock();
    }
  }

  /**
   * The outstanding job of a key.
   *
   * @param queue the queue's name
   * @param key the key
   * @return the job; empty when the key is free
   */
  public Optional<Job> outstanding(String queue, String key) {
    lock.lock();
    try {
      return Optional.ofNullable(state.entry(queue, key)).map(entry -> Wire.job(entry.job.build()));
    } finally {
      lock.unlock();
    }
  }

  /**
   * The dead letters of a queue.
   *
   * @param queue the queue's name
   * @return the dead letters, oldest first
   */
  public List<DeadJob> dead(String queue) {
    lock.lock();
    try {
      return state.dead(queue);
    } finally {
      lock.unlock();
    }
  }

  /**
   * Waits until what it has seen is so. The condition may call the server too: nothing is held while it is looked at.
   *
   * @param what says what is waited for
   * @param isSo what is waited for
   * @return what it has seen then
   * @throws AssertionError it is not so after 20 s
   */
  public Seen until(String what, Predicate<Seen> isSo) {
    long latest = Ticks.after(Ticks.now(), PATIENCE);
    while (true) {
      long looked = version();
      Seen seen = seen();
      if (isSo.test(seen)) {
        return seen;
      }
      if (!hasChanged(looked, latest)) {
        throw new AssertionError("waited in vain: " + what + "; seen: " + seen);
      }
    }
  }

  private long version() {
    lock.lock();
    try {
      return version;
    } finally {
      lock.unlock();
    }
  }

  /** Waits for a change after the one that was looked at. False: there is none in time. */
  private boolean hasChanged(long looked, long latest) {
    lock.lock();
    try {
      while (version == looked && Ticks.now() < latest) {
        changed.awaitNanos(latest - Ticks.now());
      }
      return Ticks.now() < latest;
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new AssertionError("interrupted while waiting for the server to see something", interrupted);
    } finally {
      lock.unlock();
    }
  }

  /** Ends every session, with the status OK. Its leases live on until their deadline. */
  public void endSessions() {
    endSessions(null);
  }

  /**
   * Ends every session with an error. Its leases live on until their deadline.
   *
   * @param error the error; null: the status OK
   */
  public void endSessions(KeyworkException error) {
    change(now -> {
      for (FakeSession session : new ArrayList<>(now.sessions.values())) {
        now.sessions.remove(session.id);
        now.startGrace(session);
        if (error == null) {
          session.outbound.onCompleted();
        } else {
          session.outbound.onError(Answers.status(error));
        }
      }
      now.notes.sessions = 0;
    });
  }

  /**
   * Takes the lease of a key away.
   *
   * @param queue the queue's name
   * @param key the key
   * @param reason why; {@code CANCELLED} ends the job too
   * @param tell whether its session is told
   */
  public void loseLease(String queue, String key, LostReason reason, boolean tell) {
    var wire = reason == LostReason.UNKNOWN
        ? dev.keywork.internal.v1.LostReason.LOST_REASON_UNSPECIFIED
        : dev.keywork.internal.v1.LostReason.valueOf("LOST_REASON_" + reason.name());
    change(now -> now.loseLease(queue, key, wire, tell));
  }

  /**
   * Says GoAway to every session. It does not end them.
   *
   * @param reason why
   * @param reconnectDelay how long they are to wait before they reconnect
   */
  public void goAway(GoAwayReason reason, Duration reconnectDelay) {
    GoAway away = GoAway.newBuilder()
        .setReason(dev.keywork.internal.v1.GoAwayReason.valueOf("GO_AWAY_REASON_" + reason.name()))
        .setGrace(Wire.duration(Duration.ofSeconds(10)))
        .setReconnectDelay(Wire.duration(reconnectDelay))
        .build();
    LeaseResponse message = LeaseResponse.newBuilder().setGoAway(away).build();
    change(now -> now.sessions.values().forEach(session -> now.send(session, message)));
  }

  @Override
  public void close() {
    clock.shutdownNow();
    server.shutdownNow();
    try {
      server.awaitTermination(PATIENCE.toSeconds(), TimeUnit.SECONDS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
    clients.forEach(KeyworkClient::close);
  }

  /** Changes the state and hands out what became ready by it. */
  void change(Consumer<State> change) {
    lock.lock();
    try {
      change.accept(state);
      state.dispatch();
      version++;
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  /** Answers a call with what the state makes of it. */
  <A> void answer(StreamObserver<A> to, Function<State, A> answer) {
    change(now -> {
      try {
        A made = answer.apply(now);
        to.onNext(made);
        to.onCompleted();
      } catch (KeyworkException refusal) {
        to.onError(Answers.status(refusal));
      } catch (FakeSubmits.BrokenException scripted) {
        to.onError(Answers.status(Answers.outage(false)));
      }
    });
  }

  private FakeServer started() {
    try {
      port = server.start().getPort();
    } catch (IOException refused) {
      throw new UncheckedIOException("failed to listen on 127.0.0.1", refused);
    }
    clock.scheduleAtFixedRate(this::tick, TICK_MILLIS, TICK_MILLIS, TimeUnit.MILLISECONDS);
    return this;
  }

  private void tick() {
    lock.lock();
    try {
      boolean ended = state.onTime(Ticks.now());
      state.dispatch();
      if (ended) {
        version++;
        changed.signalAll();
      }
    } finally {
      lock.unlock();
    }
  }

  /** How a {@link FakeServer} treats leases. */
  public static final class Builder {
    Duration leaseDuration = Duration.ofSeconds(15);
    Duration disconnectGrace;
    Duration retryDelay = Duration.ofMillis(10);

    private Builder() {}

    /**
     * How long a lease lasts from its last extension. Default: 15 s; here it may be shorter than servers allow.
     *
     * @param duration how long
     * @return this
     */
    public Builder leaseDuration(Duration duration) {
      this.leaseDuration = duration;
      return this;
    }

    /**
     * After a stream broke, its leases go to others after this long. Default: at their deadline.
     *
     * @param grace how long
     * @return this
     */
    public Builder disconnectGrace(Duration grace) {
      this.disconnectGrace = grace;
      return this;
    }

    /**
     * The wait before another attempt, where the handler chose none. Default: 10 ms.
     *
     * @param delay how long
     * @return this
     */
    public Builder retryDelay(Duration delay) {
      this.retryDelay = delay;
      return this;
    }

    /**
     * Starts it.
     *
     * @return the server
     */
    public FakeServer start() {
      return startAt(0);
    }

    /**
     * Starts it on a port of your choice, such as that of a server that was closed.
     *
     * @param port the port; 0: a free one
     * @return the server
     */
    public FakeServer startAt(int port) {
      return new FakeServer(this, port).started();
    }
  }
}
