"""Calls of A2A down to what they ask of the platform: words at gates, waits, and what is sent again."""

import asyncio
import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.gateway.protocols.test_a2a import NOW, RUN, SITE, gate, principal, view

from towpath_contracts.networks.spec import ListNetworks, NetworkList, NetworkVersion
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.views import (
    ActionDone,
    CancelRun,
    GatePage,
    GateView,
    ListGates,
    ListRuns,
    ResolveGate,
    RunPage,
    RunView,
)
from towpath_contracts.tasks import RunAccepted, SubmitTask
from towpath_gateway.app.protocols.a2a.call_messages import A2aCall
from towpath_gateway.app.protocols.a2a.call_methods import A2aMethods

FIRST, SECOND = uuid.UUID(int=1), uuid.UUID(int=2)


class Platform:
    """Has one run, with gates of which each next one opens when the one before is decided."""

    def __init__(self, status: str = "waiting", gates: tuple[uuid.UUID, ...] = (), **more: Any) -> None:
        self.view = view(status, **more)
        self.left = [gate(gate_id=one, detail={"tool": "shop.pay", "digest": f"sha256:{one.int}"}) for one in gates]
        self.closed: list[GateView] = []
        self.opens_at_once = 1
        self.refuses: dict[uuid.UUID, str] = {}
        self.earlier: list[RunView] = []
        self.networks = 0
        self.fails = ""
        self.asked: list[Any] = []
        self.waited: list[float] = []
        self.submitted: list[SubmitTask] = []

    async def submit(self, _caller: str, task: SubmitTask, _span: Any) -> RunAccepted:
        self.submitted.append(task)
        known = {"project": "shop", "network": "support", "version": 3, "status": "queued"}
        return RunAccepted.model_validate({**known, "run_id": RUN, "created_at": NOW})

    async def run(self, _project: str, _run_id: uuid.UUID) -> RunView:
        if self.fails:
            raise ProblemError(problem("unavailable", self.fails))
        return self.view

    async def wait_for_end(self, _project: str, _run_id: uuid.UUID, seconds: float) -> None:
        self.waited.append(seconds)

    async def request(self, _method: Any, asked: Any) -> Any:
        self.asked.append(asked)
        match asked:
            case ListGates():
                return self._gates(asked)
            case ResolveGate():
                return self._resolve(asked)
            case ListRuns():
                return RunPage(runs=tuple(self.earlier[: asked.limit]))
            case ListNetworks():
                known = {"project": "shop", "version": 1, "digest": "d", "published_at": NOW, "published_by": "a"}
                named = [{**known, "name": f"n{number:02}"} for number in range(self.networks)]
                return NetworkList(networks=tuple(NetworkVersion.model_validate(one) for one in named))
            case _:
                assert isinstance(asked, CancelRun)
                return ActionDone()

    def _gates(self, asked: ListGates) -> GatePage:
        waiting = self.left[: self.opens_at_once]
        if asked.gate_id is None:
            return GatePage(gates=tuple(waiting))
        return GatePage(gates=tuple(one for one in (*waiting, *self.closed) if one.gate_id == asked.gate_id))

    def _resolve(self, asked: ResolveGate) -> ActionDone:
        if asked.gate_id in self.refuses:
            raise ProblemError(problem(self.refuses[asked.gate_id], "this role is not there."))
        (found,) = [one for one in self.left[: self.opens_at_once] if one.gate_id == asked.gate_id]
        assert found.detail["digest"] == asked.digest
        self.left.remove(found)
        self.closed.append(found.model_copy(update={"status": asked.verdict}))
        return ActionDone()


class Readings:
    """Pages of a log that says nothing new, after *away* looks in vain; the gateway stops at the last."""

    def __init__(self, stopping: asyncio.Event, away: int = 0) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self._stopping = stopping
        self._away = away

    async def page(self, *asked: Any) -> Any:
        self.asked.append(asked)
        if len(self.asked) <= self._away:
            raise ProblemError(problem("unavailable", "the log-writer is away"))
        self._stopping.set()
        return SimpleNamespace(entries=(), seq=0)


def methods(platform: Platform, *, away: int = 0, network: str = "support") -> A2aMethods:
    stopping = asyncio.Event()
    dependencies: Any = SimpleNamespace(
        platform=platform,
        readings=Readings(stopping, away),
        settings=SimpleNamespace(run_wait_s=30.0),
        stopping=stopping,
    )
    return A2aMethods(dependencies=dependencies, principal=principal(), span=None, network=network, site=SITE)


def pages(called: A2aMethods) -> list[tuple[Any, ...]]:
    readings: Any = called.dependencies.readings
    return list(readings.asked)


async def send(called: A2aMethods, *words: dict[str, Any], configuration: Any = None, **more: Any) -> dict[str, Any]:
    parts = [{"data": word} for word in words] or [{"text": "hello"}]
    message = {"messageId": "m", "role": "ROLE_USER", "parts": parts, **more}
    given = {"message": message, "configuration": configuration}
    answer = await called.answer(A2aCall(jsonrpc="2.0", id=1, method="SendMessage", params=given))
    assert isinstance(answer, dict)
    return dict(answer["task"])


