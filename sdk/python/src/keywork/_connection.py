"""How a client reaches servers: lazily, one channel each, all settings of HTTP/2 in one place.

Everything goes over gRPC's thread-safe channels, also for the async client: they belong to no event loop, so a
client may be made anywhere, and neither loop nor worker disturbs the other.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

import grpc

from keywork import _options
from keywork._log import Outage, log

if TYPE_CHECKING:
    from keywork._wire import Seconds
    from keywork.errors import CallError

Metadata: TypeAlias = tuple[tuple[str, str | bytes], ...]

DEFAULT_ENDPOINT = "http://127.0.0.1:50051"
#: Names the servers of a client that is given none, with commas between them.
ENDPOINTS_VARIABLE = "KEYWORK_SERVER"
#: Largest message taken: a delivery of a thousand jobs with payloads is large.
MESSAGE_BYTES = 256 << 20
#: After so many outages in a row a channel is replaced by a fresh one, but no sooner than this after the last one.
OUTAGES_UNTIL_FRESH = 3
FRESH_EVERY = 1.0
#: How long a channel that was replaced is kept, in seconds, for the calls that still go over it.
STALE_FOR = 75.0

CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # Without these two a frozen server is never noticed: pings would stop, and their answers not be waited for.
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.ping_timeout_ms", 5_000),
    # A channel that is made anew connects anew, and does not wait out the backoff of the one before it.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # How long a connection may take.
    ("grpc.min_reconnect_backoff_ms", 5_000),
    # What may be repeated is decided here.
    ("grpc.enable_retries", 0),
    ("grpc.http2.lookahead_bytes", 4 << 20),
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
)


def endpoints_from_environment() -> list[Endpoint]:
    """The servers that `ENDPOINTS_VARIABLE` names, or the one where ``keywork serve`` listens by itself."""
    named = [endpoint.strip() for endpoint in os.environ.get(ENDPOINTS_VARIABLE, "").split(",")]
    try:
        return [Endpoint.parse(endpoint) for endpoint in named if endpoint] or [Endpoint.parse(DEFAULT_ENDPOINT)]
    except ValueError as error:
        raise ValueError(f"{ENDPOINTS_VARIABLE}: {error}") from None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One server."""

    #: As the caller wrote it.
    uri: str
    #: As gRPC wants it.
    target: str
    secure: bool

    @classmethod
    def parse(cls, uri: str) -> Endpoint:
        """Reads a URI such as ``http://127.0.0.1:50051``."""
        wanted = "it must be http://HOST:PORT or https://HOST:PORT"
        if not isinstance(uri, str):
            raise TypeError(f"failed to read the endpoint {uri!r}: {wanted}")
        if "@" in uri:  # What may be a password is not told on.
            raise ValueError(f"failed to read an endpoint: {wanted}, without a name or a password")
        try:
            parts = urlsplit(uri)
            port = parts.port
        except ValueError as error:
            raise ValueError(f"failed to read the endpoint {uri!r}: {wanted}: {error}") from None
        more = parts.path.strip("/") or parts.query or parts.fragment
        if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or more or " " in uri:
            raise ValueError(f"failed to read the endpoint {uri!r}: {wanted}")
        port = port or (443 if parts.scheme == "https" else 80)
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return cls(uri, f"{host}:{port}", parts.scheme == "https")


@dataclass(frozen=True, slots=True)
class Options:
    """What a client is told: the servers, the headers of every call, and its patience."""

    endpoints: tuple[Endpoint, ...]
    metadata: Metadata
    submit_deadline: float
    call_timeout: float
    credentials: grpc.ChannelCredentials | None

    @classmethod
    def read(
        cls,
        endpoints: Sequence[str],
        metadata: Mapping[str, str | bytes] | Sequence[tuple[str, str | bytes]],
        submit_deadline: Seconds,
        call_timeout: Seconds,
        credentials: grpc.ChannelCredentials | None,
    ) -> Options:
        """Checks a caller's options."""
        servers = tuple(map(Endpoint.parse, endpoints) if endpoints else endpoints_from_environment())
        if credentials is not None and not any(server.secure for server in servers):
            named = ", ".join(server.uri for server in servers)
            raise ValueError(f"credentials are for https:// endpoints, and there is none: {named}")
        return cls(
            endpoints=servers,
            metadata=_options.metadata(metadata),
            submit_deadline=_options.positive("submit_deadline", submit_deadline),
            call_timeout=_options.positive("call_timeout", call_timeout),
            credentials=credentials,
        )

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """What an ``https://`` endpoint is reached with; by default the roots that gRPC knows."""
        return self.credentials or grpc.ssl_channel_credentials()

    def connect(self, number: int) -> grpc.Channel:
        """A channel, which nobody else uses, to the server of this number, counted round."""
        endpoint = self.endpoints[number % len(self.endpoints)]
        if endpoint.secure:
            return grpc.secure_channel(endpoint.target, self.channel_credentials(), options=CHANNEL_OPTIONS)
        return grpc.insecure_channel(endpoint.target, options=CHANNEL_OPTIONS)

    def connect_aio(self, number: int) -> grpc.aio.Channel:
        """As `connect`, for the running event loop."""
        endpoint = self.endpoints[number % len(self.endpoints)]
        if endpoint.secure:
            return grpc.aio.secure_channel(endpoint.target, self.channel_credentials(), options=CHANNEL_OPTIONS)
        return grpc.aio.insecure_channel(endpoint.target, options=CHANNEL_OPTIONS)


