"""The stable names of what went wrong, as `CallError.reason` gives them.

A server may know more than these: treat one that is not here by its `CallError.code`.
"""

from typing import Final

#: A field of the request is malformed or breaks a limit; see `CallError.violations`.
INVALID_FIELD: Final = "INVALID_FIELD"
#: There is no queue of that name.
QUEUE_NOT_FOUND: Final = "QUEUE_NOT_FOUND"
#: The key has no outstanding job.
JOB_NOT_FOUND: Final = "JOB_NOT_FOUND"
#: There is no such dead letter.
DEAD_JOB_NOT_FOUND: Final = "DEAD_JOB_NOT_FOUND"
#: The key has an outstanding job, and the submit asked for an error in that case.
KEY_BUSY: Final = "KEY_BUSY"
#: There is a queue of that name with another configuration.
QUEUE_EXISTS: Final = "QUEUE_EXISTS"
#: The queue still holds jobs or dead letters.
QUEUE_NOT_EMPTY: Final = "QUEUE_NOT_EMPTY"
#: The queue's stream or consumer was changed in NATS so that a promise would break.
QUEUE_DRIFTED: Final = "QUEUE_DRIFTED"
#: The queue is at its limit of outstanding jobs.
QUEUE_FULL: Final = "QUEUE_FULL"
#: NATS has no room.
STORAGE_FULL: Final = "STORAGE_FULL"
#: NATS is away; nothing was sent to it.
NATS_UNAVAILABLE: Final = "NATS_UNAVAILABLE"
#: NATS did not answer; what was sent to it may have been stored.
NATS_NO_ANSWER: Final = "NATS_NO_ANSWER"
#: NATS refused for a reason that the server does not know.
NATS_REFUSED: Final = "NATS_REFUSED"
#: The server is stopping.
SERVER_DRAINING: Final = "SERVER_DRAINING"
#: The contract has it, the server does not yet.
NOT_SERVED_YET: Final = "NOT_SERVED_YET"
#: The stream did not begin with Hello.
HELLO_MISSING: Final = "HELLO_MISSING"
#: No Hello came in time, or the stream broke before it.
HELLO_LATE: Final = "HELLO_LATE"
#: The worker was silent for the liveness timeout.
SESSION_SILENT: Final = "SESSION_SILENT"
#: The worker did not read what it was sent.
SESSION_NOT_READING: Final = "SESSION_NOT_READING"
#: A newer session has the worker's id.
SESSION_SUPERSEDED: Final = "SESSION_SUPERSEDED"
#: The session was asked to reconnect, and its grace is over.
SESSION_SENT_AWAY: Final = "SESSION_SENT_AWAY"
