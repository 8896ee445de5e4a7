package dev.keywork.client;

import dev.keywork.errors.KeyworkException;
import dev.keywork.errors.Reasons;
import dev.keywork.internal.Access;
import dev.keywork.internal.Calls;
import dev.keywork.internal.Channels;
import dev.keywork.internal.Endpoint;
import dev.keywork.internal.Limits;
import dev.keywork.internal.Options;
import dev.keywork.internal.ProgramLog;
import dev.keywork.internal.Wire;
import dev.keywork.internal.v1.CancelJobRequest;
import dev.keywork.internal.v1.GetJobRequest;
import dev.keywork.internal.v1.ListJobsRequest;
import dev.keywork.internal.v1.WatchJobsRequest;
import dev.keywork.internal.v1.WorkQueueGrpc;
import dev.keywork.job.Job;
import io.grpc.ChannelCredentials;
import io.grpc.Metadata;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/**
 * A connection to Keywork's servers: one for a process, used by all its threads. It connects when it is first used,
 * retries what is safe to retry, and tells the rest to the caller. It never runs jobs: that is the worker's part.
 *
 * <p>Every method that waits for a server throws {@link KeyworkException} when the call fails.
 */
public final class KeyworkClient implements AutoCloseable {
  static {
    Access.open(new Access() {
      @Override
      protected Options options(KeyworkClient client) {
        return client.channels.options();
      }
    });
  }

  private final Channels channels;
  private final Submits submits;
  private final OneCall calls;

  private KeyworkClient(Options options, List<SubmitInterceptor> interceptors) {
    this.channels = new Channels(options, KeyworkClient::warn);
    this.submits = new Submits(channels, interceptors);
    this.calls = new OneCall(channels);
  }

  /** Here, so that what a client logs has this class as its source. */
  private static void warn(String text) {
    ProgramLog.logger().log(Level.WARNING, "client: " + ProgramLog.oneLine(text));
  }

  /**
   * A client of one server, with the defaults of {@link Builder}.
   *
   * @param endpoint the server, such as {@code http://127.0.0.1:50051}
   * @return the client
   * @throws IllegalArgumentException it is no URI of a server
   */
  public static KeyworkClient connect(String endpoint) {
    return builder().endpoint(endpoint).build();
  }

  /**
   * A client of the servers that the environment variable {@code KEYWORK_SERVER} names, with commas between them;
   * without it, of {@code http://127.0.0.1:50051}, where {@code keywork serve} listens by itself.
   *
   * @return the client
   * @throws IllegalArgumentException one of them is no URI of a server
   */
  public static KeyworkClient fromEnv() {
    try {
      return builderFromEnv().build();
    } catch (IllegalArgumentException malformed) {
      throw new IllegalArgumentException("KEYWORK_SERVER: " + malformed.getMessage(), malformed);
    }
  }

  /**
   * A client of the servers that the environment variable {@code KEYWORK_SERVER} names, as {@link #fromEnv()} makes
   * it, with more options.
   *
   * @return a builder that has the endpoints
   */
  public static Builder builderFromEnv() {
    Builder builder = builder();
    for (String endpoint : System.getenv().getOrDefault("KEYWORK_SERVER", "").split(",")) {
      if (!endpoint.isBlank()) {
        builder.endpoint(endpoint.strip());
      }
    }
    return builder;
  }

  /**
   * A client with options.
   *
   * @return a builder
   */
  public static Builder builder() {
    return new Builder();
  }

  /**
   * The generated stubs: every RPC and every field, at the server in use.
   *
   * @return the stubs
   */
  public Raw raw() {
    return new Raw(channels.at(channels.place()));
  }

  /** Ends all calls and connections. Workers have connections of their own. */
  @Override
  public void close() {
    channels.close();
  }

  // ---- Offering jobs ----

  /**
   * Offers one job. While servers are away it tries again, with the same request id, until the client's submit
   * deadline.
   *
   * @param submit the offer
   * @return how it ended
   * @throws KeyworkException the job was refused, or no server answered in time; {@code hasNoSideEffects()} says
   *     whether it may have been accepted
   */
  public SubmitOutcome submit(Submit submit) {
    return Calls.await(submitAsync(submit));
  }

