"""What the async and the sync client have in common: their options, and one try of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from keywork import _options, errors
from keywork._connection import Channels, Options
from keywork.submit import Offer, Submit
from keywork.tracing import Tracing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from keywork._calls import Call
    from keywork._connection import Metadata
    from keywork._wire import Seconds

T = TypeVar("T")


class Core:
    """A client's options and channels."""

    def __init__(
        self,
        *endpoints: str,
        metadata: Mapping[str, str | bytes] | Sequence[tuple[str, str | bytes]] = (),
        submit_deadline: Seconds = 30.0,
        call_timeout: Seconds = 10.0,
        credentials: grpc.ChannelCredentials | None = None,
        tracing: Tracing | None = None,
        interceptors: Sequence[Any] = (),
    ) -> None:
        """Makes a client; nothing is connected yet.

        Args:
            endpoints: Servers, such as ``http://127.0.0.1:50051``; ``https://`` for TLS. With several, an outage of
                one turns to the next. Default: those that the environment variable ``KEYWORK_SERVER`` names, with
                commas between them; without it ``http://127.0.0.1:50051``.
            metadata: Headers of every call, such as ``authorization``; those whose names end in ``-bin`` are bytes.
            submit_deadline: How long a submit is tried, with the same ``request_id``, while servers are away.
            call_timeout: How long one try of a call may take before it counts as unanswered.
            credentials: For ``https://``: certificates of your own. Default: the roots that gRPC brings along.
            tracing: Carries a trace from a submit to the handler of its job.
            interceptors: Wrap every `submit`; the first one is the outermost.
        """
        options = Options.read(endpoints, metadata, submit_deadline, call_timeout, credentials)
        self._channels = Channels(options)
        if tracing is not None and (isinstance(tracing, type) or not isinstance(tracing, Tracing)):
            raise TypeError(f"tracing must have submitting and handling, as OpenTelemetry() has, and is {tracing!r}")
        self._tracing = tracing
        self._interceptors = _options.functions("interceptors", interceptors, ("submit", "following"))

    @property
    def metadata(self) -> Metadata:
        """The headers of every call."""
        return self._channels.options.metadata

    def _offer(self, submit: Submit) -> Offer:
        """A submit, ready to be sent."""
        offer = Offer(submit)
        if self._tracing is not None:
            self._tracing.submitting(submit, offer.request.attributes)
        return offer

    def _offer_of_many(self, submit: Submit) -> Offer | errors.CallError:
        """One submit of many: a bad one, which cannot even be written, spoils no other."""
        try:
            return self._offer(submit)
        except errors.CallError as error:
            return error

    def _begin(self, call: Call[T], limit: float | None = None) -> tuple[int, Any]:
        """Starts one try: the server's place, and gRPC's future."""
        options = self._channels.options
        place = self._channels.place
        method = self._channels.method(call.path, "unary_unary", type(call.request), call.response)
        timeout = options.call_timeout + call.extra_time
        if limit is not None:
            timeout = min(timeout, max(0.001, limit))
        return place, method.future(call.request, timeout=timeout, metadata=options.metadata)

    def _finish(self, call: Call[T], place: int, future: Any) -> T:
        """Reads what a try brought."""
        try:
            answer = future.result()
        except grpc.FutureCancelledError:
            raise errors.make(errors.StatusCode.CANCELLED, "the call was cancelled") from None
        except grpc.RpcError as failed:
            error = errors.of_rpc(failed, self._channels.uri(place))
        else:
            self._channels.worked()
            return call.read(answer)
        # A call that is repeated turns away by itself.
        if error._is_outage() and not call.repeat:
            self._channels.turn_away(place)
        if call.on_error is not None:
            return call.on_error(error)
        raise error

    def __repr__(self) -> str:
        servers = ", ".join(endpoint.uri for endpoint in self._channels.options.endpoints)
        return f"<{type(self).__module__}.{type(self).__name__} {servers}>"
