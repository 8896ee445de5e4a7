package dev.keywork.client;

import dev.keywork.errors.KeyworkException;
import dev.keywork.internal.Channels;
import dev.keywork.internal.Threads;
import dev.keywork.internal.Ticks;
import dev.keywork.internal.v1.SubmitOffer;
import dev.keywork.internal.v1.SubmitOfferResult;
import dev.keywork.internal.v1.SubmitStreamRequest;
import dev.keywork.internal.v1.SubmitStreamResponse;
import io.grpc.Status;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.PriorityQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/**
 * The state of a submit stream, which outlives any one connection. One thread owns it: everybody else puts something
 * to do into its mailbox.
 */
final class SubmitPump {
  /** What one message holds at most. */
  private static final int MESSAGE_OFFERS = 256;

  private static final int MESSAGE_BYTES = 1 << 20;

  /** The least wait before an offer is made again after its own error. */
  private static final Duration ITEM_PAUSE = Duration.ofMillis(100);

  private final Channels channels;
  private final Semaphore window;
  private final Patience patience;

  /** Never longer than the window of unanswered offers, and what is said of them. */
  private final LinkedBlockingQueue<Runnable> mailbox = new LinkedBlockingQueue<>();
  private final CountDownLatch ended = new CountDownLatch(1);
  private final Object gate = new Object();

  /** Unanswered, by correlation id, in their order. */
  private final Map<Long, Flying> flying = new LinkedHashMap<>();

  /** Those of them that are to be sent now. */
  private final ArrayDeque<Flying> ready = new ArrayDeque<>();

  /** Those of them that are to be sent later. */
  private final PriorityQueue<Flying> later = new PriorityQueue<>(Comparator.comparingLong(offer -> offer.again));

  private SubmitConnection connection;
  private long connectAt;
  private long heard;
  private long next;
  private boolean closing;

  private volatile Thread thread;

  // Shared with those who offer, under the gate.
  private boolean started;
  private boolean closed;
  private KeyworkException failed;

  SubmitPump(Channels channels, Semaphore window) {
    this.channels = channels;
    this.window = window;
    this.patience = new Patience(channels);
  }

  /** On this thread nothing may wait for the stream: it is the one that hears the answers. */
  boolean isOwnThread() {
    return Thread.currentThread() == thread;
  }

  CompletableFuture<SubmitOutcome> offer(Offer offer) {
    Flying item = new Flying(offer);
    synchronized (gate) {
      if (closed) {
        window.release();
        throw new IllegalStateException("the submit stream is closed");
      }
      if (failed != null) {
        window.release();
        item.outcome.completeExceptionally(failed.toBuilder().noSideEffects(true).build());
        return item.outcome;
      }
      if (!started) {
        started = true;
        thread = Threads.daemons("keywork-submit-").newThread(this::run);
        thread.start();
      }
      mailbox.add(() -> took(item));
    }
    return item.outcome;
  }

  void close() {
    synchronized (gate) {
      closed = true;
      if (!started) {
        return;
      }
      mailbox.add(() -> closing = true);
    }
    awaitEnd();
  }

