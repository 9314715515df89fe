"""What a stream of A2A tells while others have to decide, and that it is told once."""

import uuid
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from a2a.types import a2a_pb2 as a2a
from tests.unit.gateway.protocols.test_a2a import NOW, REQUEST, RUN, SITE, entry, events, gate, principal, results, view

from towpath_contracts.runs.views import GatePage, GateView, GateVote, ListGates, RunView
from towpath_gateway.app.asking_stream import MAX_ASKED
from towpath_gateway.app.protocols.a2a.call_methods import A2aMethods, A2aStream
from towpath_gateway.core.a2a_tasks import GateQuestion

GATES = [uuid.UUID(int=number) for number in range(1, MAX_ASKED + 2)]


def opened(gate_id: uuid.UUID) -> dict[str, Any]:
    known = {"gate_type": "approval", "reason": "large", "detail": {"tool": "orders.refund"}}
    return {"type": "gate_opened", "gate_id": gate_id, "expires_at": NOW, **known}


def closed(gate_id: uuid.UUID) -> dict[str, Any]:
    return {"type": "gate_closed", "gate_id": gate_id, "verdict": "approved"}


def left_to_others(*gates: uuid.UUID) -> list[GateQuestion]:
    return [GateQuestion(gate=gate(gate_id=one), may_decide=False) for one in gates]


def states(found: list[dict[str, Any]]) -> list[str]:
    return [a2a.TaskState.Name(one.status_update.status.state).removeprefix("TASK_STATE_") for one in results(found)]


class Platform:
    """Has a run that waits at gates, of which a list holds so many."""

    def __init__(self, gates: Sequence[uuid.UUID]) -> None:
        self.waiting = list(gates)
        self.quorum = 1
        self.asked: list[ListGates] = []

    async def run(self, _project: str, _run_id: uuid.UUID) -> RunView:
        return view("waiting")

    async def request(self, _subject: Any, request: ListGates) -> GatePage:
        self.asked.append(request)
        voted = [GateVote(actor="bob", verdict="approved", at=NOW)] if self.quorum > 1 else []
        known: dict[str, Any] = {"quorum": self.quorum, "votes": voted}
        found: list[GateView] = [gate(gate_id=one, **known) for one in self.waiting[: request.limit]]
        return GatePage(gates=tuple(found))


class Stream(A2aStream):
    """The stream of a key that sees the gates of its own runs and decides nowhere, unless *scopes* say so."""

    def __init__(
        self, gates: Sequence[uuid.UUID], *scopes: str, decided: Sequence[uuid.UUID] = (), status: str = ""
    ) -> None:
        self.platform = Platform(gates)
        dependencies: Any = SimpleNamespace(platform=self.platform)
        methods = A2aMethods(
            dependencies=dependencies,
            principal=principal(scopes=frozenset({"runs:read", *scopes})),
            span=None,
            network="support",
            site=SITE,
        )
        self.events = events()
        super().__init__(methods, view("waiting"), self.events, decided)
        self.reader: Any = SimpleNamespace(page=SimpleNamespace(status=status) if status else None)
        self.called = methods

    def log(self, seq: int, event: dict[str, Any]) -> list[str]:
        return states(self.events.of(entry(seq, event)))

    async def rest(self) -> bytes:
        return await self._at_rest(self.reader)


def test_what_still_waits_is_told_again_after_the_run_was_at_work() -> None:
    stream = events()
    first, second = GATES[:2]
    for seq, one in enumerate((first, second), 5):
        stream.of(entry(seq, opened(one)))
    assert states(stream.waiting(left_to_others(first, second), SITE)) == ["AUTH_REQUIRED"]
    assert stream.of(entry(7, closed(first))) == [], "the second still waits"
    assert states(stream.waiting(left_to_others(second), SITE)) == ["AUTH_REQUIRED"], "this is another question"
    assert stream.waiting(left_to_others(second), SITE) == []
    changed = [GateQuestion(gate=gate(gate_id=second, detail={"digest": "sha256:bb"}), may_decide=False)]
    assert states(stream.waiting(changed, SITE)) == ["AUTH_REQUIRED"], "and so is another call"
    assert states(stream.of(entry(8, closed(second)))) == ["WORKING"]
    assert states(stream.waiting(changed, SITE)) == ["AUTH_REQUIRED"], "after work it is told again"


