package dev.keywork.worker;

import dev.keywork.errors.KeyworkException;
import dev.keywork.internal.Endpoint;
import dev.keywork.internal.Options;
import dev.keywork.internal.v1.LeaseRequest;
import dev.keywork.internal.v1.LeaseResponse;
import dev.keywork.internal.v1.WorkQueueGrpc;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** One connection to one server, and the one stream on it. What it hears it puts into the driver's mailbox. */
final class Dial implements ClientResponseObserver<LeaseRequest, LeaseResponse> {
  /** How long the server may take to end a stream that we have ended. */
  private static final long CLOSE_MILLIS = 500;

  /** Messages that may come before the driver has looked at the first of them. */
  private static final int AHEAD = 64;

  private final Options options;
  private final String server;
  private final Driver driver;
  private final ManagedChannel channel;
  private final CountDownLatch ended = new CountDownLatch(1);
  private ClientCallStreamObserver<LeaseRequest> requests;

  Dial(Endpoint endpoint, Options options, Driver driver) {
    this.options = options;
    this.server = endpoint.name();
    this.driver = driver;
    // What it hears only goes into a mailbox: that needs no thread of its own.
    this.channel = endpoint.channel().directExecutor().build();
  }

  /**
   * Connects, and tells the driver. Hello is to be sent over a connection that is there: what the server answers
   * counts from when it was sent.
   */
  void connect() {
    ConnectivityState state = channel.getState(true);
    switch (state) {
      // After a failure too: the stream that is then opened ends at once, and says why.
      case READY, TRANSIENT_FAILURE -> driver.post(this, driver::onConnected);
      case IDLE, CONNECTING -> channel.notifyWhenStateChanged(state, this::connect);
      case SHUTDOWN -> {
        // Dropped meanwhile.
      }
    }
  }

  void open(LeaseRequest hello) {
    WorkQueueGrpc.newStub(options.withHeaders(channel)).lease(this);
    requests.onNext(hello);
  }

  boolean hasRoom() {
    return requests.isReady();
  }

  void send(LeaseRequest message) {
    requests.onNext(message);
  }

  void close() {
    try {
      requests.onCompleted();
      ended.await(CLOSE_MILLIS, TimeUnit.MILLISECONDS);
    } catch (IllegalStateException endedAlready) {
      // The stream ended, and the driver has not looked at that yet.
      ended.countDown();
    } catch (InterruptedException hurried) {
      Thread.currentThread().interrupt();
    }
  }

  void drop() {
    channel.shutdownNow();
  }

  @Override
  public void beforeStart(ClientCallStreamObserver<LeaseRequest> stream) {
    requests = stream;
    stream.disableAutoRequestWithInitial(AHEAD);
    // Wakes the driver up, which looks for itself.
    stream.setOnReadyHandler(() -> driver.post(this, () -> {}));
  }

  @Override
  public void onNext(LeaseResponse message) {
    driver.post(this, () -> {
      driver.onMessage(message);
      requests.request(1);
    });
  }

  @Override
  public void onError(Throwable error) {
    ended.countDown();
    KeyworkException read = KeyworkException.from(error, server);
    driver.post(this, () -> driver.onEnd(read));
  }

  @Override
  public void onCompleted() {
    ended.countDown();
    driver.post(this, () -> driver.onEnd(null));
  }
}
