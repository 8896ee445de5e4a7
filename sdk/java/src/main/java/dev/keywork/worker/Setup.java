package dev.keywork.worker;

import dev.keywork.internal.Chain;
import dev.keywork.internal.Options;
import dev.keywork.internal.v1.QueueSubscription;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Executor;

/** What a worker was told, checked; {@code executor} is null where the worker brings its own. */
record Setup(
    Options options,
    List<QueueSubscription> queues,
    int concurrency,
    Duration shutdownGrace,
    Duration cancelGrace,
    String workerId,
    Chain chain,
    Executor executor) {}