  private void awaitEnd() {
    boolean interrupted = false;
    while (true) {
      try {
        ended.await();
        break;
      } catch (InterruptedException again) {
        // Nobody waits any more: what is unanswered is told so.
        interrupted = true;
        KeyworkException error = KeyworkException.builder(Status.Code.CANCELLED)
            .description("interrupted while waiting for the answers")
            .build();
        mailbox.add(() -> giveUp(error));
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  private void run() {
    patience.renew();
    try {
      while (!(closing && flying.isEmpty())) {
        long now = Ticks.now();
        onTime(now);
        flush();
        work(mailbox.poll(wake(now) - now, TimeUnit.NANOSECONDS));
      }
    } catch (InterruptedException | RuntimeException | Error unexpected) {
      // Errors too: whoever waits for an answer would wait for ever.
      giveUp(KeyworkException.from(unexpected));
    } finally {
      ended.countDown();
      if (connection != null) {
        connection.end();
      }
    }
  }

  /** Does what is there to do, all of it, so that one message takes all of it. */
  private void work(Runnable first) {
    for (Runnable task = first; task != null; task = mailbox.poll()) {
      task.run();
      if (ready.size() >= MESSAGE_OFFERS) {
        return;
      }
    }
  }

  private long wake(long now) {
    long wake = Ticks.NEVER;
    if (!later.isEmpty()) {
      wake = later.peek().again;
    }
    if (connection == null && !flying.isEmpty()) {
      wake = Math.min(wake, connectAt);
    }
    if (connection != null && !flying.isEmpty()) {
      wake = Math.min(wake, silence());
    }
    return Math.max(wake, now);
  }

  private long silence() {
    return Ticks.after(heard, channels.options().callTimeout());
  }

  private void onTime(long now) {
    while (!later.isEmpty() && later.peek().again <= now) {
      ready.add(later.poll());
    }
    if (connection != null && !flying.isEmpty() && silence() <= now) {
      broken(unanswered("the server fell silent on the submit stream"));
    }
    if (connection == null && !flying.isEmpty() && connectAt <= now) {
      heard = now;
      int place = patience.place();
      connection = new SubmitConnection(this, channels.at(place), channels.name(place));
      connection.open();
    }
  }

  private void flush() {
    while (connection != null && !ready.isEmpty() && connection.isReady()) {
      connection.send(message());
    }
  }

  /** The next message: what is ready, as far as it fits. */
  private SubmitStreamRequest message() {
    SubmitStreamRequest.Builder message = SubmitStreamRequest.newBuilder();
    int bytes = 0;
    while (!ready.isEmpty() && message.getOffersCount() < MESSAGE_OFFERS && bytes < MESSAGE_BYTES) {
      Flying item = ready.poll();
      item.sent = true;
      bytes += item.offer.request().getPayload().size();
      message.addOffers(SubmitOffer.newBuilder().setCorrelationId(item.id).setSubmit(item.offer.request()));
    }
    return message.build();
  }

  private void took(Flying item) {
    long now = Ticks.now();
    if (flying.isEmpty()) {
      // Nothing was to be answered until now.
      heard = now;
      patience.renew();
    }
    item.id = next++;
    item.since = now;
    flying.put(item.id, item);
    ready.add(item);
  }

  /** Whoever the connection tells something tells it through here. */
  void post(SubmitConnection from, Runnable task) {
    mailbox.add(() -> {
      if (from == connection) {
        task.run();
      }
    });
  }

  void answered(SubmitStreamResponse message) {
    heard = Ticks.now();
    patience.renew();
    patience.answered();
    message.getResultsList().forEach(this::answered);
  }

  private void answered(SubmitOfferResult result) {
    Flying item = flying.get(result.getCorrelationId());
    if (item == null) {
      return;
    }
    SubmitResult answer = item.offer.read(result.getResult());
    if (answer instanceof SubmitResult.Failed failure && mayGoAgain(item, failure.cause())) {
      return;
    }
    flying.remove(item.id);
    window.release();
    if (answer instanceof SubmitResult.Failed failure) {
      item.outcome.completeExceptionally(Patience.withDoubt(failure.cause(), item.doubt));
    } else {
      item.outcome.complete(answer.outcome());
    }
  }

  /** True: the offer is made again, as long as its own patience lasts. */
  private boolean mayGoAgain(Flying item, KeyworkException error) {
    if (!error.isOutage()) {
      return false;
    }
    item.doubt |= !error.hasNoSideEffects();
    Duration asked = error.retryAfter().orElse(ITEM_PAUSE);
    item.again = Ticks.after(Ticks.now(), asked.compareTo(ITEM_PAUSE) < 0 ? ITEM_PAUSE : asked);
    if (item.again >= Ticks.after(item.since, channels.options().submitDeadline())) {
      return false;
    }
    later.add(item);
    patience.warnOf(error);
    return true;
  }

  /** The stream broke: everything that is unanswered is sent again on another one. */
  void broken(KeyworkException error) {
    connection.drop();
    connection = null;
    ready.clear();
    later.clear();
    for (Flying item : flying.values()) {
      item.doubt |= item.sent && !error.hasNoSideEffects();
      ready.add(item);
    }
    Optional<Duration> wait = patience.after(error);
    if (wait.isPresent() || flying.isEmpty()) {
      connectAt = Ticks.after(Ticks.now(), wait.orElse(Duration.ZERO));
      if (!flying.isEmpty()) {
        patience.warnOf(error);
      }
    } else {
      giveUp(patience.telling(error));
    }
  }

  /** No server could be reached for too long, or it refuses the stream: everything ends with that error. */
  private void giveUp(KeyworkException error) {
    synchronized (gate) {
      failed = error;
    }
    // What was offered before that.
    for (Runnable task = mailbox.poll(); task != null; task = mailbox.poll()) {
      task.run();
    }
    for (Flying item : flying.values()) {
      boolean nothing = !item.sent || (error.hasNoSideEffects() && !item.doubt);
      window.release();
      item.outcome.completeExceptionally(error.toBuilder().noSideEffects(nothing).build());
    }
    flying.clear();
    ready.clear();
    later.clear();
  }

  static KeyworkException unanswered(String text) {
    return KeyworkException.builder(Status.Code.DEADLINE_EXCEEDED).description(text).broken(true).build();
  }

  /** An offer that is unanswered. */
  private static final class Flying {
    final Offer offer;
    final CompletableFuture<SubmitOutcome> outcome = new CompletableFuture<>();
    long id;
    long since;
    long again;
    boolean sent;
    boolean doubt;

    Flying(Offer offer) {
      this.offer = offer;
    }
  }
}
