package dev.keywork.job;

/** What became of a settlement. */
public enum SettlementOutcome {
  /** The server answered with something that this version does not know. */
  UNKNOWN,
  /** It counts. Where the job ended, its key is free. */
  SETTLED,
  /** The job had ended already; most likely an earlier try of this settlement counted. */
  ALREADY_SETTLED,
  /** The lease was lost before. Nothing was changed. */
  LEASE_LOST,
  /** The server could not tell: send the same settlement again. */
  TRY_AGAIN,
  /** The token is malformed or forged. Nothing was changed. */
  INVALID_LEASE,
  /** The settlement breaks a limit, or is one that the server does not serve. The lease is as before. */
  REJECTED
}
