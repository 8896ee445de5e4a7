package dev.keywork.client;

import com.google.protobuf.ByteString;

/** Names a lease: opaque. Whoever shows it can extend or settle the lease, at any server. */
public final class LeaseToken {
  private final ByteString bytes;

  private LeaseToken(ByteString bytes) {
    this.bytes = bytes;
  }

  /**
   * A token that was kept.
   *
   * @param bytes its bytes
   * @return the token
   */
  public static LeaseToken of(byte[] bytes) {
    return new LeaseToken(ByteString.copyFrom(bytes));
  }

  static LeaseToken of(ByteString bytes) {
    return new LeaseToken(bytes);
  }

  /**
   * The bytes, to keep them.
   *
   * @return the bytes
   */
  public byte[] toBytes() {
    return bytes.toByteArray();
  }

  ByteString wire() {
    return bytes;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof LeaseToken that && bytes.equals(that.bytes);
  }

  @Override
  public int hashCode() {
    return bytes.hashCode();
  }

  /** Tells the size only: a token is a secret. */
  @Override
  public String toString() {
    return "LeaseToken[" + bytes.size() + " bytes]";
  }
}
