"""Waiting at a provider's limit: nobody's end costs another a place, and who waits stands in nobody's way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest
import structlog
from tests.support.asking import eventually

from towpath_contracts.provider_limits import ProviderLimit, ProviderUse
from towpath_decider import limiter as limits
from towpath_decider.core.allowance import LONGEST_PAUSE_S
from towpath_decider.core.conversation import Question, Turn
from towpath_decider.limiter import Gate
from towpath_fabric.bus import Bus
from towpath_fabric.clock import monotonic
from towpath_fabric.registers import Reading, Registers
from towpath_fabric.settings import Settings
from towpath_fabric.turns import Owner

ME = Owner(caller="me", root=uuid4())
GO = Question(instructions="Decide.", turns=(Turn(role="user", text="Go."),))
PATIENT_S = 60.0


class Shelf(Registers):
    """One register that is kept here; its time can be moved."""

    def __init__(self) -> None:
        super().__init__(Bus("decider", Settings(nats_url="nats://127.0.0.1:1")), "providers")
        self.body: bytes | None = None
        self.revision = 0

    def now(self) -> float:
        return limits.monotonic()

    async def sync(self) -> None:
        """Nothing is away."""

    async def read(self, _name: str) -> Reading:
        return Reading(body=self.body, revision=self.revision)

    async def write(self, _name: str, body: bytes, revision: int) -> bool:
        if revision != self.revision:
            return False
        self.body, self.revision = body, revision + 1
        return True

    @property
    def use(self) -> ProviderUse:
        return ProviderUse() if self.body is None else ProviderUse.model_validate_json(self.body)


@asynccontextmanager
async def running(*loops: Any) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.create_task(loop()) for loop in loops]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def gate_of(shelf: Shelf, **limit: int) -> Gate:
    return Gate("local", ProviderLimit(**limit), shelf, structlog.get_logger())


async def entered(gate: Gate, tokens: int = 10) -> None:
    async with asyncio.timeout(PATIENT_S):
        await gate.enter(ME, tokens)


async def test_who_is_cancelled_while_another_call_ends_takes_no_place_with_it() -> None:
    """The turn of a call that ran out of time comes in the very moment in which it is not yet out of the queue."""
    gate = gate_of(Shelf(), concurrency=1)
    async with running(gate.run):
        await entered(gate)
        late = asyncio.create_task(gate.enter(ME, 10))
        next_one = asyncio.create_task(gate.enter(ME, 10))
        await asyncio.sleep(0)
        late.cancel()
        gate.leave(10, 10)
        async with asyncio.timeout(PATIENT_S):
            await next_one
        assert (await asyncio.gather(late, return_exceptions=True))[0].__class__ is asyncio.CancelledError
        gate.leave(10, 10)
        await entered(gate)


async def test_tokens_that_a_call_left_over_are_given_back_where_only_they_are_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead = [0.0]
    monkeypatch.setattr(limits, "monotonic", lambda: monotonic() + ahead[0])
    monkeypatch.setattr(limits, "RENEW_S", 0.01)
    shelf = Shelf()
    gate = gate_of(shelf, tokens_per_minute=10_000)
    async with running(gate.run):
        await entered(gate, 5_000)
        gate.leave(5_000, 200)
        await eventually(lambda: not shelf.use.holders, PATIENT_S)  # no slots any more, and nothing waits
        ahead[0] = 10.0
        await eventually(lambda: sum(one.tokens for one in shelf.use.given) == 200, PATIENT_S)


def test_a_time_that_a_provider_asks_for_is_bounded_here_too() -> None:
    gate = gate_of(Shelf(), concurrency=1)
    gate.leave(0, 0, 86_400.0)
    assert LONGEST_PAUSE_S - 5 < gate.paused_s <= LONGEST_PAUSE_S


async def test_a_register_that_cannot_be_read_is_an_empty_one() -> None:
    shelf = Shelf()
    shelf.body, shelf.revision = b"\xff{not a register", 7
    gate = gate_of(shelf, concurrency=1)
    async with running(gate.run) as (loop,):
        waiting = asyncio.create_task(entered(gate))
        await asyncio.wait((loop, waiting), return_when=asyncio.FIRST_COMPLETED, timeout=PATIENT_S)
        assert waiting.done()
        assert not loop.done()
    assert shelf.revision > 7
