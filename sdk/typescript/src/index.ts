/// <reference lib="esnext.disposable" preserve="true" />
/**
 * Keywork is a work queue in which a key has at most one outstanding job. This is its client and its worker.
 *
 * See also `@keywork/sdk/testing`, `@keywork/sdk/opentelemetry` and `@keywork/sdk/raw`.
 */
export { Client } from "./client/client.js";
export type { CallOptions, RawClients } from "./client/core.js";
export type { ListDeadJobsOptions, Redriven, Which } from "./client/dead.js";
export type { CancelJobOptions, ListJobsOptions, WatchJobsOptions } from "./client/jobs.js";
export type {
  Leased,
  LeaseExtension,
  LostReason,
  PullOptions,
  Settle,
  Settled,
  Settlement,
} from "./client/leases.js";
export type { ClientOptions, SubmitInterceptor } from "./client/options.js";
export type { PageOptions } from "./client/pages.js";
export type { DeleteQueueOptions, Queue, QueueConfig, QueueStats } from "./client/queues.js";
export type { Schedule, ScheduleInput } from "./client/schedules.js";
export type { SubmitStreamAnswer } from "./client/stream.js";
export type { BackoffRange, OnConflict, Submit } from "./client/submit.js";
export type { TlsOptions } from "./client/tls.js";
export { type ErrorCode, type FieldViolation, KeyworkError, type Reason, reasons } from "./errors.js";
export type {
  DeadJob,
  DeadReason,
  JobFields,
  JobState,
  SubmitAnswer,
  SubmitOutcome,
  SubmitResult,
} from "./job.js";
export { Job } from "./job.js";
export type { Logger } from "./logger.js";
export type { Tracing } from "./tracing.js";
export { VERSION } from "./version.js";
export { CancelledError, Context } from "./worker/context.js";
export { WorkerError, type WorkerErrorKind } from "./worker/errors.js";
export type { WorkerEvent } from "./worker/events.js";
export type { Handler, Interceptor } from "./worker/handler.js";
export type { Subscription, WorkerOptions } from "./worker/options.js";
export {
  Fail,
  type HandlerResult,
  type HandlerRun,
  type Outcome,
  Release,
  Rerun,
  Retry,
} from "./worker/outcome.js";
export type { CancelReason, Counts } from "./worker/shared.js";
export { Worker } from "./worker/worker.js";
