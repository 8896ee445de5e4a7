package dev.keywork.internal;

import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.Metadata;
import io.grpc.stub.MetadataUtils;
import java.time.Duration;
import java.util.List;

/**
 * What a client is told, checked.
 *
 * @param endpoints at least one
 * @param headers sent with every call
 * @param submitDeadline how long a submit is tried before its last error is told
 * @param callTimeout how long one try of a unary call may take
 */
public record Options(
    List<Endpoint> endpoints, Metadata headers, Duration submitDeadline, Duration callTimeout) {
  /**
   * A channel that adds the client's headers to every call.
   *
   * @param channel the channel
   * @return the same with headers
   */
  public Channel withHeaders(Channel channel) {
    if (headers.keys().isEmpty()) {
      return channel;
    }
    return ClientInterceptors.intercept(channel, MetadataUtils.newAttachHeadersInterceptor(headers));
  }
}
