package dev.keywork.client;

import dev.keywork.errors.KeyworkException;
import dev.keywork.internal.Calls;
import dev.keywork.internal.Channels;
import dev.keywork.internal.Options;
import io.grpc.MethodDescriptor;
import java.time.Duration;

/** Calls that are made once, at the server in use: nobody can say whether repeating them is safe but the caller. */
final class OneCall {
  private final Channels channels;

  OneCall(Channels channels) {
    this.channels = channels;
  }

  Options options() {
    return channels.options();
  }

  <Q, A> A once(MethodDescriptor<Q, A> method, Q request) {
    return once(method, request, options().callTimeout());
  }

  /** Calls once, and turns to the next server where this one is away. */
  <Q, A> A once(MethodDescriptor<Q, A> method, Q request, Duration limit) {
    int place = channels.place();
    try {
      A answer = Calls.await(Calls.unary(channels, place, method, request, limit));
      channels.answered(place);
      return answer;
    } catch (KeyworkException error) {
      if (error.isOutage()) {
        channels.turnAway(place);
      }
      throw error;
    }
  }
}
