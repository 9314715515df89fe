"""Prompts of the NATS agent protocol: how long their runs are waited for, and how many are looked up at a time."""

import asyncio
import json
import uuid
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.gateway.protocols.test_a2a import principal, view

from towpath_contracts.authority import SERVICES, broker_permissions
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.views import RunView
from towpath_gateway.app.protocols.nats_agents import prompted_run
from towpath_gateway.app.protocols.nats_agents.prompt_server import PromptServer
from towpath_gateway.app.protocols.nats_agents.prompted_run import PromptedRun

RUN = uuid.uuid4()


class Platform:
    """Has one run; each look at it takes the time that it may take, and the first ones find it *away*."""

    def __init__(self, found: RunView | None = None, away: int = 0) -> None:
        self.now = 0.0
        self.looks: list[float] = []
        self._found = found
        self._away = away

    async def submit(self, _caller: str, _task: Any) -> Any:
        return SimpleNamespace(run_id=RUN)

    async def wait_for_end(self, _project: str, _run_id: uuid.UUID, seconds: float) -> RunView | None:
        self.looks.append(seconds)
        self.now += seconds
        if len(self.looks) <= self._away:
            raise ProblemError(problem("unavailable", "the orchestrator is away"))
        return self._found


async def chunks_of(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return what is sent of a prompt, and last the refusal where it has no answer."""
    sent: list[dict[str, Any]] = []

    async def send(body: bytes) -> None:
        sent.append(json.loads(body))

    monkeypatch.setattr(prompted_run, "monotonic", lambda: platform.now)
    dependencies: Any = SimpleNamespace(platform=platform, stopping=asyncio.Event())
    try:
        await PromptedRun(dependencies, principal(), send, {}).answer("support", "hello")
    except ProblemError as error:
        sent.append({"refused": error.problem})
    return sent


async def test_an_answer_is_waited_for_so_long_and_its_client_hears_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    platform = Platform()
    *told, last = await chunks_of(platform, monkeypatch)
    assert (last["refused"].code, last["refused"].run_id) == ("unavailable", str(RUN))
    assert platform.now == 3_500 and {*platform.looks} == {2}
    assert told == [{"type": "status", "data": "ack"}] * (3_500 // 20 - 1)


async def test_a_platform_that_is_away_is_asked_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    told = await chunks_of(Platform(view(final={"message": "Done."}), away=2), monkeypatch)
    assert told == [{"type": "response", "data": "Done."}] and slept == [0.5, 0.5]


async def test_so_many_questions_are_looked_up_at_a_time_and_of_one_caller_fewer() -> None:
    nobody: Any = None
    turns = PromptServer(nobody)._turns  # how many have a turn is seen nowhere else without a broker
    async with AsyncExitStack() as held:
        for caller in ("a", "b", "c"):
            for _ in range(4):
                await held.enter_async_context(turns.held(caller))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01), turns.held(caller):
                    pass
        for caller in ("d", "e", "f", "g"):
            await held.enter_async_context(turns.held(caller))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), turns.held("h"):
                pass


async def test_a_question_waits_for_its_turn_for_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody: Any = None
    turns = PromptServer(nobody)._turns
    waited: list[float] = []

    def over_at_once(seconds: float) -> asyncio.Timeout:
        waited.append(seconds)
        return asyncio.timeout_at(0 if len(waited) > 4 else None)

    monkeypatch.setattr(asyncio, "timeout", over_at_once)
    async with AsyncExitStack() as held:
        for _ in range(4):
            await held.enter_async_context(turns.held("a"))
        with pytest.raises(ProblemError, match="within 5 s"):
            await held.enter_async_context(turns.held("a"))
    assert waited == [5.0] * 5


def test_the_broker_lets_the_gateway_answer_for_longer_than_an_answer_may_take() -> None:
    allowed = broker_permissions(SERVICES["gateway"])["allow_responses"]
    assert allowed == {"max": -1, "expires": "1h"} and prompted_run.ANSWER_S + prompted_run.LOOK_S < 3_600
