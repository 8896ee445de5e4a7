from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from keywork.v1 import job_pb2 as _job_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class OnConflict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_CONFLICT_UNSPECIFIED: _ClassVar[OnConflict]
    ON_CONFLICT_REJECT: _ClassVar[OnConflict]
    ON_CONFLICT_RERUN: _ClassVar[OnConflict]
    ON_CONFLICT_REPLACE: _ClassVar[OnConflict]
    ON_CONFLICT_FAIL: _ClassVar[OnConflict]

class SubmitOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SUBMIT_OUTCOME_UNSPECIFIED: _ClassVar[SubmitOutcome]
    SUBMIT_OUTCOME_CREATED: _ClassVar[SubmitOutcome]
    SUBMIT_OUTCOME_DUPLICATE: _ClassVar[SubmitOutcome]
    SUBMIT_OUTCOME_ALREADY_OUTSTANDING: _ClassVar[SubmitOutcome]
    SUBMIT_OUTCOME_RERUN_SCHEDULED: _ClassVar[SubmitOutcome]
    SUBMIT_OUTCOME_REPLACED: _ClassVar[SubmitOutcome]

class LostReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOST_REASON_UNSPECIFIED: _ClassVar[LostReason]
    LOST_REASON_EXPIRED: _ClassVar[LostReason]
    LOST_REASON_CANCELLED: _ClassVar[LostReason]
    LOST_REASON_SUPERSEDED: _ClassVar[LostReason]
    LOST_REASON_INVALID: _ClassVar[LostReason]

class SettlementOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SETTLEMENT_OUTCOME_UNSPECIFIED: _ClassVar[SettlementOutcome]
    SETTLEMENT_OUTCOME_SETTLED: _ClassVar[SettlementOutcome]
    SETTLEMENT_OUTCOME_ALREADY_SETTLED: _ClassVar[SettlementOutcome]
    SETTLEMENT_OUTCOME_LEASE_LOST: _ClassVar[SettlementOutcome]
    SETTLEMENT_OUTCOME_TRY_AGAIN: _ClassVar[SettlementOutcome]
    SETTLEMENT_OUTCOME_INVALID_LEASE: _ClassVar[SettlementOutcome]
    SETTLEMENT_OUTCOME_REJECTED: _ClassVar[SettlementOutcome]

class GoAwayReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GO_AWAY_REASON_UNSPECIFIED: _ClassVar[GoAwayReason]
    GO_AWAY_REASON_DRAINING: _ClassVar[GoAwayReason]
    GO_AWAY_REASON_SUPERSEDED: _ClassVar[GoAwayReason]
    GO_AWAY_REASON_QUEUE_DELETED: _ClassVar[GoAwayReason]
    GO_AWAY_REASON_TERMS_CHANGED: _ClassVar[GoAwayReason]
ON_CONFLICT_UNSPECIFIED: OnConflict
ON_CONFLICT_REJECT: OnConflict
ON_CONFLICT_RERUN: OnConflict
ON_CONFLICT_REPLACE: OnConflict
ON_CONFLICT_FAIL: OnConflict
SUBMIT_OUTCOME_UNSPECIFIED: SubmitOutcome
SUBMIT_OUTCOME_CREATED: SubmitOutcome
SUBMIT_OUTCOME_DUPLICATE: SubmitOutcome
SUBMIT_OUTCOME_ALREADY_OUTSTANDING: SubmitOutcome
SUBMIT_OUTCOME_RERUN_SCHEDULED: SubmitOutcome
SUBMIT_OUTCOME_REPLACED: SubmitOutcome
LOST_REASON_UNSPECIFIED: LostReason
LOST_REASON_EXPIRED: LostReason
LOST_REASON_CANCELLED: LostReason
LOST_REASON_SUPERSEDED: LostReason
LOST_REASON_INVALID: LostReason
SETTLEMENT_OUTCOME_UNSPECIFIED: SettlementOutcome
SETTLEMENT_OUTCOME_SETTLED: SettlementOutcome
SETTLEMENT_OUTCOME_ALREADY_SETTLED: SettlementOutcome
SETTLEMENT_OUTCOME_LEASE_LOST: SettlementOutcome
SETTLEMENT_OUTCOME_TRY_AGAIN: SettlementOutcome
SETTLEMENT_OUTCOME_INVALID_LEASE: SettlementOutcome
SETTLEMENT_OUTCOME_REJECTED: SettlementOutcome
GO_AWAY_REASON_UNSPECIFIED: GoAwayReason
GO_AWAY_REASON_DRAINING: GoAwayReason
GO_AWAY_REASON_SUPERSEDED: GoAwayReason
GO_AWAY_REASON_QUEUE_DELETED: GoAwayReason
GO_AWAY_REASON_TERMS_CHANGED: GoAwayReason

