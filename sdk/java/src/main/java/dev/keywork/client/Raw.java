package dev.keywork.client;

import dev.keywork.internal.v1.QueueAdminGrpc;
import dev.keywork.internal.v1.SchedulesGrpc;
import dev.keywork.internal.v1.WorkQueueGrpc;
import io.grpc.Channel;

/**
 * The contract as generated from {@code proto/keywork/v1}: every RPC and every field, without retries, with the
 * client's headers. These types change with the contract, which only grows.
 *
 * <p>They throw gRPC's own exceptions; {@code KeyworkException.from} reads them.
 *
 * @param channel the way to the server in use, for stubs of another kind than the ones here
 */
public record Raw(Channel channel) {
  /**
   * The service {@code WorkQueue}.
   *
   * @return a stub that blocks
   */
  public WorkQueueGrpc.WorkQueueBlockingStub workQueue() {
    return WorkQueueGrpc.newBlockingStub(channel);
  }

  /**
   * The service {@code QueueAdmin}.
   *
   * @return a stub that blocks
   */
  public QueueAdminGrpc.QueueAdminBlockingStub queueAdmin() {
    return QueueAdminGrpc.newBlockingStub(channel);
  }

  /**
   * The service {@code Schedules}.
   *
   * @return a stub that blocks
   */
  public SchedulesGrpc.SchedulesBlockingStub schedules() {
    return SchedulesGrpc.newBlockingStub(channel);
  }
}