  /**
   * Offers one job, as {@link #submit} does, without waiting. Cancelling the future ends the tries.
   *
   * @param submit the offer
   * @return how it ends, or a {@link KeyworkException}
   */
  public CompletableFuture<SubmitOutcome> submitAsync(Submit submit) {
    return submits.one(submit);
  }

  /**
   * Offers up to 1,000 jobs in one call, and answers in their order. A bad one spoils no other. While servers are
   * away the call is repeated, with the same request ids. For more of them: {@link #submitMany}.
   *
   * @param batch the offers
   * @return one result for each
   */
  public List<SubmitResult> submitBatch(Collection<Submit> batch) {
    return Calls.await(submitBatchAsync(batch));
  }

  /**
   * Offers up to 1,000 jobs in one call, as {@link #submitBatch} does, without waiting.
   *
   * @param batch the offers
   * @return one result for each
   */
  public CompletableFuture<List<SubmitResult>> submitBatchAsync(Collection<Submit> batch) {
    return submits.batch(batch);
  }

  /**
   * Offers many jobs on one stream, and answers in their order. A bad one spoils no other. Unanswered offers are made
   * again, with the same request ids, when the stream breaks. When this thread is interrupted, what is unanswered
   * fails with {@code CANCELLED}.
   *
   * @param offers the offers
   * @return one result for each
   */
  public List<SubmitResult> submitMany(Iterable<Submit> offers) {
    List<CompletableFuture<SubmitOutcome>> outcomes = new ArrayList<>();
    try (SubmitStream stream = submitStream()) {
      offers.forEach(submit -> outcomes.add(Submits.orFailed(() -> stream.offer(submit))));
    }
    return Submits.results(outcomes);
  }

  /**
   * A stream to offer jobs on as they come.
   *
   * @return the stream; close it
   */
  public SubmitStream submitStream() {
    return new SubmitStream(channels, submits);
  }

  // ---- Everything else, by what it is about ----

  /**
   * Queues: made, changed, looked at, paused, purged, deleted.
   *
   * @return their calls
   */
  public Queues queues() {
    return new Queues(calls);
  }

  /**
   * Dead letters: looked at, submitted again, deleted.
   *
   * @return their calls
   */
  public DeadLetters deadLetters() {
    return new DeadLetters(calls);
  }

  /**
   * Recurring submits.
   *
   * @return their calls
   */
  public Schedules schedules() {
    return new Schedules(calls);
  }

  /**
   * Leases by hand, without a worker.
   *
   * @return their calls
   */
  public Leases leases() {
    return new Leases(calls);
  }

  // ---- Looking at jobs ----

  /**
   * The outstanding job of a key, with its payload.
   *
   * @param queue the queue's name
   * @param key the key
   * @return the job; empty when the key is free
   */
  public Optional<Job> getJob(String queue, String key) {
    GetJobRequest request = GetJobRequest.newBuilder().setQueue(queue).setKey(key).build();
    try {
      return Optional.of(Wire.job(calls.once(WorkQueueGrpc.getGetJobMethod(), request).getJob()));
    } catch (KeyworkException error) {
      if (error.reason().equals(Reasons.JOB_NOT_FOUND)) {
        return Optional.empty();
      }
      throw error;
    }
  }

  /**
   * A page of a queue's outstanding jobs, without payloads.
   *
   * @param queue the queue's name
   * @param keyPrefix only keys that begin so; empty: all
   * @param page which page
   * @return the page
   */
  public Page<Job> listJobs(String queue, String keyPrefix, PageRequest page) {
    ListJobsRequest request = ListJobsRequest.newBuilder()
        .setQueue(queue)
        .setKeyPrefix(keyPrefix)
        .setPageSize(page.size())
        .setPageToken(page.token())
        .build();
    var answer = calls.once(WorkQueueGrpc.getListJobsMethod(), request);
    return Page.of(answer.getJobsList(), Wire::job, page, answer.getNextPageToken());
  }

  /**
   * Ends the outstanding job of a key, whatever job it is.
   *
   * @param queue the queue's name
   * @param key the key
   * @return the job that was cancelled
   */
  public Job cancelJob(String queue, String key) {
    return cancelJob(queue, key, "");
  }

  /**
   * Ends the outstanding job of a key, if it is this job.
   *
   * @param queue the queue's name
   * @param key the key
   * @param jobId the job's id
   * @return the job that was cancelled
   */
  public Job cancelJob(String queue, String key, String jobId) {
    CancelJobRequest request =
        CancelJobRequest.newBuilder().setQueue(queue).setKey(key).setJobId(jobId).build();
    return Wire.job(calls.once(WorkQueueGrpc.getCancelJobMethod(), request).getJob());
  }

