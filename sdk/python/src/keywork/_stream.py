"""A bidirectional stream that is read by a thread of its own; what happens on it goes into its owner's inbox."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import grpc

from keywork import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keywork._connection import Metadata

#: So many messages may wait for HTTP/2 to take them; what would be more is kept back and sent together.
ROOM = 3


class Message:
    """The server said something."""

    __slots__ = ("message", "stream")

    def __init__(self, stream: Stream, message: Any) -> None:
        self.stream = stream
        self.message = message


class Room:
    """There is room for another message."""

    __slots__ = ("stream",)

    def __init__(self, stream: Stream) -> None:
        self.stream = stream


class Ended:
    """The stream ended; with None as the error: with the status OK."""

    __slots__ = ("error", "stream")

    def __init__(self, stream: Stream, error: errors.CallError | None) -> None:
        self.stream = stream
        self.error = error


class Stream:
    """One stream, from its opening to its end."""

    def __init__(
        self, method: Any, metadata: Metadata, inbox: SimpleQueue[Any], first: Any = None, server: str = ""
    ) -> None:
        self._inbox = inbox
        #: Its URI, where errors are to name it.
        self._server = server
        self._outbound: SimpleQueue[Any] = SimpleQueue()
        self._room_wanted = False
        self.ended = threading.Event()
        if first is not None:
            self._outbound.put(first)
        self._call: Any = method(self._messages(), metadata=metadata)
        threading.Thread(target=self._read, name="keywork-reader", daemon=True).start()

    def send(self, message: Any) -> None:
        """Sends a message, after those before it."""
        self._outbound.put(message)

    def has_room(self) -> bool:
        """HTTP/2 keeps up."""
        return self._outbound.qsize() < ROOM

    def want_room(self) -> None:
        """Asks for `Room`, once, as soon as there is some."""
        self._room_wanted = True
        if self.has_room():
            self._say_room()

    def end(self) -> None:
        """Ends our half."""
        self._outbound.put(None)

    def cancel(self) -> None:
        """Drops the stream."""
        self._call.cancel()

    def _messages(self) -> Iterator[Any]:
        """What gRPC sends, taken one by one as it can."""
        while (message := self._outbound.get()) is not None:
            if self._room_wanted and self.has_room():
                self._say_room()
            yield message

    def _say_room(self) -> None:
        self._room_wanted = False
        self._inbox.put(Room(self))

    def _read(self) -> None:
        error: errors.CallError | None = None
        try:
            for message in self._call:
                self._inbox.put(Message(self, message))
        except grpc.RpcError as ended:
            error = errors.of_rpc(ended, self._server)
        finally:
            # Whoever waits to send has waited long enough.
            self._outbound.put(None)
            self.ended.set()
            self._inbox.put(Ended(self, error))
