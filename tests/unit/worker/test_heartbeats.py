"""A worker says what it runs for each toolset, does what the answer says, and asks less often where nobody answers."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from towpath.hooks import Hook, Hooks
from towpath.tools.context import ToolContext
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.tools.workers import WorkerHeard
from towpath_worker.app import heartbeats
from towpath_worker.app.heartbeats import Heartbeats, WorkerLoad
from towpath_worker.app.run_ends import RunEnds


class Answers:
    """A broker whose other side gives *answers*, one for each word."""

    def __init__(self, *answers: WorkerHeard | None) -> None:
        self.answers = list(answers)
        self.said: list[tuple[str, Any]] = []

    async def request_subject(self, subject: str, beat: Any, _: type) -> WorkerHeard:
        self.said.append((subject, beat))
        answer = self.answers.pop(0) if self.answers else WorkerHeard()
        if answer is None:
            raise ProblemError(problem("unavailable", "nobody answers"))
        return answer


async def run(
    monkeypatch: pytest.MonkeyPatch, bus: Answers, rounds: int, ends: RunEnds | None = None
) -> tuple[list[float], int]:
    pauses: list[float] = []
    drained = 0

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == rounds:
            raise asyncio.CancelledError

    async def drain() -> None:
        nonlocal drained
        drained += 1

    monkeypatch.setattr(heartbeats.asyncio, "sleep", sleep)
    no_runs = RunEnds(Hooks([], lambda *_: None), "w-1", set)
    beats = Heartbeats(
        bus,  # type: ignore[arg-type]
        project="shop", worker_id="0" * 32, proof="its own", name="w-1", toolsets=("orders", "mail"),
        load=lambda: WorkerLoad(calls=2, slots=4, draining=False, idle=False, ending=False),
        drain=drain, ends=ends or no_runs,
    )  # fmt: skip
    with pytest.raises(asyncio.CancelledError):
        await beats.run()
    return pauses, drained


async def test_each_toolset_is_spoken_of_on_its_own_subject_and_a_drain_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bus = Answers(WorkerHeard(), WorkerHeard(), WorkerHeard(), WorkerHeard(drain=True))
    pauses, drained = await run(monkeypatch, bus, 2)
    assert [subject for subject, _ in bus.said[:2]] == [
        "svc.tas.worker_beat.shop.orders",
        "svc.tas.worker_beat.shop.mail",
    ]
    assert (bus.said[0][1].in_flight, bus.said[0][1].slots, bus.said[0][1].toolset) == (2, 4, "orders")
    assert bus.said[0][1].version and {said.proof for _, said in bus.said} == {"its own"}
    assert (pauses, drained) == ([5.0, 5.0], 1)


async def test_it_asks_which_runs_have_ended_until_it_hears_so(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Any] = []
    known = RunEnds(Hooks([Hook("run_finished", heard.append)], lambda *_: None), "w-1", set)
    one, other = uuid4(), uuid4()
    known.note(ToolContext(run_id=one))
    known.note(ToolContext(run_id=other))
    answers = (WorkerHeard(), WorkerHeard(), None, WorkerHeard(), WorkerHeard(), WorkerHeard(ended=(other,)))
    bus = Answers(*answers)
    await run(monkeypatch, bus, 3, known)
    await known.notify()
    orders = "svc.tas.worker_beat.shop.orders"
    assert [(subject, beat.runs) for subject, beat in bus.said if beat.runs] == [
        (orders, (one, other)),
        (orders, (one, other)),
        (orders, (one,)),
    ]
    assert [event.run_id for event in heard] == [other]
    assert "runs" not in bus.said[0][1].model_dump()


async def test_it_speaks_less_often_while_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses, drained = await run(monkeypatch, Answers(*[None] * 10), 6)
    assert pauses == [10.0, 20.0, 40.0, 60.0, 60.0, 5.0]
    assert drained == 0