class ClosedError(RuntimeError):
    """The client was closed before."""


class Channels:
    """One lazily made channel for each server, and which of them is in use.

    Made for each process anew: gRPC's channels do not survive a fork.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._made: dict[int, grpc.Channel] = {}
        self._methods: dict[tuple[int, str], Any] = {}
        self._outages = 0
        self._outage = Outage()
        self._fresh_at = time.monotonic()
        #: Channels that were replaced, and when.
        self._stale: deque[tuple[float, grpc.Channel]] = deque()
        self._closed = False
        #: The server in use: a number that grows, counted round.
        self.place = 0

    def method(self, path: str, shape: str, request: Any, response: Any) -> Any:
        """What calls a method of the server in use. `shape` names gRPC's function, such as ``unary_unary``."""
        with self._lock:
            if self._closed:
                raise ClosedError("the client is closed")
            number = self.place % len(self.options.endpoints)
            self._after_fork()
            found = self._methods.get((number, path))
            if found is None:
                make = getattr(self._channel(number), shape)
                found = make(
                    path,
                    request_serializer=request.SerializeToString,
                    response_deserializer=response.FromString,
                )
                self._methods[number, path] = found
            return found

    def _after_fork(self) -> None:
        if self._process != os.getpid():
            # What is left of the parent's channels is not ours to close.
            self._process = os.getpid()
            self._made, self._methods = {}, {}
            self._stale.clear()

    def _channel(self, number: int) -> grpc.Channel:
        channel = self._made.get(number)
        if channel is None:
            channel = self._made[number] = self.options.connect(number)
        return channel

    def uri(self, place: int) -> str:
        """The URI of the server of that place."""
        return self.options.endpoints[place % len(self.options.endpoints)].uri

    def worked(self) -> None:
        """A call was answered."""
        self._outages = 0

    def turn_away(self, place: int) -> None:
        """Turns to the next server, unless another call has turned away from this one already."""
        now = time.monotonic()
        with self._lock:
            if place != self.place:
                return
            self._outages += 1
            many = self._outages >= OUTAGES_UNTIL_FRESH * len(self.options.endpoints)
            if many and now - self._fresh_at >= FRESH_EVERY:
                self._replace(place % len(self.options.endpoints), now)
            self.place += 1
            old = [self._stale.popleft()[1] for since, _ in list(self._stale) if now - since > STALE_FOR]
        for channel in old:
            channel.close()

    def warn_of_outage(self, place: int, error: CallError) -> None:
        """Warns now and then that submits are tried again: they may be for as long as their deadline."""
        with self._lock:
            if not self._outage.is_to_be_warned_of(time.monotonic()):
                return
        endpoint = self.uri(place)
        # A log that is broken is no reason to give up.
        with contextlib.suppress(Exception):
            text = "submitting to %s failed, trying again for up to %g s: %s"
            log.warning(text, endpoint, self.options.submit_deadline, str(error).removeprefix(f"{endpoint}: "))

    def _replace(self, number: int, now: float) -> None:
        """Forgets a channel; the next call makes another."""
        self._outages, self._fresh_at = 0, now
        self._methods = {key: made for key, made in self._methods.items() if key[0] != number}
        channel = self._made.pop(number, None)
        if channel is not None:
            self._stale.append((now, channel))

    def close(self) -> None:
        """Closes every channel; calls that are under way end."""
        with self._lock:
            self._closed = True
            channels = [*self._made.values(), *(channel for _, channel in self._stale)]
            self._made, self._methods = {}, {}
            self._stale.clear()
            ours = self._process == os.getpid()
        if ours:
            for channel in channels:
                channel.close()
