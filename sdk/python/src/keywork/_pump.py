"""Offering many jobs on one stream: pipelined, bounded in flight, and mended when it breaks.

One thread keeps the offers that are unanswered, and sends them again, with the same ``request_id``s, after the stream
broke. Callers keep to the window: they offer no more than that before they have taken the answers.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

from keywork import _stream, errors
from keywork._calls import WORK_QUEUE
from keywork._connection import ClosedError
from keywork._patience import Patience, pause_within
from keywork._stream import Stream
from keywork.job import Submitted, read_result
from keywork.v1 import work_queue_pb2 as pb

if TYPE_CHECKING:
    from keywork._connection import Channels
    from keywork.submit import Offer

#: The most offers that are unanswered at a time; servers stop reading at 4,096.
WINDOW = 4_000
#: What one message holds at most.
MESSAGE_OFFERS = 256
MESSAGE_BYTES = 1 << 20
#: The least wait before an offer is made again after its own error.
ITEM_PAUSE = 0.1

Result: TypeAlias = Submitted | errors.CallError
#: One answer: the offer's place in the order of the offers, and how it ended.
Answer: TypeAlias = tuple[int, Result]


class _Flying:
    """An offer that is unanswered."""

    __slots__ = ("doubt", "offer", "since")

    def __init__(self, offer: Offer, now: float) -> None:
        self.offer = offer
        self.since = now
        self.doubt = False


class _End:
    """There will be no more offers."""


class _Close:
    """Nobody listens any more."""


class Pump:
    """The stream's state, which outlives any one connection."""

    def __init__(self, channels: Channels, answer: Callable[[list[Answer]], None]) -> None:
        self._channels = channels
        self._answer = answer
        self._inbox: SimpleQueue[Any] = SimpleQueue()
        self._flying: dict[int, _Flying] = {}
        #: Those of them that are to be sent now, and those that wait for their time: a heap.
        self._due: deque[int] = deque()
        self._later: list[tuple[float, int]] = []
        self._next = 0
        self._exhausted = False
        self._closed = False
        self._refused: errors.CallError | None = None
        self._heard = 0.0
        self._stream: Stream | None = None
        #: The server that it goes to.
        self._place = channels.place

    def start(self) -> None:
        """Starts its thread, which ends when all is answered, or when it is closed."""
        threading.Thread(target=self._run, name="keywork-submit", daemon=True).start()

    def offer(self, offer: Offer | errors.CallError) -> None:
        """Offers one more; the caller keeps to the window."""
        self._inbox.put(offer)

    def end(self) -> None:
        """There will be no more offers."""
        self._inbox.put(_End())

    def close(self) -> None:
        """Nobody listens any more."""
        self._inbox.put(_Close())

    def _run(self) -> None:
        try:
            self._work()
        except ClosedError as error:
            self._give_up(errors.make(errors.StatusCode.CANCELLED, str(error)))
        except Exception as error:  # noqa: BLE001 - whoever waits for answers must not wait for ever.
            self._give_up(errors.make(errors.StatusCode.INTERNAL, f"the submitting thread broke: {error!r}"))
        while not self._is_done():
            # What is offered from now on is answered with the same error.
            self._take(None)

    def _work(self) -> None:
        patience = Patience(self._channels, self._deadline())
        while not self._is_done():
            if self._flying:
                self._connected(patience)
            else:
                self._take(None)

    def _connected(self, patience: Patience) -> None:
        """One connection, and the wait after it broke."""
        error = self._connection(patience)
        if error is None or not self._flying:
            return
        # The patience that counts is that with the oldest offer: nothing was lost while there was none.
        oldest = next(iter(self._flying.values())).since
        patience.deadline = max(patience.deadline, oldest + self._channels.options.submit_deadline)
        for flying in self._flying.values():
            flying.doubt = flying.doubt or not error.has_no_side_effects()
        try:
            pause = patience.after(error)
        except errors.CallError as last:
            self._give_up(last)
            return
        until = time.monotonic() + pause
        while (left := until - time.monotonic()) > 0 and not self._closed:
            self._take(left)
        self._later.clear()
        self._due = deque(self._flying)

    def _connection(self, patience: Patience) -> errors.CallError | None:
        """Sends and reads until all is answered (None), or the stream breaks."""
        patience.begin()
        self._place = self._channels.place
        method = self._channels.method(
            WORK_QUEUE + "SubmitStream", "stream_stream", pb.SubmitStreamRequest, pb.SubmitStreamResponse
        )
        stream = self._stream = Stream(
            method, self._channels.options.metadata, self._inbox, server=self._channels.uri(self._place)
        )
        self._heard = time.monotonic()
        try:
            while not self._is_done():
                ended = self._turn(stream, patience)
                if ended is not None:
                    return ended
            stream.end()
            stream.ended.wait(self._channels.options.call_timeout)
            return None
        finally:
            self._stream = None
            if not stream.ended.is_set():
                stream.cancel()

    def _turn(self, stream: Stream, patience: Patience) -> errors.CallError | None:
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            self._due.append(heapq.heappop(self._later)[1])
        while self._due and stream.has_room():
            stream.send(self._message())
        if self._due:
            stream.want_room()
        silence = self._heard + self._channels.options.call_timeout
        if self._flying and silence <= now:
            return errors.unanswered("the server fell silent on the submit stream")
        times = [silence] if self._flying else []
        times += [self._later[0][0]] if self._later else []
        heard = self._heard
        ended = self._take(min(times) - now if times else None)
        if self._heard > heard:
            self._channels.worked()
            patience.renew(self._deadline())
        if not self._flying:
            self._heard = time.monotonic()
        return ended

    def _take(self, patience: float | None) -> errors.CallError | None:
        """Waits for something to happen and deals with all that has; gives the error that ended the stream."""
        try:
            event = self._inbox.get(timeout=None if patience is None else max(0.0, patience))
            answers: list[Answer] = []
            try:
                while True:
                    if isinstance(event, _stream.Ended) and event.stream is self._stream:
                        return event.error or errors.unanswered("the server ended the submit stream")
                    self._on(event, answers)
                    event = self._inbox.get_nowait()
            finally:
                if answers:
                    self._answer(answers)
        except Empty:
            return None

    def _on(self, event: Any, answers: list[Answer]) -> None:
        if isinstance(event, _stream.Message):
            if event.stream is self._stream:
                self._heard = time.monotonic()
                for result in event.message.results:
                    self._on_result(result, answers)
        elif isinstance(event, _End):
            self._exhausted = True
        elif isinstance(event, _Close):
            self._closed = True
        elif not isinstance(event, (_stream.Room, _stream.Ended)):
            self._on_offer(event, answers)

    def _on_offer(self, offer: Offer | errors.CallError, answers: list[Answer]) -> None:
        number = self._next
        self._next += 1
        if isinstance(offer, errors.CallError):
            answers.append((number, offer))
            return
        if self._refused is not None:
            answers.append((number, _told(self._refused, nothing_happened=True)))
            return
        self._flying[number] = _Flying(offer, time.monotonic())
        self._due.append(number)

    def _on_result(self, result: pb.SubmitOfferResult, answers: list[Answer]) -> None:
        number = result.correlation_id
        flying = self._flying.get(number)
        if flying is None:
            return
        answer = read_result(result.result, flying.offer.own_id)
        if isinstance(answer, errors.CallError):
            flying.doubt = flying.doubt or not answer.has_no_side_effects()
            if answer._is_outage() and self._again(number, flying, answer):
                return
            answer._with_doubt(flying.doubt)
        del self._flying[number]
        answers.append((number, answer))

    def _again(self, number: int, flying: _Flying, error: errors.CallError) -> bool:
        deadline = flying.since + self._channels.options.submit_deadline
        pause = pause_within(deadline, max(error.retry_after or 0.0, ITEM_PAUSE))
        if pause is None:
            return False
        heapq.heappush(self._later, (time.monotonic() + pause, number))
        self._channels.warn_of_outage(self._place, error)
        return True

    def _message(self) -> pb.SubmitStreamRequest:
        """The next message: what is due, as far as it fits."""
        offers: list[pb.SubmitOffer] = []
        size = 0
        while self._due and len(offers) < MESSAGE_OFFERS and size < MESSAGE_BYTES:
            number = self._due.popleft()
            flying = self._flying.get(number)
            if flying is not None:
                size += len(flying.offer.request.payload)
                offers.append(pb.SubmitOffer(correlation_id=number, submit=flying.offer.request))
        return pb.SubmitStreamRequest(offers=offers)

    def _give_up(self, error: errors.CallError) -> None:
        """No server could be reached for too long, or it refuses the stream: everything ends with that error."""
        self._refused = error
        flying, self._flying = self._flying, {}
        self._due.clear()
        self._later.clear()
        answers: list[Answer] = [
            (number, _told(error, nothing_happened=error.has_no_side_effects() and not one.doubt))
            for number, one in flying.items()
        ]
        if answers:
            self._answer(answers)

    def _deadline(self) -> float:
        return time.monotonic() + self._channels.options.submit_deadline

    def _is_done(self) -> bool:
        return self._closed or (self._exhausted and not self._flying)


def _told(error: errors.CallError, *, nothing_happened: bool) -> errors.CallError:
    return errors.make(
        error.code,
        error.message,
        reason=error.reason,
        violations=error.violations,
        retry_after=error.retry_after,
        nothing_happened=nothing_happened,
        broken=error._broken,
    )
