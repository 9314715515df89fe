"""Waiting at a provider's limit: nobody's end costs another a place, and who waits stands in nobody's way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest
import structlog
from prometheus_client import CollectorRegistry
from tests.support.decider.decision_requests import eventually
from tests.support.decider.decisions import request

from towpath_contracts.decisions.provider_limits import ProviderLimit, ProviderLimitState
from towpath_contracts.decisions.request import CALL_UNASKED, Usage
from towpath_contracts.facts import DecisionFailedFact
from towpath_decider.app import provider_limiter as limits
from towpath_decider.app.decision_service import DecisionMaker
from towpath_decider.app.provider_limiter import (
    NoProviderCapacityError,
    ProviderLimiter,
    ProviderPermit,
    SharedProviderLimit,
)
from towpath_decider.core.conversation import ConversationTurn, ModelCallFailure, ModelQuestion, ModelReply
from towpath_decider.core.rate_policy import LONGEST_PAUSE_S
from towpath_decider.core.usage import NOTHING
from towpath_decider.metrics import DeciderMetrics
from towpath_fabric.clock import monotonic
from towpath_fabric.nats.bus import Bus
from towpath_fabric.nats.kv_register import RegisterEntry, SharedRegisters
from towpath_fabric.settings import Settings
from towpath_fabric.turns.fair_queue import QueueOwner

ME = QueueOwner(caller="me", root=uuid4())
GO = ModelQuestion(instructions="Decide.", turns=(ConversationTurn(role="user", text="Go."),))
PATIENT_S = 60.0


class MemoryRegisters(SharedRegisters):
    """One register that is kept here; its time can be moved."""

    def __init__(self) -> None:
        super().__init__(Bus("decider", Settings(nats_url="nats://127.0.0.1:1")), "providers")
        self.body: bytes | None = None
        self.revision = 0

    def now(self) -> float:
        return limits.monotonic()

    async def sync(self) -> None:
        """Nothing is away."""

    async def read(self, _name: str) -> RegisterEntry:
        return RegisterEntry(body=self.body, revision=self.revision)

    async def write(self, _name: str, body: bytes, revision: int) -> bool:
        if revision != self.revision:
            return False
        self.body, self.revision = body, revision + 1
        return True

    @property
    def use(self) -> ProviderLimitState:
        return ProviderLimitState() if self.body is None else ProviderLimitState.model_validate_json(self.body)


@asynccontextmanager
async def running(*loops: Any) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.create_task(loop()) for loop in loops]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def limit_of(registers: MemoryRegisters, **limit: int) -> SharedProviderLimit:
    return SharedProviderLimit("local", ProviderLimit(**limit), registers, structlog.get_logger())


async def acquired(shared_limit: SharedProviderLimit, tokens: int = 10) -> None:
    async with asyncio.timeout(PATIENT_S):
        await shared_limit.acquire(ME, tokens)


async def test_who_is_cancelled_while_another_call_ends_takes_no_place_with_it() -> None:
    """The turn of a call that ran out of time comes in the very moment in which it is not yet out of the queue."""
    shared_limit = limit_of(MemoryRegisters(), concurrency=1)
    async with running(shared_limit.run):
        await acquired(shared_limit)
        late = asyncio.create_task(shared_limit.acquire(ME, 10))
        next_one = asyncio.create_task(shared_limit.acquire(ME, 10))
        await asyncio.sleep(0)
        late.cancel()
        shared_limit.release(10, 10)
        async with asyncio.timeout(PATIENT_S):
            await next_one
        assert (await asyncio.gather(late, return_exceptions=True))[0].__class__ is asyncio.CancelledError
        shared_limit.release(10, 10)
        await acquired(shared_limit)


async def test_tokens_that_a_call_left_over_are_given_back_where_only_they_are_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ahead = [0.0]
    monkeypatch.setattr(limits, "monotonic", lambda: monotonic() + ahead[0])
    monkeypatch.setattr(limits, "RENEW_S", 0.01)
    registers = MemoryRegisters()
    shared_limit = limit_of(registers, tokens_per_minute=10_000)
    async with running(shared_limit.run):
        await acquired(shared_limit, 5_000)
        shared_limit.release(5_000, 200)
        await eventually(lambda: not registers.use.holders, PATIENT_S)  # no slots any more, and nothing waits
        ahead[0] = 10.0
        await eventually(lambda: sum(one.tokens for one in registers.use.given) == 200, PATIENT_S)


def test_a_time_that_a_provider_asks_for_is_bounded_here_too() -> None:
    shared_limit = limit_of(MemoryRegisters(), concurrency=1)
    shared_limit.release(0, 0, 86_400.0)
    assert LONGEST_PAUSE_S - 5 < shared_limit.paused_s <= LONGEST_PAUSE_S


async def test_a_register_that_cannot_be_read_is_an_empty_one() -> None:
    registers = MemoryRegisters()
    registers.body, registers.revision = b"\xff{not a register", 7
    shared_limit = limit_of(registers, concurrency=1)
    async with running(shared_limit.run) as (loop,):
        waiting = asyncio.create_task(acquired(shared_limit))
        await asyncio.wait((loop, waiting), return_when=asyncio.FIRST_COMPLETED, timeout=PATIENT_S)
        assert waiting.done()
        assert not loop.done()
    assert registers.revision > 7


def limiter_of(places: int, held: list[int] | None = None) -> ProviderLimiter:
    limit = {"local": ProviderLimit(concurrency=1)}
    return ProviderLimiter(
        limit,
        MemoryRegisters(),
        structlog.get_logger(),
        DeciderMetrics(CollectorRegistry()),
        hold=[].append if held is None else held.append,
        places=places,
    )


async def test_who_waits_for_a_limited_provider_gives_its_place_to_others_and_who_is_too_many_soon_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two may stand aside; a third waits in its place, but not for half of its step's time."""
    monkeypatch.setattr(limits, "CROWDED_WAIT_S", 0.05)
    held: list[int] = []
    limiter = limiter_of(2, held)
    asked = request(model="local:m", timeout_ms=600_000)
    async with running(*limiter.loops), asyncio.timeout(PATIENT_S):
        permit = await limiter.acquire(asked, GO)
        held.clear()
        lent_slots = [asyncio.create_task(limiter.acquire(asked, GO)) for _ in range(2)]
        await asyncio.sleep(0)
        assert held == [-1, -1]
        with pytest.raises(NoProviderCapacityError):
            await limiter.acquire(asked, GO)
        begun = asyncio.create_task(limiter.acquire(asked, GO, begun=True))  # what was paid already waits all the same
        await asyncio.sleep(0.1)
        for waiting in (*lent_slots, begun):
            limiter.release(permit, None)
            permit = await waiting
    assert held == [-1, -1, -1, 1, 1, 1]


