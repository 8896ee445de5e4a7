package dev.keywork.job;

import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;

/** One job. */
public final class Job {
  private final String id;
  private final String queue;
  private final String key;
  private final Payload payload;
  private final String contentType;
  private final Map<String, String> attributes;
  private final JobState state;
  private final int attempt;
  private final int maxAttempts;
  private final Optional<Instant> submittedAt;
  private final Optional<Instant> startAt;
  private final Optional<Instant> expiresAt;
  private final String lastError;
  private final String holder;
  private final Optional<Instant> leaseDeadline;
  private final long fencingNumber;
  private final Optional<Duration> age;

  private Job(Builder from) {
    this.id = from.id;
    this.queue = from.queue;
    this.key = from.key;
    this.payload = from.payload;
    this.contentType = from.contentType;
    this.attributes = from.attributes;
    this.state = from.state;
    this.attempt = from.attempt;
    this.maxAttempts = from.maxAttempts;
    this.submittedAt = from.submittedAt;
    this.startAt = from.startAt;
    this.expiresAt = from.expiresAt;
    this.lastError = from.lastError;
    this.holder = from.holder;
    this.leaseDeadline = from.leaseDeadline;
    this.fencingNumber = from.fencingNumber;
    this.age = from.age;
  }

  /**
   * Starts a job by hand, for tests of handlers: its first attempt, without a payload.
   *
   * @param queue the queue's name
   * @param key the key
   * @return a builder
   */
  public static Builder builder(String queue, String key) {
    return new Builder(queue, key);
  }

  /**
   * A builder that starts with this job.
   *
   * @return a builder
   */
  public Builder toBuilder() {
    Builder builder = new Builder(queue, key);
    builder.id = id;
    builder.payload = payload;
    builder.contentType = contentType;
    builder.attributes = attributes;
    builder.state = state;
    builder.attempt = attempt;
    builder.maxAttempts = maxAttempts;
    builder.submittedAt = submittedAt;
    builder.startAt = startAt;
    builder.expiresAt = expiresAt;
    builder.lastError = lastError;
    builder.holder = holder;
    builder.leaseDeadline = leaseDeadline;
    builder.fencingNumber = fencingNumber;
    builder.age = age;
    return builder;
  }

  /**
   * The job's id: the request id of its submit where one was given.
   *
   * @return as said
   */
  public String id() {
    return id;
  }

  /**
   * The queue's name.
   *
   * @return as said
   */
  public String queue() {
    return queue;
  }

  /**
   * What the job is about: at most one job of a key is outstanding in a queue.
   *
   * @return as said
   */
  public String key() {
    return key;
  }

  /**
   * The payload. Empty where a job is only named, as in a submit's outcome.
   *
   * @return as said
   */
  public Payload payload() {
    return payload;
  }

  /**
   * Media type of the payload, as given by the submitter; may be empty.
   *
   * @return as said
   */
  public String contentType() {
    return contentType;
  }

  /**
   * The submitter's attributes.
   *
   * @return as said
   */
  public Map<String, String> attributes() {
    return attributes;
  }

  /**
   * Where the job was in its life when the server answered.
   *
   * @return as said
   */
  public JobState state() {
    return state;
  }

  /**
   * The attempt that runs, or that comes next: the first is 1.
   *
   * @return as said
   */
  public int attempt() {
    return attempt;
  }

  /**
   * How many attempts it has before it becomes a dead letter.
   *
   * @return as said
   */
  public int maxAttempts() {
    return maxAttempts;
  }

  /**
   * When it was accepted.
   *
   * @return as said
   */
  public Optional<Instant> submittedAt() {
    return submittedAt;
  }

  /**
   * Not to start before this time.
   *
   * @return as said
   */
  public Optional<Instant> startAt() {
    return startAt;
  }

  /**
   * Becomes a dead letter when it has not started by then.
   *
   * @return as said
   */
  public Optional<Instant> expiresAt() {
    return expiresAt;
  }

  /**
   * What the last failed attempt said; may be empty.
   *
   * @return as said
   */
  public String lastError() {
    return lastError;
  }

  /**
   * The worker that holds the lease, where the server knows it; may be empty.
   *
   * @return as said
   */
  public String holder() {
    return holder;
  }

  /**
   * Until when the lease holds unless it is extended, by the server's clock. A handler asks its context instead.
   *
   * @return as said
   */
  public Optional<Instant> leaseDeadline() {
    return leaseDeadline;
  }

  /**
   * Grows with every lease of the key: pass it to what the handler writes to. 0: not leased.
   *
   * @return as said
   */
  public long fencingNumber() {
    return fencingNumber;
  }

  /**
   * How long ago it was accepted, by the server's clock.
   *
   * @return as said
   */
  public Optional<Duration> age() {
    return age;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Job that
        && id.equals(that.id)
        && queue.equals(that.queue)
        && key.equals(that.key)
        && payload.equals(that.payload)
        && contentType.equals(that.contentType)
        && attributes.equals(that.attributes)
        && state.equals(that.state)
        && attempt == that.attempt
        && maxAttempts == that.maxAttempts
        && submittedAt.equals(that.submittedAt)
        && startAt.equals(that.startAt)
        && expiresAt.equals(that.expiresAt)
        && lastError.equals(that.lastError)
        && holder.equals(that.holder)
        && leaseDeadline.equals(that.leaseDeadline)
        && fencingNumber == that.fencingNumber
        && age.equals(that.age);
  }

