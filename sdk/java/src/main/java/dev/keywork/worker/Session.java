package dev.keywork.worker;

import com.google.protobuf.ByteString;
import dev.keywork.internal.Ticks;

/** What is known of the session that is open, or was last. */
final class Session {
  /** The server has said Welcome, and the stream has not ended since. */
  boolean live;

  long helloSent;

  /** When the stream of the last live session broke; never while one is live. */
  long broke = Ticks.NEVER;

  ByteString ticket = ByteString.EMPTY;
  long heartbeatInterval = Ticks.NEVER;
  long liveness = Ticks.NEVER;
  long nextHeartbeat = Ticks.NEVER;

  /** The capacity that the server was last told. */
  int capacity;

  boolean drainSent;
  boolean drainAcknowledged;

  /** The server wants us gone: when to reconnect. */
  long moveAt = Ticks.NEVER;
}