  /**
   * Tells what happens to the jobs of a queue as it happens.
   *
   * @param queue the queue's name
   * @return the changes; close it
   */
  public JobWatch watchJobs(String queue) {
    return watchJobs(queue, "");
  }

  /**
   * Tells what happens to the jobs of a key as it happens.
   *
   * @param queue the queue's name
   * @param key the key
   * @return the changes; close it
   */
  public JobWatch watchJobs(String queue, String key) {
    WatchJobsRequest request = WatchJobsRequest.newBuilder().setQueue(queue).setKey(key).build();
    return new JobWatch(channels.at(channels.place()), request);
  }

  /** The options of a {@link KeyworkClient}. */
  public static final class Builder {
    /** Where {@code keywork serve} listens by itself. */
    private static final String SERVER = "http://127.0.0.1:50051";

    private final List<String> endpoints = new ArrayList<>();
    private final Metadata headers = new Metadata();
    private final List<SubmitInterceptor> interceptors = new ArrayList<>();
    private ChannelCredentials credentials;
    private Duration submitDeadline = Duration.ofSeconds(30);
    private Duration callTimeout = Duration.ofSeconds(10);

    private Builder() {}

    /**
     * Adds a server, such as {@code http://127.0.0.1:50051} or {@code https://keywork.example}. With several, an
     * outage of one turns to the next. Default: {@code http://127.0.0.1:50051}.
     *
     * @param endpoint the server
     * @return this
     */
    public Builder endpoint(String endpoint) {
      endpoints.add(Objects.requireNonNull(endpoint, "endpoint"));
      return this;
    }

    /**
     * Adds a header to every call, such as {@code authorization}.
     *
     * @param name its name
     * @param value its value, in ASCII
     * @return this
     * @throws IllegalArgumentException one of them cannot be sent
     */
    public Builder metadata(String name, String value) {
      if (!value.chars().allMatch(character -> character >= ' ' && character <= '~')) {
        throw new IllegalArgumentException("metadata " + name + " must be printable ASCII");
      }
      headers.put(Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER), value);
      return this;
    }

    /**
     * What {@code https://} endpoints use, for roots or certificates of your own. Default: TLS with the system's
     * roots.
     *
     * @param tls the credentials, such as {@code TlsChannelCredentials} makes them
     * @return this
     */
    public Builder tls(ChannelCredentials tls) {
      this.credentials = tls;
      return this;
    }

    /**
     * How long a submit is tried, with the same request id, while servers are away. Default: 30 s.
     *
     * @param deadline how long
     * @return this
     */
    public Builder submitDeadline(Duration deadline) {
      this.submitDeadline = Objects.requireNonNull(deadline, "submitDeadline");
      return this;
    }

    /**
     * How long one try of a call may take before it counts as unanswered. Default: 10 s.
     *
     * @param timeout how long
     * @return this
     */
    public Builder callTimeout(Duration timeout) {
      this.callTimeout = Objects.requireNonNull(timeout, "callTimeout");
      return this;
    }

    /**
     * Wraps every submit; the first one added is the outermost.
     *
     * @param interceptor what wraps
     * @return this
     */
    public Builder interceptor(SubmitInterceptor interceptor) {
      interceptors.add(Objects.requireNonNull(interceptor, "interceptor"));
      return this;
    }

    /**
     * Makes the client. Nothing is connected yet.
     *
     * @return the client
     * @throws IllegalArgumentException an option breaks its limit, or an endpoint is no URI of a server
     */
    public KeyworkClient build() {
      Limits.positive("submitDeadline", submitDeadline);
      Limits.positive("callTimeout", callTimeout);
      List<String> uris = endpoints.isEmpty() ? List.of(SERVER) : endpoints;
      List<Endpoint> parsed = uris.stream().map(uri -> Endpoint.parse(uri, credentials)).toList();
      if (credentials != null && parsed.stream().noneMatch(Endpoint::isSecure)) {
        throw new IllegalArgumentException("tls is given, but no endpoint begins with https://: " + uris);
      }
      return new KeyworkClient(new Options(parsed, headers, submitDeadline, callTimeout), interceptors);
    }
  }
}
