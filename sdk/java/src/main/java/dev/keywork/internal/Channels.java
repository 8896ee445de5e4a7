package dev.keywork.internal;

import dev.keywork.errors.KeyworkException;
import io.grpc.Channel;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * A client's channels: one for each server, made when it is first used, and which of them is in use. A channel whose
 * calls failed several times in a row is replaced by a fresh one.
 */
public final class Channels implements AutoCloseable {
  /** So many outages in a row, and the channel itself is suspected. */
  private static final int FRESH_AFTER = 3;

  private static final long CLOSE_SECONDS = 2;

  private final Options options;
  private final Consumer<String> warning;
  private final ManagedChannel[] made;
  private final int[] failures;
  private final Outage outage = new Outage();
  private int current;
  private boolean closed;

  /**
   * No channel yet.
   *
   * @param options what the client was told
   * @param warning takes what is to be warned of in the log
   */
  public Channels(Options options, Consumer<String> warning) {
    this.options = options;
    this.warning = warning;
    this.made = new ManagedChannel[options.endpoints().size()];
    this.failures = new int[made.length];
  }

  /**
   * What the client was told.
   *
   * @return the options
   */
  public Options options() {
    return options;
  }

  /**
   * The way to a server.
   *
   * @param place which, as {@link #place()} gave it
   * @return a channel that adds the client's headers
   * @throws KeyworkException the client is closed
   */
  public synchronized Channel at(int place) {
    if (closed) {
      throw KeyworkException.builder(Status.Code.CANCELLED)
          .description("the client is closed")
          .noSideEffects(true)
          .build();
    }
    int number = Math.floorMod(place, made.length);
    if (made[number] == null) {
      made[number] = options.endpoints().get(number).channel().build();
    }
    return options.withHeaders(made[number]);
  }

  /**
   * The server in use.
   *
   * @return its number, which grows
   */
  public synchronized int place() {
    return current;
  }

  /**
   * What a server is called.
   *
   * @param place which, as {@link #place()} gave it
   * @return its name
   */
  public String name(int place) {
    return options.endpoints().get(Math.floorMod(place, made.length)).name();
  }

  /**
   * A call was answered.
   *
   * @param place where
   */
  public synchronized void answered(int place) {
    failures[Math.floorMod(place, made.length)] = 0;
  }

  /**
   * Turns to the next server, unless another call has turned away from this one already.
   *
   * @param place where a call failed
   */
  public synchronized void turnAway(int place) {
    if (closed) {
      return;
    }
    if (place == current) {
      current++;
    }
    int number = Math.floorMod(place, made.length);
    ManagedChannel channel = made[number];
    if (channel != null && (++failures[number] >= FRESH_AFTER || isStuck(channel))) {
      // Calls that are still under way on it may end.
      channel.shutdown();
      made[number] = null;
      failures[number] = 0;
    }
  }

  /** It could not connect, and would let calls fail without trying until a backoff of its own is over. */
  private static boolean isStuck(ManagedChannel channel) {
    return channel.getState(false) == ConnectivityState.TRANSIENT_FAILURE;
  }

  /**
   * Warns now and then that submits are tried again: they may be for as long as their deadline.
   *
   * @param place where one failed
   * @param error why
   */
  public void warnOfOutage(int place, KeyworkException error) {
    synchronized (this) {
      if (!outage.isToBeWarnedOf(Ticks.now())) {
        return;
      }
    }
    String within = Limits.text(options.submitDeadline());
    String text = "no answer to a submit, which is tried again within " + within + ": "
        + ProgramLog.at(name(place), error.getMessage());
    // The thread of a call, or of a stream, is not to wait for a log that is slow.
    Threads.callbacks().execute(() -> warning.accept(text));
  }

  /** Ends all calls and connections. */
  @Override
  public void close() {
    List<ManagedChannel> open = new ArrayList<>();
    synchronized (this) {
      closed = true;
      for (ManagedChannel channel : made) {
        if (channel != null) {
          open.add(channel.shutdown());
        }
      }
    }
    open.forEach(Channels::await);
  }

  private static void await(ManagedChannel channel) {
    try {
      if (!channel.awaitTermination(CLOSE_SECONDS, TimeUnit.SECONDS)) {
        channel.shutdownNow();
      }
    } catch (InterruptedException interrupted) {
      channel.shutdownNow();
      Thread.currentThread().interrupt();
    }
  }
}
