package dev.keywork.testing;

/** Why a {@link FakeServer} wants its sessions to go. */
public enum GoAwayReason {
  /** The server is stopping. */
  DRAINING,
  /** A newer session has the same worker id. */
  SUPERSEDED,
  /** A queue that the session serves was deleted. */
  QUEUE_DELETED,
  /** A queue's lease duration changed. */
  TERMS_CHANGED
}
