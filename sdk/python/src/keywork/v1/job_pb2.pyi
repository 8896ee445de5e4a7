from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_STATE_UNSPECIFIED: _ClassVar[JobState]
    JOB_STATE_SCHEDULED: _ClassVar[JobState]
    JOB_STATE_QUEUED: _ClassVar[JobState]
    JOB_STATE_LEASED: _ClassVar[JobState]
    JOB_STATE_RETRYING: _ClassVar[JobState]
    JOB_STATE_DEAD: _ClassVar[JobState]
    JOB_STATE_ENDED: _ClassVar[JobState]

class DeadReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEAD_REASON_UNSPECIFIED: _ClassVar[DeadReason]
    DEAD_REASON_ATTEMPTS_EXHAUSTED: _ClassVar[DeadReason]
    DEAD_REASON_LEASE_EXPIRED: _ClassVar[DeadReason]
    DEAD_REASON_FAILED: _ClassVar[DeadReason]
    DEAD_REASON_EXPIRED: _ClassVar[DeadReason]
    DEAD_REASON_UNREADABLE: _ClassVar[DeadReason]
JOB_STATE_UNSPECIFIED: JobState
JOB_STATE_SCHEDULED: JobState
JOB_STATE_QUEUED: JobState
JOB_STATE_LEASED: JobState
JOB_STATE_RETRYING: JobState
JOB_STATE_DEAD: JobState
JOB_STATE_ENDED: JobState
DEAD_REASON_UNSPECIFIED: DeadReason
DEAD_REASON_ATTEMPTS_EXHAUSTED: DeadReason
DEAD_REASON_LEASE_EXPIRED: DeadReason
DEAD_REASON_FAILED: DeadReason
DEAD_REASON_EXPIRED: DeadReason
DEAD_REASON_UNREADABLE: DeadReason

class Backoff(_message.Message):
    __slots__ = ("initial", "max")
    INITIAL_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    initial: _duration_pb2.Duration
    max: _duration_pb2.Duration
    def __init__(self, initial: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., max: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("id", "queue", "key", "payload", "content_type", "attributes", "state", "attempt", "max_attempts", "submitted_at", "start_at", "expires_at", "last_error", "holder", "lease_deadline", "fencing_number", "age")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_AT_FIELD_NUMBER: _ClassVar[int]
    START_AT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    LEASE_DEADLINE_FIELD_NUMBER: _ClassVar[int]
    FENCING_NUMBER_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    id: str
    queue: str
    key: str
    payload: bytes
    content_type: str
    attributes: _containers.ScalarMap[str, str]
    state: JobState
    attempt: int
    max_attempts: int
    submitted_at: _timestamp_pb2.Timestamp
    start_at: _timestamp_pb2.Timestamp
    expires_at: _timestamp_pb2.Timestamp
    last_error: str
    holder: str
    lease_deadline: _timestamp_pb2.Timestamp
    fencing_number: int
    age: _duration_pb2.Duration
    def __init__(self, id: _Optional[str] = ..., queue: _Optional[str] = ..., key: _Optional[str] = ..., payload: _Optional[bytes] = ..., content_type: _Optional[str] = ..., attributes: _Optional[_Mapping[str, str]] = ..., state: _Optional[_Union[JobState, str]] = ..., attempt: _Optional[int] = ..., max_attempts: _Optional[int] = ..., submitted_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., start_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., expires_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., last_error: _Optional[str] = ..., holder: _Optional[str] = ..., lease_deadline: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., fencing_number: _Optional[int] = ..., age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class DeadJob(_message.Message):
    __slots__ = ("dead_id", "job", "reason", "died_at")
    DEAD_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DIED_AT_FIELD_NUMBER: _ClassVar[int]
    dead_id: int
    job: Job
    reason: DeadReason
    died_at: _timestamp_pb2.Timestamp
    def __init__(self, dead_id: _Optional[int] = ..., job: _Optional[_Union[Job, _Mapping]] = ..., reason: _Optional[_Union[DeadReason, str]] = ..., died_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