  @Override
  public int hashCode() {
    return Objects.hash(id, queue, key, attempt, fencingNumber);
  }

  @Override
  public String toString() {
    return "Job[" + queue + '/' + key + ", id=" + id + ", state=" + state + ", attempt=" + attempt
        + ", fencingNumber=" + fencingNumber + ", payload=" + payload
        + (lastError.isEmpty() ? "" : ", lastError=" + lastError) + ']';
  }

  /** Makes a {@link Job}. */
  public static final class Builder {
    private final String queue;
    private final String key;
    private String id = "";
    private Payload payload = Payload.EMPTY;
    private String contentType = "";
    private Map<String, String> attributes = Map.of();
    private JobState state = JobState.UNKNOWN;
    private int attempt = 1;
    private int maxAttempts = 10;
    private Optional<Instant> submittedAt = Optional.empty();
    private Optional<Instant> startAt = Optional.empty();
    private Optional<Instant> expiresAt = Optional.empty();
    private String lastError = "";
    private String holder = "";
    private Optional<Instant> leaseDeadline = Optional.empty();
    private long fencingNumber = 0;
    private Optional<Duration> age = Optional.empty();

    private Builder(String queue, String key) {
      this.queue = Objects.requireNonNull(queue, "queue");
      this.key = Objects.requireNonNull(key, "key");
    }

    /**
     * The job's id: the request id of its submit where one was given.
     *
     * @param id as said
     * @return this
     */
    public Builder id(String id) {
      this.id = Objects.requireNonNull(id, "id");
      return this;
    }

    /**
     * The payload. Empty where a job is only named, as in a submit's outcome.
     *
     * @param payload as said
     * @return this
     */
    public Builder payload(Payload payload) {
      this.payload = Objects.requireNonNull(payload, "payload");
      return this;
    }

    /**
     * The payload, as text in UTF-8.
     *
     * @param text the text
     * @return this
     */
    public Builder payload(String text) {
      return payload(Payload.of(text));
    }

    /**
     * Media type of the payload, as given by the submitter; may be empty.
     *
     * @param contentType as said
     * @return this
     */
    public Builder contentType(String contentType) {
      this.contentType = Objects.requireNonNull(contentType, "contentType");
      return this;
    }

    /**
     * The submitter's attributes.
     *
     * @param attributes as said
     * @return this
     */
    public Builder attributes(Map<String, String> attributes) {
      this.attributes = Map.copyOf(attributes);
      return this;
    }

    /**
     * Where the job was in its life when the server answered.
     *
     * @param state as said
     * @return this
     */
    public Builder state(JobState state) {
      this.state = Objects.requireNonNull(state, "state");
      return this;
    }

    /**
     * The attempt that runs, or that comes next: the first is 1.
     *
     * @param attempt as said
     * @return this
     */
    public Builder attempt(int attempt) {
      this.attempt = attempt;
      return this;
    }

    /**
     * How many attempts it has before it becomes a dead letter.
     *
     * @param maxAttempts as said
     * @return this
     */
    public Builder maxAttempts(int maxAttempts) {
      this.maxAttempts = maxAttempts;
      return this;
    }

    /**
     * When it was accepted.
     *
     * @param submittedAt as said
     * @return this
     */
    public Builder submittedAt(Instant submittedAt) {
      this.submittedAt = Optional.ofNullable(submittedAt);
      return this;
    }

    /**
     * Not to start before this time.
     *
     * @param startAt as said
     * @return this
     */
    public Builder startAt(Instant startAt) {
      this.startAt = Optional.ofNullable(startAt);
      return this;
    }

    /**
     * Becomes a dead letter when it has not started by then.
     *
     * @param expiresAt as said
     * @return this
     */
    public Builder expiresAt(Instant expiresAt) {
      this.expiresAt = Optional.ofNullable(expiresAt);
      return this;
    }

    /**
     * What the last failed attempt said; may be empty.
     *
     * @param lastError as said
     * @return this
     */
    public Builder lastError(String lastError) {
      this.lastError = Objects.requireNonNull(lastError, "lastError");
      return this;
    }

    /**
     * The worker that holds the lease, where the server knows it; may be empty.
     *
     * @param holder as said
     * @return this
     */
    public Builder holder(String holder) {
      this.holder = Objects.requireNonNull(holder, "holder");
      return this;
    }

    /**
     * Until when the lease holds unless it is extended, by the server's clock. A handler asks its context instead.
     *
     * @param leaseDeadline as said
     * @return this
     */
    public Builder leaseDeadline(Instant leaseDeadline) {
      this.leaseDeadline = Optional.ofNullable(leaseDeadline);
      return this;
    }

    /**
     * Grows with every lease of the key: pass it to what the handler writes to. 0: not leased.
     *
     * @param fencingNumber as said
     * @return this
     */
    public Builder fencingNumber(long fencingNumber) {
      this.fencingNumber = fencingNumber;
      return this;
    }

    /**
     * How long ago it was accepted, by the server's clock.
     *
     * @param age as said
     * @return this
     */
    public Builder age(Duration age) {
      this.age = Optional.ofNullable(age);
      return this;
    }

    /**
     * Makes the job.
     *
     * @return the job
     */
    public Job build() {
      return new Job(this);
    }
  }
}
