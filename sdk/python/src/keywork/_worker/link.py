"""The stream to a server: waiting to connect, opening, open.

This module owns the connection and its silence; it neither reads nor makes what goes over it.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from keywork._stream import Stream
from keywork.v1 import work_queue_pb2 as pb

if TYPE_CHECKING:
    from queue import SimpleQueue

    import grpc

    from keywork._connection import Options

#: How long a server may take from the first packet to its Welcome.
WELCOME_WITHIN = 10.0
#: How long the server may take to end a stream that we have ended.
CLOSE_WITHIN = 0.5


class Link:
    """One connection after the other."""

    def __init__(self, options: Options, inbox: SimpleQueue[Any], now: float) -> None:
        self._options = options
        self._inbox = inbox
        #: Which server: grows with every try. Workers of one fleet start at different ones.
        self._number = random.randrange(len(options.endpoints))
        self._channel: grpc.Channel | None = None
        self._stream: Stream | None = None
        self._closed = False
        #: While there is no stream: when to connect. While there is one: when the silence becomes its end.
        self._at = now

    @property
    def endpoint(self) -> str:
        """The URI of the server in turn."""
        return self._options.endpoints[self._number % len(self._options.endpoints)].uri

    def wake(self) -> float | None:
        """When the driver has to look at the link, whatever happens on it."""
        return None if self._closed else self._at

    def is_due_to_connect(self, now: float) -> bool:
        """It is time for another try."""
        return not self._closed and self._stream is None and self._at <= now

    def is_too_silent(self, now: float) -> bool:
        """The server has said nothing for too long."""
        return self._stream is not None and self._at <= now

    def is_opening(self) -> bool:
        """A session has been asked for, and may hold leases that have not arrived here."""
        return self._stream is not None

    def is_current(self, stream: Stream) -> bool:
        """An event of this stream is not one of an earlier one."""
        return self._stream is stream

    def open(self, hello: pb.LeaseRequest, now: float) -> None:
        """Connects to the server in turn, over a connection of its own; `hello` is the first message."""
        self._at = now + WELCOME_WITHIN
        self._channel = self._options.connect(self._number)
        method = self._channel.stream_stream(
            "/keywork.v1.WorkQueue/Lease",
            request_serializer=pb.LeaseRequest.SerializeToString,
            response_deserializer=pb.LeaseResponse.FromString,
        )
        self._stream = Stream(method, self._options.metadata, self._inbox, hello)

    def heard(self, now: float, liveness: float) -> None:
        """The server was heard; it may be silent for this long from now on."""
        self._at = now + liveness

    def hurry(self, until: float) -> None:
        """Waits for the server no longer than until then."""
        self._at = min(self._at, until)

    def send(self, message: pb.LeaseRequest) -> None:
        """Sends a message; what must not pile up asks `has_room` first."""
        if self._stream is not None:
            self._stream.send(message)

    def has_room(self) -> bool:
        """HTTP/2 keeps up."""
        return self._stream is not None and self._stream.has_room()

    def want_room(self) -> None:
        """Asks to be told when there is some."""
        if self._stream is not None:
            self._stream.want_room()

    def down(self, until: float) -> None:
        """Drops the connection; the next server's turn comes at `until`."""
        self._drop()
        self._number += 1
        self._at = until

    def close(self) -> None:
        """Ends our half of the stream, waits a moment for the server's, and never connects again."""
        if self._stream is not None:
            self._stream.end()
            self._stream.ended.wait(CLOSE_WITHIN)
        self.close_now()

    def close_now(self) -> None:
        """Drops the connection and never connects again."""
        self._closed = True
        self._drop()

    def _drop(self) -> None:
        channel, self._channel, self._stream = self._channel, None, None
        if channel is not None:
            channel.close()
