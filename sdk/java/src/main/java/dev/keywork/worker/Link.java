package dev.keywork.worker;

import dev.keywork.internal.Endpoint;
import dev.keywork.internal.Options;
import dev.keywork.internal.Ticks;
import dev.keywork.internal.v1.LeaseRequest;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;

/**
 * The stream to a server: waiting to connect, connecting, open.
 *
 * <p>It owns the connection and its silence; it neither reads nor makes what goes over it. Every session has a
 * connection of its own.
 */
final class Link {
  /** How long a server may take from the first packet to its Welcome. */
  static final long WELCOME_WITHIN = Duration.ofSeconds(10).toNanos();

  private enum State {
    DOWN,
    CONNECTING,
    OPEN,
    CLOSED
  }

  private final Options options;
  private final Driver driver;
  private State state = State.DOWN;
  private Dial dial;
  private long until;

  /** Which server: grows with every try. */
  private int number;

  /** When the silence of the server becomes the end of the stream. */
  private long deadline;

  Link(Options options, Driver driver, long now) {
    this.options = options;
    this.driver = driver;
    this.until = now;
    // Workers of one fleet start at different servers.
    this.number = ThreadLocalRandom.current().nextInt(options.endpoints().size());
  }

  Endpoint endpoint() {
    List<Endpoint> endpoints = options.endpoints();
    return endpoints.get(Math.floorMod(number, endpoints.size()));
  }

  /** When the driver has to look at the link, whatever happens on it. */
  long wake() {
    return switch (state) {
      case DOWN -> until;
      case CONNECTING, OPEN -> deadline;
      case CLOSED -> Ticks.NEVER;
    };
  }

  boolean isDueToConnect(long now) {
    return state == State.DOWN && until <= now;
  }

  boolean isTooSilent(long now) {
    return (state == State.CONNECTING || state == State.OPEN) && deadline <= now;
  }

  /** Connects to the server in turn, over a connection of its own. */
  void connect(long now) {
    state = State.CONNECTING;
    deadline = now + WELCOME_WITHIN;
    dial = new Dial(endpoint(), options, driver);
    dial.connect();
  }

  /** Is this the connection in use? What another one says comes too late. */
  boolean isCurrent(Dial asked) {
    return dial == asked && (state == State.CONNECTING || state == State.OPEN);
  }

  /** Opens the stream; {@code hello} is its first message. */
  void open(LeaseRequest hello) {
    state = State.OPEN;
    dial.open(hello);
  }

  /** The server was heard; it may be silent for this long from now on. */
  void heard(long now, long liveness) {
    deadline = now + liveness;
  }

  /** A session has been asked for, and may hold leases that have not arrived here. */
  boolean isOpening() {
    return state == State.OPEN;
  }

  /** Waits for the server no longer than until then. */
  void hurry(long latest) {
    deadline = Math.min(deadline, latest);
  }

  /** There is room for another message. */
  boolean hasRoom() {
    return state == State.OPEN && dial.hasRoom();
  }

  void send(LeaseRequest message) {
    dial.send(message);
  }

  /** Drops the connection; the next server's turn comes at {@code then}. */
  void down(long then) {
    drop();
    number++;
    state = State.DOWN;
    until = then;
  }

  /** Ends our half of the stream, waits a moment for the server's, and never connects again. */
  void close() {
    if (state == State.OPEN) {
      dial.close();
    }
    closeNow();
  }

  /** Drops the connection and never connects again. */
  void closeNow() {
    drop();
    state = State.CLOSED;
  }

  private void drop() {
    if (dial != null) {
      dial.drop();
      dial = null;
    }
  }
}