async def test_projects_take_turns_at_a_limited_provider_whatever_their_callers() -> None:
    limiter = limiter_of(8)
    served: list[str] = []

    async def call(project: str, caller: str) -> None:
        asked = request(model="local:m", timeout_ms=600_000).model_copy(update={"project": project, "caller": caller})
        permit = await limiter.acquire(asked, GO)
        served.append(caller)
        limiter.release(permit, None)

    async with running(*limiter.loops), asyncio.timeout(PATIENT_S):
        first = await limiter.acquire(request(model="local:m", timeout_ms=600_000), GO)
        callers = [("many", f"m{place}") for place in range(3)] + [("one", "single")]
        waiting = [asyncio.create_task(call(*whose)) for whose in callers]
        await asyncio.sleep(0)
        limiter.release(first, None)
        await asyncio.gather(*waiting)
    assert served == ["m0", "single", "m1", "m2"]


class FixedReply:
    """A provider whose answers are never of the form; it is asked again, or fails for a while."""

    def __init__(self, reply: ModelReply | ModelCallFailure) -> None:
        self.reply = reply

    def offers_tools(self, _request: Any) -> bool:
        return False

    async def complete(self, _request: Any, _question: ModelQuestion, _hear: Any) -> ModelReply | ModelCallFailure:
        return self.reply

    async def close(self) -> None:
        """Nothing is open."""


class SingleCallLimiter(ProviderLimiter):
    """Lets one call in, and no other."""

    def __init__(self) -> None:
        super().__init__(
            {}, MemoryRegisters(), structlog.get_logger(), DeciderMetrics(CollectorRegistry()), hold=[].append
        )
        self.turns = 1

    async def acquire(self, request: Any, question: ModelQuestion, *, begun: bool = False) -> ProviderPermit:
        self.turns -= 1
        if self.turns < 0:
            provider = "local"
            raise NoProviderCapacityError(provider)
        return await super().acquire(request, question, begun=begun)


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (ModelReply(text="no idea", usage=Usage(model_calls=1), cost=NOTHING), "invalid_output"),
        (ModelCallFailure(code="model_unavailable", message="503", retryable=True), "model_unavailable"),
    ],
)
async def test_a_request_that_was_paid_is_not_reported_as_unasked(
    reply: ModelReply | ModelCallFailure, code: str
) -> None:
    """It would be asked anew, and paid anew, without an end; what its first call said is its answer."""
    limiter = SingleCallLimiter()
    service = DecisionMaker({"local": FixedReply(reply)}, sleep=lambda _seconds: asyncio.sleep(0), limiter=limiter)
    first, second = [(await service.answer(request(model="local:m"))).fact for _ in "ab"]
    assert isinstance(first, DecisionFailedFact)
    assert isinstance(second, DecisionFailedFact)
    assert (first.code, second.code) == (code, CALL_UNASKED)


def test_the_tokens_of_a_call_are_estimated_by_its_characters_and_the_last_answers() -> None:
    limit = limit_of(MemoryRegisters(), tokens_per_minute=10_000)
    turn = ConversationTurn(role="user", text="x" * 4_000)
    question = ModelQuestion(instructions="", turns=(turn,))
    prompt = len(question.text) // 4
    assert limit.tokens_of(question, 10_000) == prompt + 512, "before anything is known of the model"
    assert limit.tokens_of(question, 100) == prompt + 100
    limit.record_output_tokens(80)
    assert limit.tokens_of(question, 10_000) == prompt + 80
