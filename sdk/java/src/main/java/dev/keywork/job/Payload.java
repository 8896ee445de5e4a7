package dev.keywork.job;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** The bytes of a payload: immutable, compared by what they are. */
public final class Payload {
  /** No bytes. */
  public static final Payload EMPTY = new Payload(new byte[0]);

  private final byte[] bytes;

  private Payload(byte[] owned) {
    this.bytes = owned;
  }

  /**
   * These bytes.
   *
   * @param bytes the bytes, which are copied
   * @return a payload
   */
  public static Payload of(byte[] bytes) {
    return bytes.length == 0 ? EMPTY : new Payload(bytes.clone());
  }

  /**
   * The remaining bytes of a buffer.
   *
   * @param buffer the buffer, which is copied and left as it is
   * @return a payload
   */
  public static Payload of(ByteBuffer buffer) {
    byte[] copy = new byte[buffer.remaining()];
    buffer.duplicate().get(copy);
    return copy.length == 0 ? EMPTY : new Payload(copy);
  }

  /**
   * A text in UTF-8.
   *
   * @param text the text
   * @return a payload
   */
  public static Payload of(String text) {
    return text.isEmpty() ? EMPTY : new Payload(text.getBytes(StandardCharsets.UTF_8));
  }

  /**
   * How many bytes there are.
   *
   * @return their number
   */
  public int size() {
    return bytes.length;
  }

  /**
   * Are there none?
   *
   * @return true: there are none
   */
  public boolean isEmpty() {
    return bytes.length == 0;
  }

  /**
   * A copy of the bytes.
   *
   * @return the bytes
   */
  public byte[] toBytes() {
    return bytes.clone();
  }

  /**
   * The bytes without a copy.
   *
   * @return a buffer that cannot be written to
   */
  public ByteBuffer asBuffer() {
    return ByteBuffer.wrap(bytes).asReadOnlyBuffer();
  }

  /**
   * The bytes as text in UTF-8. What is no UTF-8 becomes replacement characters: {@link #toBytes()} leaves it as it is.
   *
   * @return the text
   */
  public String asText() {
    return new String(bytes, StandardCharsets.UTF_8);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Payload that && Arrays.equals(bytes, that.bytes);
  }

  @Override
  public int hashCode() {
    return Arrays.hashCode(bytes);
  }

  /** Tells the size, never the bytes: payloads do not belong in logs. */
  @Override
  public String toString() {
    return bytes.length + " bytes";
  }
}
