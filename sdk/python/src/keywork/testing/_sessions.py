"""Sessions of the fake server: the rules of the ``Lease`` stream."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from keywork._wire import to_duration
from keywork.testing._state import SessionState, State
from keywork.v1 import work_queue_pb2 as pb


def hello(state: State, hello: pb.Hello, headers: dict[str, Any], send: Callable[[Any], None]) -> int:
    """Opens a session; gives its number."""
    number = state.number()
    _supersede(state, hello.worker_id)
    state.seen.capacity = hello.capacity
    state.seen.hellos.append(hello)
    state.seen.headers.append(headers)
    session = SessionState(hello.worker_id, [q.queue for q in hello.queues], hello.capacity, send)
    state.sessions[number] = session
    if state.script.unwelcome_sessions:
        # No deliveries either: it is a session that does not work.
        state.script.unwelcome_sessions -= 1
        session.capacity = 0
    else:
        _welcome(state, number, hello)
    state.seen.sessions = len(state.sessions)
    return number


def _supersede(state: State, worker_id: str) -> None:
    """A newer session of a worker takes over from an older one."""
    for number in [n for n, session in state.sessions.items() if session.worker_id == worker_id]:
        away = pb.GoAway(reason=pb.GO_AWAY_REASON_SUPERSEDED)
        state.send(number, pb.LeaseResponse(go_away=away))
        state.sessions.pop(number).send(None)


def _welcome(state: State, number: int, hello: pb.Hello) -> None:
    resumed, lost = _resume(state, number, hello)
    duration, grace = state.options.lease_duration, state.options.disconnect_grace
    welcome = pb.Welcome(
        session_id=str(number),
        worker_id=hello.worker_id,
        heartbeat_interval=to_duration(duration / 3),
        liveness_timeout=to_duration(duration * 2.5 / 3),
        resumed=resumed,
        lost=lost,
        session_ticket=f"ticket-{number}".encode(),
    )
    for queue in hello.queues:
        terms = welcome.queues.add(queue=queue.queue, lease_duration=to_duration(duration))
        if grace is not None:
            terms.disconnect_grace.CopyFrom(to_duration(grace))
    state.send(number, pb.LeaseResponse(welcome=welcome))


def _resume(state: State, number: int, hello: pb.Hello) -> tuple[list[pb.ResumedLease], list[pb.LostLease]]:
    """Goes on with the leases that a new session shows, and hands back those of its worker that it does not."""
    resumed: list[pb.ResumedLease] = []
    lost: list[pb.LostLease] = []
    for token in hello.held_leases:
        lease = state.leases.get(token)
        if lease is None:
            lost.append(pb.LostLease(lease_token=token, reason=pb.LOST_REASON_EXPIRED))
            continue
        lease.session = number
        state.sessions[number].held += 1
        left = to_duration(max(0.0, lease.deadline - time.monotonic()))
        resumed.append(pb.ResumedLease(lease_token=token, time_left=left))
    stranded = [t for t, one in state.leases.items() if one.worker_id == hello.worker_id and one.session != number]
    for token in stranded:
        state.hand_back(token)
    return resumed, lost


def on_message(state: State, number: int, message: pb.LeaseRequest) -> None:
    """The worker said something."""
    kind = message.WhichOneof("message")
    session = state.sessions.get(number)
    if session is None:
        return
    if kind == "capacity":
        state.seen.capacity = session.capacity = message.capacity.capacity
    elif kind == "heartbeat":
        _on_heartbeat(state, number, message.heartbeat)
    elif kind == "settlements":
        _on_settlements(state, number, message.settlements)
    elif kind == "drain":
        state.seen.drains += 1
        session.draining = True
        state.send(number, pb.LeaseResponse(drain_ack=pb.DrainAck()))


def _on_heartbeat(state: State, number: int, heartbeat: pb.LeaseHeartbeat) -> None:
    state.seen.heartbeats += 1
    if state.script.ignore_heartbeats:
        return
    ack = pb.HeartbeatAck(sequence=heartbeat.sequence, session_ticket=f"ticket-{number}-{heartbeat.sequence}".encode())
    if state.script.unconfirmed_heartbeats:
        ack.unconfirmed.extend(heartbeat.lease_tokens)
    else:
        gone = [token for token in heartbeat.lease_tokens if not state.extend(token)]
        ack.lost.extend(pb.LostLease(lease_token=token, reason=pb.LOST_REASON_EXPIRED) for token in gone)
    state.send(number, pb.LeaseResponse(heartbeat_ack=ack))


def _on_settlements(state: State, number: int, settlements: pb.Settlements) -> None:
    state.seen.settlement_messages += 1
    results: list[pb.SettlementResult] = []
    for settlement in settlements.settlements:
        result = state.settle(settlement)
        if state.script.unanswered_settlements:
            state.script.unanswered_settlements -= 1
        else:
            results.append(result)
    if results:
        state.send(number, pb.LeaseResponse(settlement_results=pb.SettlementResults(results=results)))


def close(state: State, number: int) -> None:
    """A session's stream has ended: its leases run out sooner where there is a grace."""
    state.sessions.pop(number, None)
    state.seen.sessions = len(state.sessions)
    grace = state.options.disconnect_grace
    if grace is None:
        return
    latest = time.monotonic() + grace
    state.next_due = min(state.next_due, latest)
    for lease in state.leases.values():
        if lease.session == number:
            lease.deadline = min(lease.deadline, latest)


def end_all(state: State, end: Any) -> None:
    """Ends every session, with a status or (None) with OK."""
    for number, session in list(state.sessions.items()):
        session.send(end)
        close(state, number)


def go_away(state: State, reason: Any, reconnect_delay: float) -> None:
    """Says GoAway to every session. It does not end them."""
    away = pb.GoAway(reason=reason, grace=to_duration(10), reconnect_delay=to_duration(reconnect_delay))
    for number in list(state.sessions):
        state.send(number, pb.LeaseResponse(go_away=away))
