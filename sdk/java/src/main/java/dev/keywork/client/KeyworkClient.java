package dev.keywork.client;

import dev.keywork.errors.KeyworkException;
import dev.keywork.errors.Reasons;
import dev.keywork.internal.Access;
import dev.keywork.internal.Calls;
import dev.keywork.internal.Channels;
import dev.keywork.internal.Endpoint;
import dev.keywork.internal.Options;
import dev.keywork.internal.Wire;
import dev.keywork.internal.v1.AckRequest;
import dev.keywork.internal.v1.CancelJobRequest;
import dev.keywork.internal.v1.CreateQueueRequest;
import dev.keywork.internal.v1.DeleteDeadJobsRequest;
import dev.keywork.internal.v1.DeleteQueueRequest;
import dev.keywork.internal.v1.DeleteScheduleRequest;
import dev.keywork.internal.v1.Delivery;
import dev.keywork.internal.v1.GetJobRequest;
import dev.keywork.internal.v1.GetQueueRequest;
import dev.keywork.internal.v1.GetScheduleRequest;
import dev.keywork.internal.v1.HeartbeatRequest;
import dev.keywork.internal.v1.HeartbeatResult;
import dev.keywork.internal.v1.ListDeadJobsRequest;
import dev.keywork.internal.v1.ListJobsRequest;
import dev.keywork.internal.v1.ListQueuesRequest;
import dev.keywork.internal.v1.ListSchedulesRequest;
import dev.keywork.internal.v1.PauseQueueRequest;
import dev.keywork.internal.v1.PurgeQueueRequest;
import dev.keywork.internal.v1.PutScheduleRequest;
import dev.keywork.internal.v1.QueueAdminGrpc;
import dev.keywork.internal.v1.RedriveDeadJobsRequest;
import dev.keywork.internal.v1.ResumeQueueRequest;
import dev.keywork.internal.v1.SchedulesGrpc;
import dev.keywork.internal.v1.UpdateQueueRequest;
import dev.keywork.internal.v1.WatchJobsRequest;
import dev.keywork.internal.v1.WorkQueueGrpc;
import dev.keywork.job.DeadJob;
import dev.keywork.job.Job;
import io.grpc.ChannelCredentials;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
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

  private KeyworkClient(Options options, List<SubmitInterceptor> interceptors) {
    this.channels = new Channels(options);
    this.submits = new Submits(channels, interceptors);
  }

  /**
   * A client of one server, with the defaults of {@link Builder}.
   *
   * @param endpoint the server, such as {@code http://127.0.0.1:50051}
   * @return the client
   */
  public static KeyworkClient connect(String endpoint) {
    return builder().endpoint(endpoint).build();
  }

  /**
   * A client of the servers that the environment variable {@code KEYWORK_SERVER} names, with commas between them;
   * without it, of {@code http://127.0.0.1:50051}, where {@code keywork serve} listens by itself.
   *
   * @return the client
   */
  public static KeyworkClient fromEnv() {
    Builder builder = builder();
    for (String endpoint : System.getenv().getOrDefault("KEYWORK_SERVER", Builder.SERVER).split(",")) {
      builder.endpoint(endpoint.strip());
    }
    return builder.build();
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
   * again, with the same request ids, when the stream breaks.
   *
   * @param offers the offers
   * @return one result for each
   */
  public List<SubmitResult> submitMany(Iterable<Submit> offers) {
    List<CompletableFuture<SubmitOutcome>> outcomes = new ArrayList<>();
    try (SubmitStream stream = submitStream()) {
      offers.forEach(submit -> outcomes.add(stream.offer(submit)));
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
      return Optional.of(Wire.job(call(WorkQueueGrpc.getGetJobMethod(), request).getJob()));
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
    var answer = call(WorkQueueGrpc.getListJobsMethod(), request);
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
    return Wire.job(call(WorkQueueGrpc.getCancelJobMethod(), request).getJob());
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

  // ---- Dead letters ----

  /**
   * A page of a queue's dead letters, oldest first.
   *
   * @param queue the queue's name
   * @param page which page
   * @return the page
   */
  public Page<DeadJob> listDeadJobs(String queue, PageRequest page) {
    return listDeadJobs(queue, "", page);
  }

  /**
   * A page of the dead letters of one key, oldest first.
   *
   * @param queue the queue's name
   * @param key the key
   * @param page which page
   * @return the page
   */
  public Page<DeadJob> listDeadJobs(String queue, String key, PageRequest page) {
    ListDeadJobsRequest request = ListDeadJobsRequest.newBuilder()
        .setQueue(queue)
        .setKey(key)
        .setPageSize(page.size())
        .setPageToken(page.token())
        .build();
    var answer = call(WorkQueueGrpc.getListDeadJobsMethod(), request);
    return Page.of(answer.getJobsList(), Wire::deadJob, page, answer.getNextPageToken());
  }

  /**
   * Submits dead letters again, with attempts counted from 1. Repeating it is safe: one that was redriven is no dead
   * letter any more.
   *
   * @param queue the queue's name
   * @param deadIds which: at most 1,000
   * @return one result for each
   */
  public List<Redriven> redriveDeadJobs(String queue, Collection<Long> deadIds) {
    if (deadIds.isEmpty()) {
      // On the wire, no ids mean the oldest ones.
      return List.of();
    }
    return redrive(RedriveDeadJobsRequest.newBuilder().setQueue(queue).addAllDeadIds(deadIds).build());
  }

  /**
   * Submits the oldest dead letters again, with attempts counted from 1.
   *
   * @param queue the queue's name
   * @param maxJobs at most this many: 1 to 1,000
   * @return one result for each
   */
  public List<Redriven> redriveOldestDeadJobs(String queue, int maxJobs) {
    return redrive(RedriveDeadJobsRequest.newBuilder().setQueue(queue).setMaxJobs(maxJobs).build());
  }

  private List<Redriven> redrive(RedriveDeadJobsRequest request) {
    return call(WorkQueueGrpc.getRedriveDeadJobsMethod(), request).getResultsList().stream()
        .map(result -> new Redriven(result.getDeadId(), Offer.read(result.getResult(), false)))
        .toList();
  }

  /**
   * Deletes dead letters for good.
   *
   * @param queue the queue's name
   * @param deadIds which: at most 1,000
   * @return how many there were
   */
  public long deleteDeadJobs(String queue, Collection<Long> deadIds) {
    DeleteDeadJobsRequest request =
        DeleteDeadJobsRequest.newBuilder().setQueue(queue).addAllDeadIds(deadIds).build();
    return call(WorkQueueGrpc.getDeleteDeadJobsMethod(), request).getDeleted();
  }

  /**
   * Deletes all dead letters of a queue for good.
   *
   * @param queue the queue's name
   * @return how many there were
   */
  public long deleteAllDeadJobs(String queue) {
    DeleteDeadJobsRequest request = DeleteDeadJobsRequest.newBuilder().setQueue(queue).setAll(true).build();
    return call(WorkQueueGrpc.getDeleteDeadJobsMethod(), request).getDeleted();
  }

  // ---- Leasing without a stream ----

  /**
   * Leases jobs without a worker, for programs that run now and then. The caller keeps the deadlines.
   *
   * @param pull what
   * @return the jobs; none when the wait ended without one
   */
  public List<Leased> pull(Pull pull) {
    Duration limit = pull.patience().plus(channels.options().callTimeout());
    var answer = call(WorkQueueGrpc.getPullMethod(), pull.request(), limit);
    return answer.getDeliveriesList().stream().map(KeyworkClient::leased).toList();
  }

  private static Leased leased(Delivery delivery) {
    Job job = Wire.jobBuilder(delivery.getJob())
        .attempt(delivery.getAttempt())
        .fencingNumber(delivery.getFencingNumber())
        .build();
    return new Leased(LeaseToken.of(delivery.getLeaseToken()), job, Wire.duration(delivery.getTimeLeft()));
  }

  /**
   * Extends leases. When the call fails they are as before, or were extended.
   *
   * @param tokens the leases: 1 to 1,000
   * @return one result for each, in their order
   */
  public List<LeaseExtension> heartbeat(Collection<LeaseToken> tokens) {
    HeartbeatRequest.Builder request = HeartbeatRequest.newBuilder();
    tokens.forEach(token -> request.addLeaseTokens(token.wire()));
    return call(WorkQueueGrpc.getHeartbeatMethod(), request.build()).getResultsList().stream()
        .map(KeyworkClient::extension)
        .toList();
  }

  private static LeaseExtension extension(HeartbeatResult result) {
    if (result.getLost() != dev.keywork.internal.v1.LostReason.LOST_REASON_UNSPECIFIED) {
      return new LeaseExtension.Lost(Wire.lostReason(result.getLost()));
    }
    LeaseToken token = LeaseToken.of(result.getLeaseToken());
    if (result.getTryAgain() || !result.hasTimeLeft()) {
      return new LeaseExtension.TryAgain(token);
    }
    return new LeaseExtension.Extended(token, Wire.duration(result.getTimeLeft()));
  }

  /**
   * Settles leases. Repeating it is safe.
   *
   * @param settlements 1 to 1,000
   * @return one result for each, in their order
   */
  public List<SettlementResult> ack(Collection<Settlement> settlements) {
    AckRequest.Builder request = AckRequest.newBuilder();
    settlements.forEach(one -> request.addSettlements(Wire.settlement(one.token().wire(), one.outcome())));
    return call(WorkQueueGrpc.getAckMethod(), request.build()).getResultsList().stream()
        .map(KeyworkClient::settled)
        .toList();
  }

  private static SettlementResult settled(dev.keywork.internal.v1.SettlementResult wire) {
    Optional<KeyworkException> error = wire.hasError() ? Optional.of(Wire.error(wire.getError())) : Optional.empty();
    return new SettlementResult(Wire.settlementOutcome(wire.getOutcome()), error);
  }

  // ---- Queues ----

  /**
   * Makes a queue; also when it is there already with this configuration.
   *
   * @param name the name: {@code [a-z0-9][a-z0-9_-]{0,63}}
   * @param config its configuration
   * @return the queue
   */
  public Queue createQueue(String name, QueueConfig config) {
    CreateQueueRequest request = CreateQueueRequest.newBuilder().setName(name).setConfig(config.wire()).build();
    return Queue.read(call(QueueAdminGrpc.getCreateQueueMethod(), request).getQueue());
  }

  /**
   * Changes what is set in {@code config}, and nothing else.
   *
   * @param name the name
   * @param config what to change
   * @return the queue as it is now
   */
  public Queue updateQueue(String name, QueueConfig config) {
    UpdateQueueRequest request = UpdateQueueRequest.newBuilder()
        .setName(name)
        .setConfig(config.wire())
        .setUpdateMask(config.mask())
        .build();
    return Queue.read(call(QueueAdminGrpc.getUpdateQueueMethod(), request).getQueue());
  }

  /**
   * One queue with its counts.
   *
   * @param name the name
   * @return the queue
   */
  public Queue getQueue(String name) {
    GetQueueRequest request = GetQueueRequest.newBuilder().setName(name).build();
    return Queue.read(call(QueueAdminGrpc.getGetQueueMethod(), request).getQueue());
  }

  /**
   * A page of all queues, by name.
   *
   * @param page which page
   * @return the page
   */
  public Page<Queue> listQueues(PageRequest page) {
    ListQueuesRequest request =
        ListQueuesRequest.newBuilder().setPageSize(page.size()).setPageToken(page.token()).build();
    var answer = call(QueueAdminGrpc.getListQueuesMethod(), request);
    return Page.of(answer.getQueuesList(), Queue::read, page, answer.getNextPageToken());
  }

  /**
   * Deletes a queue.
   *
   * @param name the name
   * @param force also when it holds jobs or dead letters
   */
  public void deleteQueue(String name, boolean force) {
    DeleteQueueRequest request = DeleteQueueRequest.newBuilder().setName(name).setForce(force).build();
    call(QueueAdminGrpc.getDeleteQueueMethod(), request);
  }

  /**
   * Stops deliveries. Leases that are out go on; submits are accepted.
   *
   * @param name the name
   * @return the queue
   */
  public Queue pauseQueue(String name) {
    PauseQueueRequest request = PauseQueueRequest.newBuilder().setName(name).build();
    return Queue.read(call(QueueAdminGrpc.getPauseQueueMethod(), request).getQueue());
  }

  /**
   * Goes on with deliveries.
   *
   * @param name the name
   * @return the queue
   */
  public Queue resumeQueue(String name) {
    ResumeQueueRequest request = ResumeQueueRequest.newBuilder().setName(name).build();
    return Queue.read(call(QueueAdminGrpc.getResumeQueueMethod(), request).getQueue());
  }

  /**
   * Ends all outstanding jobs of a queue without running them.
   *
   * @param name the name
   * @return how many there were
   */
  public long purgeQueue(String name) {
    PurgeQueueRequest request = PurgeQueueRequest.newBuilder().setName(name).build();
    return call(QueueAdminGrpc.getPurgeQueueMethod(), request).getPurged();
  }

  // ---- Schedules ----

  /**
   * Makes or replaces a schedule.
   *
   * @param schedule the schedule
   * @return the schedule as kept
   */
  public Schedule putSchedule(Schedule schedule) {
    PutScheduleRequest request = PutScheduleRequest.newBuilder().setSchedule(schedule.wire()).build();
    return Schedule.read(call(SchedulesGrpc.getPutScheduleMethod(), request).getSchedule());
  }

  /**
   * One schedule.
   *
   * @param name the name
   * @return the schedule
   */
  public Schedule getSchedule(String name) {
    GetScheduleRequest request = GetScheduleRequest.newBuilder().setName(name).build();
    return Schedule.read(call(SchedulesGrpc.getGetScheduleMethod(), request).getSchedule());
  }

  /**
   * A page of all schedules, by name.
   *
   * @param page which page
   * @return the page
   */
  public Page<Schedule> listSchedules(PageRequest page) {
    ListSchedulesRequest request =
        ListSchedulesRequest.newBuilder().setPageSize(page.size()).setPageToken(page.token()).build();
    var answer = call(SchedulesGrpc.getListSchedulesMethod(), request);
    return Page.of(answer.getSchedulesList(), Schedule::read, page, answer.getNextPageToken());
  }

  /**
   * Ends a schedule. Jobs that it submitted stay.
   *
   * @param name the name
   */
  public void deleteSchedule(String name) {
    DeleteScheduleRequest request = DeleteScheduleRequest.newBuilder().setName(name).build();
    call(SchedulesGrpc.getDeleteScheduleMethod(), request);
  }

  // ---- One call ----

  private <Q, A> A call(MethodDescriptor<Q, A> method, Q request) {
    return call(method, request, channels.options().callTimeout());
  }

  /** Calls once, and turns to the next server where this one is away. */
  private <Q, A> A call(MethodDescriptor<Q, A> method, Q request, Duration limit) {
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
      endpoints.add(endpoint);
      return this;
    }

    /**
     * Adds a header to every call, such as {@code authorization}.
     *
     * @param name its name
     * @param value its value, in ASCII
     * @return this
     */
    public Builder metadata(String name, String value) {
      try {
        headers.put(Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER), value);
      } catch (IllegalArgumentException malformed) {
        throw KeyworkException.builder(Status.Code.INVALID_ARGUMENT)
            .description("failed to read the header " + name)
            .noSideEffects(true)
            .cause(malformed)
            .build();
      }
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
      this.submitDeadline = deadline;
      return this;
    }

    /**
     * How long one try of a call may take before it counts as unanswered. Default: 10 s.
     *
     * @param timeout how long
     * @return this
     */
    public Builder callTimeout(Duration timeout) {
      this.callTimeout = timeout;
      return this;
    }

    /**
     * Wraps every submit; the first one added is the outermost.
     *
     * @param interceptor what wraps
     * @return this
     */
    public Builder interceptor(SubmitInterceptor interceptor) {
      interceptors.add(interceptor);
      return this;
    }

    /**
     * Makes the client. Nothing is connected yet.
     *
     * @return the client
     * @throws KeyworkException an endpoint is no URI of a server
     */
    public KeyworkClient build() {
      List<String> uris = endpoints.isEmpty() ? List.of(SERVER) : endpoints;
      List<Endpoint> parsed = uris.stream().map(uri -> Endpoint.parse(uri, credentials)).toList();
      return new KeyworkClient(new Options(parsed, headers, submitDeadline, callTimeout), interceptors);
    }
  }
}
