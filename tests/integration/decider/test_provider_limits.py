"""Limits of a provider, kept by all deciders together: real processes, a real broker, and a server that counts."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import nats
import pytest
import structlog
from prometheus_client import CollectorRegistry
from tests.docs_site.taken_blocks import settings_of, taken
from tests.support.decider.counting_model import counting
from tests.support.decider.decision_requests import POOL, OrchestratorPeer, eventually, shorten_ack_wait
from tests.support.decider.decisions import RESPOND, as_text, context, request
from tests.support.service_process import ServiceProcess, service_process

from towpath_contracts import subjects
from towpath_contracts.decisions.provider_limits import ProviderLimit
from towpath_contracts.decisions.request import CALL_UNASKED, DecisionRequest
from towpath_contracts.facts import DecisionFailedFact, DecisionMadeFact
from towpath_contracts.ids import request_id
from towpath_contracts.streams import decide_consumer
from towpath_decider.app.provider_limiter import ProviderLimiter
from towpath_decider.core.conversation import ConversationTurn, ModelCallFailure, ModelQuestion
from towpath_decider.metrics import DeciderMetrics
from towpath_embedded.servers.nats import Nats
from towpath_fabric.nats.bus import Bus
from towpath_fabric.nats.kv_register import SharedRegisters
from towpath_fabric.nats.streams import ensure_streams
from towpath_fabric.settings import Settings
from towpath_fabric.turns.task_end import end_tasks

TEXT = as_text(RESPOND)
PATIENT_S = 90.0


@pytest.fixture
async def orchestrator(nats_server: Nats) -> AsyncIterator[OrchestratorPeer]:
    nc = await nats.connect(nats_server.url())
    await ensure_streams(nc, (decide_consumer(POOL),))
    orchestrator = OrchestratorPeer(nc)
    await nc.subscribe(subjects.RUN_INBOX_ALL, cb=orchestrator.on_fact)
    yield orchestrator
    await nc.close()


def decider(stack: ExitStack, folder: Path, url: str, model: str, **limit: int) -> ServiceProcess:
    return limited_decider(stack, folder, url, model, json.dumps({"local": limit}))


def limited_decider(stack: ExitStack, folder: Path, url: str, model: str, limits: str) -> ServiceProcess:
    settings = {"local_url": model, "decider_deltas": "0", "provider_limits": limits}
    return stack.enter_context(service_process("decider", folder, url, **settings))


async def ask_all(orchestrator: OrchestratorPeer, count: int, **changes: Any) -> None:
    for number in range(count):
        run = uuid.UUID(int=(1 << 100) + number)
        wanted = {"model": "local:m", "run_id": run, "request_id": request_id(run, 1, "decide", 0), **changes}
        await orchestrator.ask(request(**wanted))


def made(orchestrator: OrchestratorPeer) -> set[uuid.UUID]:
    return {fact.run_id for fact in orchestrator.facts if isinstance(fact, DecisionMadeFact)}


async def test_two_deciders_never_have_more_calls_at_once_than_their_provider_allows(
    nats_server: Nats, folder: Path, orchestrator: OrchestratorPeer
) -> None:
    """As the page limits them; also after one is killed with calls under way, whose places come back to the other."""
    limits = settings_of(taken("docs/scheduling.md: TOWPATH_PROVIDER_LIMITS"))["TOWPATH_PROVIDER_LIMITS"]
    await shorten_ack_wait(orchestrator, 8.0)
    patient = {"timeout_ms": 170_000, "lease_ms": 180_000}
    with counting(TEXT, takes_s=0.3, tokens=100) as model, ExitStack() as stack:
        first, second = (limited_decider(stack, folder, nats_server.url(), model.url, limits) for _ in "ab")
        for process in (first, second):
            await process.wait_ready()
        await ask_all(orchestrator, 30, **patient)
        await eventually(lambda: model.calls >= 6, PATIENT_S)
        first.kill()
        await eventually(lambda: len(made(orchestrator)) == 30, PATIENT_S)
        assert model.most == json.loads(limits)["local"]["concurrency"] == 2


async def test_tokens_of_a_minute_are_not_exceeded_and_who_finds_no_place_is_asked_anew(
    nats_server: Nats, folder: Path, orchestrator: OrchestratorPeer
) -> None:
    """Two deciders, a minute of 3,000 tokens, 30 calls of 400: whoever is not let in comes back unasked."""
    with counting(TEXT, takes_s=0.1, tokens=400) as model, ExitStack() as stack:
        for process in [decider(stack, folder, nats_server.url(), model.url, tokens_per_minute=3_000) for _ in "ab"]:
            await process.wait_ready()
        await ask_all(orchestrator, 30, timeout_ms=20_000, lease_ms=25_000)
        await eventually(lambda: len(orchestrator.facts) == 30, PATIENT_S)
    unasked = [fact for fact in orchestrator.facts if isinstance(fact, DecisionFailedFact)]
    assert {fact.code for fact in unasked} == {CALL_UNASKED}
    assert {fact.usage.model_calls for fact in unasked} == {0}
    assert model.calls == len(made(orchestrator))
    assert 2 <= model.calls <= 3_000 // 400


async def test_what_waits_for_a_limited_provider_is_no_wait_for_another(
    nats_server: Nats, folder: Path, orchestrator: OrchestratorPeer
) -> None:
    """As many requests as the decider has places wait for the next minute of theirs; another provider answers now."""
    patient = {"timeout_ms": 170_000, "lease_ms": 180_000}
    limits = json.dumps({"local": {"requests_per_minute": 1}})
    with counting(TEXT, takes_s=0.0, tokens=10) as model, ExitStack() as stack:
        settings = {"local_url": model.url, "decider_deltas": "0", "decider_concurrency": "4"}
        process = stack.enter_context(
            service_process("decider", folder, nats_server.url(), provider_limits=limits, **settings)
        )
        await process.wait_ready()
        await ask_all(orchestrator, 5, **patient)
        await eventually(lambda: len(made(orchestrator)) == 1, PATIENT_S)
        run = uuid.uuid4()
        await orchestrator.ask(
            request(model="none:m", run_id=run, request_id=request_id(run, 1, "decide", 0), **patient)
        )
        await eventually(lambda: any(fact.run_id == run for fact in orchestrator.facts), PATIENT_S)
        assert model.calls == 1
        process.kill()


async def limiter(stack: Any, url: str, limit: ProviderLimit, tasks: list[asyncio.Task[None]]) -> ProviderLimiter:
    bus = Bus("decider", Settings(nats_url=url))
    await bus.connect()
    stack.append(bus)
    found = ProviderLimiter(
        {"local": limit},
        SharedRegisters(bus, "providers"),
        structlog.get_logger(),
        DeciderMetrics(CollectorRegistry()),
        hold=lambda _: None,
    )
    tasks += [asyncio.create_task(loop()) for loop in found.loops]
    return found


def wanted(caller: str = "me") -> tuple[DecisionRequest, ModelQuestion]:
    asked = request(model="local:m", caller=caller, run_id=uuid.uuid4(), timeout_ms=170_000, context=context())
    return asked, ModelQuestion(instructions="Decide.", turns=(ConversationTurn(role="user", text="Go."),))


async def test_a_pause_that_one_decider_gets_holds_for_all_and_callers_take_turns(
    nats_server: Nats, orchestrator: OrchestratorPeer
) -> None:
    """Two limiters on one broker; the provider refuses one for its rate, and names a time."""
    buses: list[Bus] = []
    tasks: list[asyncio.Task[None]] = []
    limit = ProviderLimit(concurrency=1)
    one, other = [await limiter(buses, nats_server.url(), limit, tasks) for _ in range(2)]
    try:
        place = await one.acquire(*wanted())
        order: list[str] = []

        async def call(caller: str) -> None:
            held = await one.acquire(*wanted(caller))
            order.append(caller)
            one.release(held, None)

        waiting = [asyncio.create_task(call(caller)) for caller in ("flood", "flood", "flood", "other")]
        await asyncio.sleep(0)
        one.release(place, None)
        async with asyncio.timeout(PATIENT_S):
            await asyncio.gather(*waiting)
        assert order == ["flood", "other", "flood", "flood"]
        last = await one.acquire(*wanted())
        refused = ModelCallFailure(code="model_rate_limited", message="slowly", retryable=True, retry_after_s=45.0)
        one.release(last, refused)
        assert one.paused_s("local") > 30
        waiter = asyncio.create_task(other.acquire(*wanted()))
        await eventually(lambda: other.paused_s("local") > 20, PATIENT_S)
        assert not waiter.done()
        waiter.cancel()
    finally:
        await end_tasks(tasks)
        for bus in buses:
            await bus.close()
