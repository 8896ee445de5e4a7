"""What the worker says on its stream: Hello, heartbeats, settlements, its capacity, that it drains.

Nothing here waits: what finds no room is sent when there is some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from keywork._version import __version__
from keywork._worker.beats import LISTED
from keywork._worker.stop import Stop
from keywork.v1 import work_queue_pb2 as pb

if TYPE_CHECKING:
    from keywork._worker.beats import Beats
    from keywork._worker.leases import Held, Leases
    from keywork._worker.link import Link
    from keywork._worker.outbox import Outbox
    from keywork._worker.session import Session
    from keywork._worker.shared import Shared


class Sending:
    """The part of the driver that sends."""

    shared: Shared
    link: Link
    leases: Leases
    beats: Beats
    outbox: Outbox
    session: Session
    stop: Stop

    def say_hello(self, now: float) -> None:
        """Opens the session: claims every lease that is not lost."""
        self.session.hello_sent = now
        self.session.capacity = self._capacity()
        hello = pb.Hello(
            worker_id=self.shared.worker_id,
            queues=[pb.QueueSubscription(queue=q, weight=w) for q, w in self.shared.queues.items()],
            capacity=self.session.capacity,
            held_leases=[held.token for held in self.leases.held()],
            session_ticket=self.session.ticket,
            protocol_version=1,
            sdk_name="keywork-python",
            sdk_version=__version__,
        )
        self.link.open(pb.LeaseRequest(hello=hello), now)

    def _capacity(self) -> int:
        """How many leases the session may hold: a slot is not free while a handler sits in it that lost its lease."""
        if self.stop is not Stop.NO:
            return 0
        return max(0, self.shared.concurrency - self.leases.occupied_by_lost)

    def flush(self, now: float) -> None:
        """Sends what is due, as far as there is room."""
        self.outbox.on_time(now)
        if not self.session.live:
            return
        if self.session.next_heartbeat <= now and self.link.has_room():
            self._beat(now)
        capacity = self._capacity()
        if capacity != self.session.capacity:
            self.session.capacity = capacity
            self.link.send(pb.LeaseRequest(capacity=pb.Capacity(capacity=capacity)))
        if self.stop is not Stop.NO and not self.session.drain_sent:
            self.session.drain_sent = True
            self.link.send(pb.LeaseRequest(drain=pb.Drain()))
        # After the drain: what is given back now is not to come to this worker again.
        while self.outbox.is_ready() and self.link.has_room():
            if settlements := self.outbox.take():
                self.link.send(pb.LeaseRequest(settlements=pb.Settlements(settlements=settlements)))
        if self.outbox.is_ready() or self.session.next_heartbeat <= now:
            self.link.want_room()

    def _beat(self, now: float) -> None:
        """Heartbeats go on until the last settlement is confirmed: leases that are being settled are listed too."""
        self.session.next_heartbeat = now + self.session.heartbeat_interval
        held = list(self.leases.held())
        for start in range(0, max(1, len(held)), LISTED):
            self._beat_with(held[start : start + LISTED], now)

    def _beat_with(self, part: list[Held], now: float) -> None:
        sequence = self.beats.sent(part, now)
        beat = pb.LeaseHeartbeat(sequence=sequence, lease_tokens=[held.token for held in part])
        self.link.send(pb.LeaseRequest(heartbeat=beat))