def yes(gate_id: uuid.UUID) -> dict[str, Any]:
    return {"gate_id": str(gate_id), "digest": f"sha256:{gate_id.int}", "verdict": "approved"}


async def test_the_same_word_sent_again_counts_at_its_own_gate_and_not_at_the_next() -> None:
    platform = Platform(gates=(FIRST, SECOND))
    for _ in range(2):
        task = await send(methods(platform), yes(FIRST), taskId=str(RUN))
        (asked,) = [part["data"] for part in task["status"]["message"]["parts"] if "data" in part]
        assert (task["status"]["state"], asked["gate_id"]) == ("TASK_STATE_INPUT_REQUIRED", str(SECOND))
        assert [one.gate_id for one in platform.closed] == [FIRST]
        assert [one.gate_id for one in platform.left] == [SECOND]
    assert len([one for one in platform.asked if isinstance(one, ResolveGate)]) == 1


async def test_a_refusal_of_the_second_word_names_the_first_which_counts() -> None:
    platform = Platform(gates=(FIRST, SECOND))
    platform.opens_at_once, platform.refuses = 2, {SECOND: "role_missing"}
    with pytest.raises(ProblemError) as refused:
        await send(methods(platform), yes(FIRST), yes(SECOND), taskId=str(RUN))
    found = refused.value.problem
    assert (found.code, found.run_id) == ("role_missing", str(RUN))
    assert found.detail == f"this role is not there; what was said before it counts, at {FIRST}"
    assert [one.gate_id for one in platform.closed] == [FIRST]


async def test_a_run_that_was_accepted_is_named_where_it_can_not_be_read() -> None:
    platform = Platform("queued")
    platform.fails = "the orchestrator is away"
    called = methods(platform)
    with pytest.raises(ProblemError) as refused:
        await send(called)
    assert refused.value.problem.run_id == str(RUN) and len(platform.submitted) == 1
    assert called.headers == {"Location": f"/v1/runs/{RUN}"}


async def test_a_message_whose_run_has_ended_reads_none_of_its_events() -> None:
    called = methods(Platform("completed", seq=5_000, final={"message": "Done."}))
    task = await send(called)
    assert task["status"]["state"] == "TASK_STATE_COMPLETED" and pages(called) == []


@pytest.mark.parametrize("away", [0, 2])
async def test_a_wait_looks_for_two_seconds_and_tries_again_after_half_a_second(
    away: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    called = methods(Platform("running", seq=7), away=away)
    await send(called)
    assert pages(called) == [("shop", RUN, 7, 200, 2_000)] * (away + 1) and slept == [0.5] * away


async def test_a_run_that_waits_says_for_what_also_where_the_gateway_stops() -> None:
    called = methods(Platform(gates=(FIRST,)))
    called.dependencies.stopping.set()
    task = await send(called)
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED" and pages(called) == []


async def test_who_cancels_is_answered_after_two_seconds_where_the_run_has_not_ended() -> None:
    platform = Platform("cancelling")
    call = A2aCall(jsonrpc="2.0", id=1, method="CancelTask", params={"id": str(RUN)})
    answer = await methods(platform).answer(call)
    assert isinstance(answer, dict) and answer["status"]["state"] == "TASK_STATE_WORKING"
    assert platform.waited == [2.0]


@pytest.mark.parametrize(("caller", "continued"), [("bob", SECOND), ("alice", FIRST)])
async def test_a_message_is_one_sent_again_only_where_the_same_caller_sent_the_earlier_one(
    caller: str, continued: uuid.UUID
) -> None:
    platform = Platform("completed")
    known: dict[str, Any] = {"labels": {"a2a_message": "m"}, "previous_run_id": SECOND}
    platform.earlier = [view(run_id=FIRST, caller="carol"), view(caller=caller, **known)]
    await send(methods(platform), contextId=str(RUN))
    assert platform.submitted[0].continues == continued


async def test_a_message_sent_again_is_looked_for_among_so_many_tasks_of_its_context() -> None:
    for place, continued in ((50, SECOND), (51, FIRST)):
        platform = Platform("completed")
        others = [view(run_id=FIRST, caller="bob")] * (place - 1)
        known: dict[str, Any] = {"labels": {"a2a_message": "m"}, "previous_run_id": SECOND}
        platform.earlier = [*others, view(caller="bob", **known)]
        await send(methods(platform), contextId=str(RUN))
        assert platform.submitted[0].continues == continued


async def test_a_refusal_names_so_many_networks() -> None:
    platform = Platform()
    platform.networks = 21
    with pytest.raises(ProblemError) as refused:
        await send(methods(platform, network=""))
    assert refused.value.problem.detail.endswith("n18, n19")