class SubmitRequest(_message.Message):
    __slots__ = ("queue", "key", "payload", "content_type", "attributes", "request_id", "on_conflict", "start_at", "delay", "expires_at", "max_attempts", "backoff")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ON_CONFLICT_FIELD_NUMBER: _ClassVar[int]
    START_AT_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_FIELD_NUMBER: _ClassVar[int]
    queue: str
    key: str
    payload: bytes
    content_type: str
    attributes: _containers.ScalarMap[str, str]
    request_id: str
    on_conflict: OnConflict
    start_at: _timestamp_pb2.Timestamp
    delay: _duration_pb2.Duration
    expires_at: _timestamp_pb2.Timestamp
    max_attempts: int
    backoff: _job_pb2.Backoff
    def __init__(self, queue: _Optional[str] = ..., key: _Optional[str] = ..., payload: _Optional[bytes] = ..., content_type: _Optional[str] = ..., attributes: _Optional[_Mapping[str, str]] = ..., request_id: _Optional[str] = ..., on_conflict: _Optional[_Union[OnConflict, str]] = ..., start_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., delay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., expires_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., max_attempts: _Optional[int] = ..., backoff: _Optional[_Union[_job_pb2.Backoff, _Mapping]] = ...) -> None: ...

class SubmitResponse(_message.Message):
    __slots__ = ("outcome", "job")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    outcome: SubmitOutcome
    job: _job_pb2.Job
    def __init__(self, outcome: _Optional[_Union[SubmitOutcome, str]] = ..., job: _Optional[_Union[_job_pb2.Job, _Mapping]] = ...) -> None: ...

class SubmitBatchRequest(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[SubmitRequest]
    def __init__(self, items: _Optional[_Iterable[_Union[SubmitRequest, _Mapping]]] = ...) -> None: ...

class SubmitResult(_message.Message):
    __slots__ = ("response", "error")
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    response: SubmitResponse
    error: ItemError
    def __init__(self, response: _Optional[_Union[SubmitResponse, _Mapping]] = ..., error: _Optional[_Union[ItemError, _Mapping]] = ...) -> None: ...

class ItemError(_message.Message):
    __slots__ = ("code", "message", "reason", "field", "side_effects_unknown", "retry_after")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    SIDE_EFFECTS_UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    reason: str
    field: str
    side_effects_unknown: bool
    retry_after: _duration_pb2.Duration
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., reason: _Optional[str] = ..., field: _Optional[str] = ..., side_effects_unknown: bool = ..., retry_after: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class SubmitBatchResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SubmitResult]
    def __init__(self, results: _Optional[_Iterable[_Union[SubmitResult, _Mapping]]] = ...) -> None: ...

class SubmitStreamRequest(_message.Message):
    __slots__ = ("offers",)
    OFFERS_FIELD_NUMBER: _ClassVar[int]
    offers: _containers.RepeatedCompositeFieldContainer[SubmitOffer]
    def __init__(self, offers: _Optional[_Iterable[_Union[SubmitOffer, _Mapping]]] = ...) -> None: ...

class SubmitOffer(_message.Message):
    __slots__ = ("correlation_id", "submit")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    SUBMIT_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    submit: SubmitRequest
    def __init__(self, correlation_id: _Optional[int] = ..., submit: _Optional[_Union[SubmitRequest, _Mapping]] = ...) -> None: ...

class SubmitStreamResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SubmitOfferResult]
    def __init__(self, results: _Optional[_Iterable[_Union[SubmitOfferResult, _Mapping]]] = ...) -> None: ...

class SubmitOfferResult(_message.Message):
    __slots__ = ("correlation_id", "result")
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    correlation_id: int
    result: SubmitResult
    def __init__(self, correlation_id: _Optional[int] = ..., result: _Optional[_Union[SubmitResult, _Mapping]] = ...) -> None: ...

class LeaseRequest(_message.Message):
    __slots__ = ("hello", "capacity", "heartbeat", "settlements", "drain")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    SETTLEMENTS_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    capacity: Capacity
    heartbeat: LeaseHeartbeat
    settlements: Settlements
    drain: Drain
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., capacity: _Optional[_Union[Capacity, _Mapping]] = ..., heartbeat: _Optional[_Union[LeaseHeartbeat, _Mapping]] = ..., settlements: _Optional[_Union[Settlements, _Mapping]] = ..., drain: _Optional[_Union[Drain, _Mapping]] = ...) -> None: ...

class LeaseResponse(_message.Message):
    __slots__ = ("welcome", "deliveries", "heartbeat_ack", "settlement_results", "leases_lost", "drain_ack", "go_away")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_ACK_FIELD_NUMBER: _ClassVar[int]
    SETTLEMENT_RESULTS_FIELD_NUMBER: _ClassVar[int]
    LEASES_LOST_FIELD_NUMBER: _ClassVar[int]
    DRAIN_ACK_FIELD_NUMBER: _ClassVar[int]
    GO_AWAY_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    deliveries: Deliveries
    heartbeat_ack: HeartbeatAck
    settlement_results: SettlementResults
    leases_lost: LeasesLost
    drain_ack: DrainAck
    go_away: GoAway
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., deliveries: _Optional[_Union[Deliveries, _Mapping]] = ..., heartbeat_ack: _Optional[_Union[HeartbeatAck, _Mapping]] = ..., settlement_results: _Optional[_Union[SettlementResults, _Mapping]] = ..., leases_lost: _Optional[_Union[LeasesLost, _Mapping]] = ..., drain_ack: _Optional[_Union[DrainAck, _Mapping]] = ..., go_away: _Optional[_Union[GoAway, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("worker_id", "queues", "capacity", "held_leases", "session_ticket", "protocol_version", "sdk_name", "sdk_version")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    HELD_LEASES_FIELD_NUMBER: _ClassVar[int]
    SESSION_TICKET_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    SDK_NAME_FIELD_NUMBER: _ClassVar[int]
    SDK_VERSION_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    queues: _containers.RepeatedCompositeFieldContainer[QueueSubscription]
    capacity: int
    held_leases: _containers.RepeatedScalarFieldContainer[bytes]
    session_ticket: bytes
    protocol_version: int
    sdk_name: str
    sdk_version: str
    def __init__(self, worker_id: _Optional[str] = ..., queues: _Optional[_Iterable[_Union[QueueSubscription, _Mapping]]] = ..., capacity: _Optional[int] = ..., held_leases: _Optional[_Iterable[bytes]] = ..., session_ticket: _Optional[bytes] = ..., protocol_version: _Optional[int] = ..., sdk_name: _Optional[str] = ..., sdk_version: _Optional[str] = ...) -> None: ...

class QueueSubscription(_message.Message):
    __slots__ = ("queue", "weight")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    queue: str
    weight: int
    def __init__(self, queue: _Optional[str] = ..., weight: _Optional[int] = ...) -> None: ...

class Capacity(_message.Message):
    __slots__ = ("capacity",)
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    capacity: int
    def __init__(self, capacity: _Optional[int] = ...) -> None: ...

class LeaseHeartbeat(_message.Message):
    __slots__ = ("sequence", "lease_tokens")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LEASE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    lease_tokens: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, sequence: _Optional[int] = ..., lease_tokens: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Settlements(_message.Message):
    __slots__ = ("settlements",)
    SETTLEMENTS_FIELD_NUMBER: _ClassVar[int]
    settlements: _containers.RepeatedCompositeFieldContainer[Settlement]
    def __init__(self, settlements: _Optional[_Iterable[_Union[Settlement, _Mapping]]] = ...) -> None: ...

class Settlement(_message.Message):
    __slots__ = ("lease_token", "complete", "retry", "release", "fail", "rerun")
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    FAIL_FIELD_NUMBER: _ClassVar[int]
    RERUN_FIELD_NUMBER: _ClassVar[int]
    lease_token: bytes
    complete: Complete
    retry: Retry
    release: Release
    fail: Fail
    rerun: Rerun
    def __init__(self, lease_token: _Optional[bytes] = ..., complete: _Optional[_Union[Complete, _Mapping]] = ..., retry: _Optional[_Union[Retry, _Mapping]] = ..., release: _Optional[_Union[Release, _Mapping]] = ..., fail: _Optional[_Union[Fail, _Mapping]] = ..., rerun: _Optional[_Union[Rerun, _Mapping]] = ...) -> None: ...

class Complete(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: bytes
    def __init__(self, result: _Optional[bytes] = ...) -> None: ...

class Retry(_message.Message):
    __slots__ = ("delay", "error")
    DELAY_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    delay: _duration_pb2.Duration
    error: str
    def __init__(self, delay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., error: _Optional[str] = ...) -> None: ...

class Release(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Fail(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: str
    def __init__(self, error: _Optional[str] = ...) -> None: ...

class Rerun(_message.Message):
    __slots__ = ("payload", "delay")
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    delay: _duration_pb2.Duration
    def __init__(self, payload: _Optional[bytes] = ..., delay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Drain(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("session_id", "worker_id", "queues", "heartbeat_interval", "liveness_timeout", "resumed", "lost", "session_ticket")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    LIVENESS_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    SESSION_TICKET_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    worker_id: str
    queues: _containers.RepeatedCompositeFieldContainer[QueueTerms]
    heartbeat_interval: _duration_pb2.Duration
    liveness_timeout: _duration_pb2.Duration
    resumed: _containers.RepeatedCompositeFieldContainer[ResumedLease]
    lost: _containers.RepeatedCompositeFieldContainer[LostLease]
    session_ticket: bytes
    def __init__(self, session_id: _Optional[str] = ..., worker_id: _Optional[str] = ..., queues: _Optional[_Iterable[_Union[QueueTerms, _Mapping]]] = ..., heartbeat_interval: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., liveness_timeout: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., resumed: _Optional[_Iterable[_Union[ResumedLease, _Mapping]]] = ..., lost: _Optional[_Iterable[_Union[LostLease, _Mapping]]] = ..., session_ticket: _Optional[bytes] = ...) -> None: ...

class QueueTerms(_message.Message):
    __slots__ = ("queue", "lease_duration", "disconnect_grace")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    LEASE_DURATION_FIELD_NUMBER: _ClassVar[int]
    DISCONNECT_GRACE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    lease_duration: _duration_pb2.Duration
    disconnect_grace: _duration_pb2.Duration
    def __init__(self, queue: _Optional[str] = ..., lease_duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., disconnect_grace: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ResumedLease(_message.Message):
    __slots__ = ("lease_token", "time_left")
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TIME_LEFT_FIELD_NUMBER: _ClassVar[int]
    lease_token: bytes
    time_left: _duration_pb2.Duration
    def __init__(self, lease_token: _Optional[bytes] = ..., time_left: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class LostLease(_message.Message):
    __slots__ = ("lease_token", "reason")
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    lease_token: bytes
    reason: LostReason
    def __init__(self, lease_token: _Optional[bytes] = ..., reason: _Optional[_Union[LostReason, str]] = ...) -> None: ...

class Deliveries(_message.Message):
    __slots__ = ("deliveries",)
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    deliveries: _containers.RepeatedCompositeFieldContainer[Delivery]
    def __init__(self, deliveries: _Optional[_Iterable[_Union[Delivery, _Mapping]]] = ...) -> None: ...

class Delivery(_message.Message):
    __slots__ = ("lease_token", "fencing_number", "job", "attempt", "time_left")
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    FENCING_NUMBER_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TIME_LEFT_FIELD_NUMBER: _ClassVar[int]
    lease_token: bytes
    fencing_number: int
    job: _job_pb2.Job
    attempt: int
    time_left: _duration_pb2.Duration
    def __init__(self, lease_token: _Optional[bytes] = ..., fencing_number: _Optional[int] = ..., job: _Optional[_Union[_job_pb2.Job, _Mapping]] = ..., attempt: _Optional[int] = ..., time_left: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class HeartbeatAck(_message.Message):
    __slots__ = ("sequence", "lost", "session_ticket", "unconfirmed")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    SESSION_TICKET_FIELD_NUMBER: _ClassVar[int]
    UNCONFIRMED_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    lost: _containers.RepeatedCompositeFieldContainer[LostLease]
    session_ticket: bytes
    unconfirmed: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, sequence: _Optional[int] = ..., lost: _Optional[_Iterable[_Union[LostLease, _Mapping]]] = ..., session_ticket: _Optional[bytes] = ..., unconfirmed: _Optional[_Iterable[bytes]] = ...) -> None: ...

class SettlementResults(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SettlementResult]
    def __init__(self, results: _Optional[_Iterable[_Union[SettlementResult, _Mapping]]] = ...) -> None: ...

class SettlementResult(_message.Message):
    __slots__ = ("lease_token", "outcome", "error")
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    lease_token: bytes
    outcome: SettlementOutcome
    error: ItemError
    def __init__(self, lease_token: _Optional[bytes] = ..., outcome: _Optional[_Union[SettlementOutcome, str]] = ..., error: _Optional[_Union[ItemError, _Mapping]] = ...) -> None: ...

class LeasesLost(_message.Message):
    __slots__ = ("leases",)
    LEASES_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[LostLease]
    def __init__(self, leases: _Optional[_Iterable[_Union[LostLease, _Mapping]]] = ...) -> None: ...

class DrainAck(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GoAway(_message.Message):
    __slots__ = ("reason", "grace", "reconnect_delay")
    REASON_FIELD_NUMBER: _ClassVar[int]
    GRACE_FIELD_NUMBER: _ClassVar[int]
    RECONNECT_DELAY_FIELD_NUMBER: _ClassVar[int]
    reason: GoAwayReason
    grace: _duration_pb2.Duration
    reconnect_delay: _duration_pb2.Duration
    def __init__(self, reason: _Optional[_Union[GoAwayReason, str]] = ..., grace: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., reconnect_delay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class PullRequest(_message.Message):
    __slots__ = ("queue", "max_jobs", "wait", "worker_id")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    MAX_JOBS_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    queue: str
    max_jobs: int
    wait: _duration_pb2.Duration
    worker_id: str
    def __init__(self, queue: _Optional[str] = ..., max_jobs: _Optional[int] = ..., wait: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., worker_id: _Optional[str] = ...) -> None: ...

class PullResponse(_message.Message):
    __slots__ = ("deliveries",)
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    deliveries: _containers.RepeatedCompositeFieldContainer[Delivery]
    def __init__(self, deliveries: _Optional[_Iterable[_Union[Delivery, _Mapping]]] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("lease_tokens",)
    LEASE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    lease_tokens: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, lease_tokens: _Optional[_Iterable[bytes]] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[HeartbeatResult]
    def __init__(self, results: _Optional[_Iterable[_Union[HeartbeatResult, _Mapping]]] = ...) -> None: ...

class HeartbeatResult(_message.Message):
    __slots__ = ("lease_token", "time_left", "lost", "try_again")
    LEASE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TIME_LEFT_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    TRY_AGAIN_FIELD_NUMBER: _ClassVar[int]
    lease_token: bytes
    time_left: _duration_pb2.Duration
    lost: LostReason
    try_again: bool
    def __init__(self, lease_token: _Optional[bytes] = ..., time_left: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., lost: _Optional[_Union[LostReason, str]] = ..., try_again: bool = ...) -> None: ...

class AckRequest(_message.Message):
    __slots__ = ("settlements",)
    SETTLEMENTS_FIELD_NUMBER: _ClassVar[int]
    settlements: _containers.RepeatedCompositeFieldContainer[Settlement]
    def __init__(self, settlements: _Optional[_Iterable[_Union[Settlement, _Mapping]]] = ...) -> None: ...

class AckResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SettlementResult]
    def __init__(self, results: _Optional[_Iterable[_Union[SettlementResult, _Mapping]]] = ...) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("queue", "key")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    queue: str
    key: str
    def __init__(self, queue: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class GetJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: _job_pb2.Job
    def __init__(self, job: _Optional[_Union[_job_pb2.Job, _Mapping]] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("queue", "key_prefix", "page_size", "page_token")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    KEY_PREFIX_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    queue: str
    key_prefix: str
    page_size: int
    page_token: str
    def __init__(self, queue: _Optional[str] = ..., key_prefix: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListJobsResponse(_message.Message):
    __slots__ = ("jobs", "next_page_token")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[_job_pb2.Job]
    next_page_token: str
    def __init__(self, jobs: _Optional[_Iterable[_Union[_job_pb2.Job, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CancelJobRequest(_message.Message):
    __slots__ = ("queue", "key", "job_id")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    queue: str
    key: str
    job_id: str
    def __init__(self, queue: _Optional[str] = ..., key: _Optional[str] = ..., job_id: _Optional[str] = ...) -> None: ...

class CancelJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: _job_pb2.Job
    def __init__(self, job: _Optional[_Union[_job_pb2.Job, _Mapping]] = ...) -> None: ...

class WatchJobsRequest(_message.Message):
    __slots__ = ("queue", "key")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    queue: str
    key: str
    def __init__(self, queue: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class WatchJobsResponse(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[_job_pb2.Job]
    def __init__(self, jobs: _Optional[_Iterable[_Union[_job_pb2.Job, _Mapping]]] = ...) -> None: ...

class ListDeadJobsRequest(_message.Message):
    __slots__ = ("queue", "page_size", "page_token", "key")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    queue: str
    page_size: int
    page_token: str
    key: str
    def __init__(self, queue: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class ListDeadJobsResponse(_message.Message):
    __slots__ = ("jobs", "next_page_token")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[_job_pb2.DeadJob]
    next_page_token: str
    def __init__(self, jobs: _Optional[_Iterable[_Union[_job_pb2.DeadJob, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RedriveDeadJobsRequest(_message.Message):
    __slots__ = ("queue", "dead_ids", "max_jobs")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    DEAD_IDS_FIELD_NUMBER: _ClassVar[int]
    MAX_JOBS_FIELD_NUMBER: _ClassVar[int]
    queue: str
    dead_ids: _containers.RepeatedScalarFieldContainer[int]
    max_jobs: int
    def __init__(self, queue: _Optional[str] = ..., dead_ids: _Optional[_Iterable[int]] = ..., max_jobs: _Optional[int] = ...) -> None: ...

class RedriveDeadJobsResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[RedriveResult]
    def __init__(self, results: _Optional[_Iterable[_Union[RedriveResult, _Mapping]]] = ...) -> None: ...

class RedriveResult(_message.Message):
    __slots__ = ("dead_id", "result")
    DEAD_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    dead_id: int
    result: SubmitResult
    def __init__(self, dead_id: _Optional[int] = ..., result: _Optional[_Union[SubmitResult, _Mapping]] = ...) -> None: ...

class DeleteDeadJobsRequest(_message.Message):
    __slots__ = ("queue", "dead_ids", "all")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    DEAD_IDS_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    queue: str
    dead_ids: _containers.RepeatedScalarFieldContainer[int]
    all: bool
    def __init__(self, queue: _Optional[str] = ..., dead_ids: _Optional[_Iterable[int]] = ..., all: bool = ...) -> None: ...

class DeleteDeadJobsResponse(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: int
    def __init__(self, deleted: _Optional[int] = ...) -> None: ...
