package dev.keywork.internal;

import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.TlsChannelCredentials;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.netty.channel.ChannelOption;
import java.net.URI;
import java.net.URISyntaxException;
import java.util.concurrent.TimeUnit;

/**
 * One server: all settings of HTTP/2 are here.
 *
 * @param uri as it was given
 * @param host where it is
 * @param port its port
 * @param credentials plain, or TLS
 */
public record Endpoint(String uri, String host, int port, ChannelCredentials credentials) {
  /** What a server may send ahead of our reading it. */
  private static final int WINDOW = 4 << 20;

  /** Largest message taken: a delivery of a thousand jobs with payloads is large. */
  private static final int MESSAGE_BYTES = 256 << 20;

  private static final int CONNECT_MILLIS = 5_000;
  private static final long PING_EVERY_SECONDS = 10;
  private static final long PING_TIMEOUT_SECONDS = 5;

  /**
   * Reads an endpoint such as {@code http://127.0.0.1:50051}.
   *
   * @param uri the endpoint
   * @param tls what {@code https://} uses; null: the system's roots
   * @return the endpoint
   * @throws IllegalArgumentException it is none
   */
  public static Endpoint parse(String uri, ChannelCredentials tls) {
    URI parsed = read(uri);
    boolean secure = "https".equalsIgnoreCase(parsed.getScheme());
    if (!secure && !"http".equalsIgnoreCase(parsed.getScheme())) {
      throw bad(uri, "it begins with neither http:// nor https://", null);
    }
    if (parsed.getHost() == null) {
      throw bad(uri, "it has no host, or one that is no host name", null);
    }
    boolean hasMore = parsed.getRawPath().length() > 1 || parsed.getRawQuery() != null
        || parsed.getRawFragment() != null || parsed.getRawUserInfo() != null;
    if (hasMore) {
      throw bad(uri, "it has more than a host and a port", null);
    }
    int port = parsed.getPort() >= 0 ? parsed.getPort() : (secure ? 443 : 80);
    if (port < 1 || port > 65_535) {
      throw bad(uri, "a port is 1 to 65,535", null);
    }
    ChannelCredentials secured = tls == null && secure ? TlsChannelCredentials.create() : tls;
    return new Endpoint(uri, parsed.getHost(), port, secure ? secured : InsecureChannelCredentials.create());
  }

  private static URI read(String uri) {
    try {
      return new URI(uri);
    } catch (URISyntaxException malformed) {
      throw bad(uri, malformed.getReason(), malformed);
    }
  }

  private static IllegalArgumentException bad(String uri, String why, Throwable cause) {
    String text = "endpoint must be such as http://127.0.0.1:50051, not \"" + uri + "\": " + why;
    return new IllegalArgumentException(text, cause);
  }

  /**
   * Is what goes over the wire encrypted?
   *
   * @return true: it is
   */
  public boolean isSecure() {
    return !(credentials instanceof InsecureChannelCredentials);
  }

  /**
   * The server as people know it.
   *
   * @return its URI, without a slash at the end
   */
  public String name() {
    return uri.endsWith("/") ? uri.substring(0, uri.length() - 1) : uri;
  }

  /**
   * A new channel to it; it connects when it is used.
   *
   * @return a builder, with everything set that is the same for all uses
   */
  public NettyChannelBuilder channel() {
    return NettyChannelBuilder.forAddress(bareHost(), port, credentials)
        .withOption(ChannelOption.CONNECT_TIMEOUT_MILLIS, CONNECT_MILLIS)
        .withOption(ChannelOption.TCP_NODELAY, true)
        .keepAliveTime(PING_EVERY_SECONDS, TimeUnit.SECONDS)
        .keepAliveTimeout(PING_TIMEOUT_SECONDS, TimeUnit.SECONDS)
        .keepAliveWithoutCalls(true)
        .initialFlowControlWindow(WINDOW)
        .maxInboundMessageSize(MESSAGE_BYTES)
        .disableRetry();
  }

  /** An IPv6 address stands in brackets in a URI, and without them here. */
  private String bareHost() {
    return host.startsWith("[") ? host.substring(1, host.length() - 1) : host;
  }
}
