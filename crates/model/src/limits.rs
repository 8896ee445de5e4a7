//! Every limit of Keywork, in one place. The proto's comments quote these.

use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

/// Longest key, in bytes of UTF-8.
pub const KEY_BYTES: usize = 512;
/// Longest queue name, in bytes.
pub const QUEUE_NAME_BYTES: usize = 64;
/// Longest worker id, in bytes of UTF-8.
pub const WORKER_ID_BYTES: usize = 256;
/// Longest name and longest version that an SDK may call itself by, in bytes.
pub const SDK_BYTES: usize = 64;
/// Longest content type, in bytes.
pub const CONTENT_TYPE_BYTES: usize = 255;
/// Most attributes of a job.
pub const ATTRIBUTES: usize = 64;
/// Most bytes of a job's attributes, names and values together.
pub const ATTRIBUTE_BYTES: usize = 16 * 1024;
/// Most bytes of an attempt's error that are kept.
pub const ERROR_BYTES: usize = 2_048;
/// Largest payload of a queue that does not say otherwise, in bytes.
pub const DEFAULT_PAYLOAD_BYTES: u32 = 512 * 1024;
/// What NATS must take beyond the payload: headers with attributes, an error and a key.
pub const HEADER_ROOM_BYTES: usize = 64 * 1024;

/// Shortest lease duration.
pub const MIN_LEASE: Duration = Duration::from_secs(2);
/// Longest lease duration.
pub const MAX_LEASE: Duration = Duration::from_secs(12 * 3_600);
/// Lease duration of a queue that does not say otherwise.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(15);
/// How much longer than the lease JetStream waits: after a restart it keeps pending times in whole
/// seconds, and may redeliver up to a second early.
pub const ACK_WAIT_MARGIN: Duration = SECOND;
/// Heartbeats in one lease duration.
pub const HEARTBEATS_PER_LEASE: u32 = 3;
/// Longest run time of an attempt that does not say otherwise.
pub const DEFAULT_RUN_TIME: Duration = Duration::from_secs(3_600);
/// Shortest disconnect grace.
pub const MIN_DISCONNECT_GRACE: Duration = Duration::from_millis(100);

/// Attempts of a job that does not say otherwise.
pub const DEFAULT_ATTEMPTS: u32 = 10;
/// Most attempts.
pub const MAX_ATTEMPTS: u32 = 1_000;
/// First wait between attempts that does not say otherwise.
pub const DEFAULT_BACKOFF_INITIAL: Duration = SECOND;
/// Longest wait between attempts that does not say otherwise.
pub const DEFAULT_BACKOFF_MAX: Duration = Duration::from_secs(600);
/// Largest first wait.
pub const MAX_BACKOFF_INITIAL: Duration = DAY;
/// Largest longest wait.
pub const MAX_BACKOFF_MAX: Duration = Duration::from_secs(30 * 86_400);
/// Longest delay of a start or of a retry, longest run time and retention.
pub const MAX_DELAY: Duration = Duration::from_secs(366 * 86_400);

/// Most outstanding jobs of a queue that does not say otherwise.
pub const DEFAULT_DEPTH: u64 = 10_000_000;
/// Most outstanding jobs that a queue may ask for.
pub const MAX_DEPTH: u64 = 1_000_000_000;
/// How long dead letters are kept by default.
pub const DEFAULT_DEAD_RETENTION: Duration = Duration::from_secs(14 * 86_400);
/// Shortest retention of dead letters.
pub const MIN_DEAD_RETENTION: Duration = Duration::from_secs(60);
/// How long a request id is remembered by default.
pub const DEFAULT_DEDUPE_WINDOW: Duration = Duration::from_secs(120);
/// Longest dedupe window.
pub const MAX_DEDUPE_WINDOW: Duration = DAY;

/// Most items of a batch, and of any list of tokens or settlements.
pub const BATCH_ITEMS: usize = 1_000;
/// Most offers in flight on one submit stream.
pub const STREAM_IN_FLIGHT: usize = 4_096;
/// Most queues of one session.
pub const SESSION_QUEUES: usize = 64;
/// Most leases that one session may ask to hold.
pub const SESSION_CAPACITY: u32 = 100_000;
/// Heaviest weight of a queue within a session.
pub const QUEUE_WEIGHT: u32 = 100;
/// How long a stream may take to say Hello.
pub const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// Longest wait of a unary pull.
pub const MAX_PULL_WAIT: Duration = Duration::from_secs(60);
/// Wait of a unary pull that does not say otherwise.
pub const DEFAULT_PULL_WAIT: Duration = Duration::from_secs(20);
/// Most bytes of jobs in one message to a client, unless a single job is larger: gRPC clients refuse
/// messages of more than 4 MiB unless they are told otherwise.
pub const MESSAGE_BYTES: usize = 3 * 1024 * 1024;
/// Longest lease token, in bytes.
pub const TOKEN_BYTES: usize = 256;
