package dev.keywork.internal;

import dev.keywork.client.KeyworkClient;

/** The way from the worker to what a client was told, which is nobody else's business. */
public abstract class Access {
  private static volatile Access toClients;

  /** Made once, by the client's class. */
  protected Access() {}

  /**
   * Opens the way.
   *
   * @param access the way
   */
  public static void open(Access access) {
    toClients = access;
  }

  /**
   * A client's options.
   *
   * @param client the client
   * @return its options
   */
  public static Options optionsOf(KeyworkClient client) {
    return toClients.options(client);
  }

  /**
   * A client's options.
   *
   * @param client the client
   * @return its options
   */
  protected abstract Options options(KeyworkClient client);
}
