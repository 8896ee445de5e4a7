/**
 * The contract as it was generated: every message and every RPC, for what the hand-written types leave out.
 *
 * `client.raw` gives the generated clients over the client's own connection. None of it retries.
 */
export * from "./generated/keywork/v1/job_pb.js";
export * from "./generated/keywork/v1/queue_admin_pb.js";
export * from "./generated/keywork/v1/schedules_pb.js";
export * from "./generated/keywork/v1/work_queue_pb.js";