def test_a_call_that_is_made_while_others_decide_is_followed_by_what_still_waits() -> None:
    stream = events()
    stream.of(entry(5, opened(GATES[0])))
    stream.waiting(left_to_others(GATES[0]), SITE)
    instruction = {"kind": "call_tools", "calls": [{"execution_id": REQUEST, "call_index": 0, "tool": "orders.find"}]}
    event = {"type": "instruction_issued", "step": 2, "epoch": 0, "agent_key": "a", "instruction": instruction}
    told = stream.of(entry(6, event))
    assert states(told) == ["WORKING"]
    assert states(stream.waiting(left_to_others(GATES[0]), SITE)) == ["AUTH_REQUIRED"]


def test_a_run_is_at_work_again_once_after_nothing_waits_any_more() -> None:
    stream = events()
    assert stream.resumed(NOW) == [], "nobody was told that it waits"
    stream.waiting(left_to_others(GATES[0]), SITE)
    assert states(stream.resumed(NOW)) == ["WORKING"] and stream.resumed(NOW) == []


async def test_more_gates_than_are_asked_at_once_are_told_once() -> None:
    stream = Stream(GATES)
    for seq, one in enumerate(GATES, 5):
        stream.log(seq, opened(one))
    assert (await stream.rest()).count(b"AUTH_REQUIRED") == 1
    assert await stream.rest() == b""
    stream.log(29, closed(GATES[-1]))
    unseen = stream.platform.waiting.pop()
    assert await stream.rest() == b"", "nobody was asked there"
    stream.platform.waiting.append(unseen)
    stream.log(30, closed(GATES[0]))
    stream.platform.waiting.remove(GATES[0])
    told = await stream.rest()
    assert str(GATES[-1]).encode() in told and str(GATES[0]).encode() not in told
    assert await stream.rest() == b""


async def test_a_stream_says_that_the_run_is_at_work_where_the_list_has_no_gate_any_more() -> None:
    stream = Stream(GATES[:2])
    stream.log(5, opened(GATES[0]))
    assert b"AUTH_REQUIRED" in await stream.rest()
    stream.log(6, opened(GATES[1]))
    stream.platform.waiting.clear()
    assert b"TASK_STATE_WORKING" in await stream.rest()
    assert await stream.rest() == b""
    assert stream.events.gates and not stream.events.has_ended


async def task_state(stream: Stream, decided: Sequence[uuid.UUID]) -> str:
    """Return the state of the task as a call that does not stream is told."""
    task = await stream.called._task(view("waiting"), decided, None)
    return str(task["status"]["state"])


@pytest.mark.parametrize("scopes", [("gates:read",), ("gates:read", "gates:resolve"), ()])
async def test_a_stream_asks_what_a_look_at_the_task_asks_also_below_a_run_that_waits_itself(
    scopes: tuple[str, ...],
) -> None:
    own, below = GATES[:2]
    stream = Stream([own], *scopes, status="waiting")
    stream.log(5, opened(own))
    told = [await stream.rest()]
    stream.platform.waiting.append(below)
    if "gates:resolve" not in scopes:
        told.append(await stream.rest())
        assert str(below).encode() in told[-1], "it opened while the run's own still waits"
    assert (await task_state(stream, ())).encode() in told[-1]
    assert stream.platform.asked[0].root_run_id == (RUN if scopes else None)


async def test_a_gate_that_needs_another_word_after_the_caller_s_is_told_as_others() -> None:
    stream = Stream(GATES[:1], "gates:read", "gates:resolve", decided=GATES[:1], status="waiting")
    stream.platform.quorum = 2
    stream.log(5, opened(GATES[0]))
    assert (await task_state(stream, GATES[:1])) == "TASK_STATE_AUTH_REQUIRED"
    assert b"TASK_STATE_AUTH_REQUIRED" in await stream.rest() and not stream.events.has_ended


async def test_a_run_that_does_not_stand_is_asked_for_no_gates() -> None:
    stream = Stream(GATES[:1], "gates:read", status="running")
    assert await stream.rest() == b"" and not stream.platform.asked
