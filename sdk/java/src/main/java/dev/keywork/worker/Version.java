package dev.keywork.worker;

/** This SDK's version, as servers are told. */
final class Version {
  static final String TEXT = "0.1.0";

  private Version() {}
}
