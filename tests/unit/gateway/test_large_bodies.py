"""Hundreds of large bodies that come in at the same moment hold up nobody: one is parsed at a time, others go on."""

import asyncio
import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from pydantic import BaseModel

from towpath_contracts.rpc import RpcMethod
from towpath_contracts.tasks import RunAccepted, SubmitTask
from towpath_fabric.turns.work_turns import WorkTurns
from towpath_gateway.adapters.platform_client import (
    HUGE_BYTES,
    HUGE_OF_PROJECT,
    LONG_BYTES,
    LargeBody,
    PlatformClient,
    large_body,
)
from towpath_gateway.app.errors import HttpProblemError
from towpath_gateway.app.strict_requests import ALONE_BYTES, BoundedJsonRequest


class Rounds:
    """Counts the rounds of the loop: in each, everything that is ready runs once."""

    def __init__(self) -> None:
        self.count = 0

    async def run(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)


@pytest.mark.parametrize("size", [ALONE_BYTES, LONG_BYTES])
@pytest.mark.parametrize("good", [True, False])
async def test_large_bodies_of_one_moment_are_parsed_in_rounds_of_their_own(good: bool, size: int) -> None:
    text = json.dumps({"x": "a" * size}).encode() if good else b"[" * size
    rounds, parsed = Rounds(), list[int]()
    turns = WorkTurns(1, lambda _: 1, 5.0, "project_share_full")
    dependencies = SimpleNamespace(settings=SimpleNamespace(http_body_s=5.0), body_turns=turns)
    app = SimpleNamespace(state=SimpleNamespace(dependencies=dependencies))

    class Noted(BoundedJsonRequest):
        def _parsed(self, body: bytes) -> Any:
            parsed.append(rounds.count)
            return super()._parsed(body)

    async def receive() -> Any:
        return {"type": "http.request", "body": text, "more_body": False}

    async def one(project: str) -> None:
        scope = {"type": "http", "app": app, "headers": [(b"content-type", b"application/json")]}
        try:
            await Noted(scope, receive, None, project).json()
        except HttpProblemError:
            assert not good

    ticking = asyncio.create_task(rounds.run())
    await asyncio.gather(*[one(f"p{place % 3}") for place in range(60)])
    ticking.cancel()
    assert len(parsed) == 60 == len(set(parsed)), "no two in the same round"


class Question(BaseModel):
    """Something to ask."""


class AsyncAnswer:
    """Answers whatever is asked."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def __call__(self, *_: Any, **__: Any) -> Any:
        return self._answer


class SlowBus:
    """Answers nothing before it is told to."""

    def __init__(self) -> None:
        self.go, self.asked = asyncio.Event(), 0

    async def request(self, *_: Any) -> None:
        self.asked += 1
        await self.go.wait()


async def test_few_requests_with_large_bodies_are_under_way_of_one_project_and_small_ones_wait_for_none() -> None:
    bus: Any = SlowBus()
    platform = PlatformClient(bus, asyncio.Event(), telemetry=None)  # type: ignore[arg-type]
    method: Any = RpcMethod

    async def ask(project: str, size: int | None) -> None:
        large_body.set(None if size is None else LargeBody(project, size))
        await platform.request(method, Question())  # type: ignore[arg-type]

    waiting = [asyncio.create_task(ask("p", HUGE_BYTES)) for _ in range(50)]
    await asyncio.sleep(0.01)
    assert bus.asked == HUGE_OF_PROJECT
    waiting += [asyncio.create_task(ask("q", HUGE_BYTES)), asyncio.create_task(ask("p", None))]
    await asyncio.sleep(0.01)
    assert bus.asked == HUGE_OF_PROJECT + 2
    bus.go.set()
    await asyncio.gather(*waiting)


async def test_who_waits_for_a_large_task_asks_of_its_run_without_a_turn() -> None:
    bus: Any = SlowBus()
    accepted = RunAccepted(
        run_id=uuid4(),
        project="p",
        network="n",
        version=1,
        status="running",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    bus.request_subject = AsyncAnswer(accepted)
    telemetry: Any = SimpleNamespace(enabled=False)
    platform = PlatformClient(bus, asyncio.Event(), telemetry)
    task = SubmitTask(network="n", user_message="Go.")

    async def wait() -> None:
        large_body.set(LargeBody("p", HUGE_BYTES))
        await platform.submit("c", task)
        await platform.run("p", accepted.run_id)

    waiting = [asyncio.create_task(wait()) for _ in range(2 * HUGE_OF_PROJECT)]
    await asyncio.sleep(0.01)
    assert bus.asked == 2 * HUGE_OF_PROJECT
    bus.go.set()
    await asyncio.gather(*waiting)
