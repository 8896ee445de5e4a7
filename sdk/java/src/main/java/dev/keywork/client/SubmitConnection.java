package dev.keywork.client;

import dev.keywork.errors.KeyworkException;
import dev.keywork.internal.v1.SubmitStreamRequest;
import dev.keywork.internal.v1.SubmitStreamResponse;
import dev.keywork.internal.v1.WorkQueueGrpc;
import io.grpc.Channel;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;

/** One connection of a submit stream. It tells its pump what happens, and knows nothing itself. */
final class SubmitConnection implements ClientResponseObserver<SubmitStreamRequest, SubmitStreamResponse> {
  private final SubmitPump pump;
  private final Channel channel;
  private final String server;
  private ClientCallStreamObserver<SubmitStreamRequest> requests;

  SubmitConnection(SubmitPump pump, Channel channel, String server) {
    this.pump = pump;
    this.server = server;
    this.channel = channel;
  }

  void open() {
    WorkQueueGrpc.newStub(channel).submitStream(this);
  }

  boolean isReady() {
    return requests.isReady();
  }

  void send(SubmitStreamRequest message) {
    requests.onNext(message);
  }

  /** Everything is answered. */
  void end() {
    requests.onCompleted();
  }

  /** Nothing more is expected from it. */
  void drop() {
    requests.cancel("the stream is given up", null);
  }

  @Override
  public void beforeStart(ClientCallStreamObserver<SubmitStreamRequest> stream) {
    requests = stream;
    // Wakes the pump up, which looks for itself.
    stream.setOnReadyHandler(() -> pump.post(this, () -> {}));
  }

  @Override
  public void onNext(SubmitStreamResponse message) {
    pump.post(this, () -> pump.answered(message));
  }

  @Override
  public void onError(Throwable error) {
    KeyworkException read = KeyworkException.from(error, server);
    pump.post(this, () -> pump.broken(read));
  }

  @Override
  public void onCompleted() {
    pump.post(this, () -> pump.broken(SubmitPump.unanswered("the server ended the submit stream")));
  }
}
