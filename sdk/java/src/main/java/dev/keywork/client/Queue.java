package dev.keywork.client;

import dev.keywork.internal.Wire;
import java.time.Instant;
import java.util.Optional;

/**
 * One queue.
 *
 * @param name the name
 * @param config the configuration, defaults filled in
 * @param paused true: no deliveries
 * @param createdAt when it was made
 * @param stats what is in it
 * @param replicas how many NATS nodes keep it
 */
public record Queue(
    String name, QueueConfig config, boolean paused, Optional<Instant> createdAt, QueueStats stats, int replicas) {
  static Queue read(dev.keywork.internal.v1.Queue wire) {
    Instant createdAt = Wire.time(wire.hasCreatedAt(), wire.getCreatedAt());
    return new Queue(
        wire.getName(),
        QueueConfig.read(wire.getConfig()),
        wire.getPaused(),
        Optional.ofNullable(createdAt),
        QueueStats.read(wire.getStats()),
        wire.getReplicas());
  }
}
