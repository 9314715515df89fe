"""A call that may have been started before is looked up before it runs, and never runs on a guess."""

import asyncio
import time
from typing import Any

import pytest
from tests.support.tas.tas_peer import TasPeer
from tests.support.waiting import eventually
from tests.support.worker.running_worker import serving

from towpath import DidNotHappen, Happened, ToolContext, Unclear, tool
from towpath_contracts.tools.calls import ClaimAnswer, ToolOutcome
from towpath_embedded.servers.nats import Nats

RAN: list[str] = []
PROBED: list[str] = []
SAYS: dict[str, Any] = {}


def _said(order_id: str, ctx: ToolContext) -> Any:
    PROBED.append(f"{order_id} {ctx.execution_id}")
    found = SAYS["probe"]
    if isinstance(found, Exception):
        raise found
    return found


async def look(order_id: str, ctx: ToolContext) -> Any:
    """Find out."""
    if SAYS["probe"] == "hang":
        await asyncio.sleep(3600)
    return _said(order_id, ctx)


def look_in_a_thread(order_id: str, ctx: ToolContext) -> Any:
    """Find out, as a plain function."""
    if SAYS["probe"] == "hang":
        time.sleep(1)
    return _said(order_id, ctx)


@tool(effect_class="reconcilable", probe=look, timeout="500ms")
async def ship(order_id: str, seconds: float = 0.0) -> str:
    """Ship an order."""
    RAN.append(order_id)
    await asyncio.sleep(seconds)
    return "shipped"


@tool(effect_class="reconcilable", probe=look_in_a_thread, timeout="500ms")
def send(order_id: str, seconds: float = 0.0) -> str:
    """Send an order."""
    RAN.append(order_id)
    time.sleep(seconds)
    return "shipped"


TOOLS = (ship, send)
NAMES = ("ship", "send")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    RAN.clear()
    PROBED.clear()
    SAYS.clear()


def granting(probe: str, lease_ms: int = 60_000) -> Any:
    return lambda _asked: ClaimAnswer(granted=True, start_by_ms=5_000, lease_ms=lease_ms, probe=probe)


async def called(tas: TasPeer, name: str, **changes: Any) -> ToolOutcome:
    return await tas.call(name, {"order_id": "A"}, effect_class="reconcilable", **changes)


def short(outcome: ToolOutcome) -> tuple[str, Any, str, bool]:
    uncertain = outcome.failure is not None and outcome.failure.uncertain
    return outcome.status, outcome.result, outcome.probe, uncertain


@pytest.mark.parametrize("name", NAMES)
async def test_the_probe_decides_about_a_call_that_may_have_been_started(nats_server: Nats, name: str) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url(), tools=TOOLS):
        assert short(await called(tas, name)) == ("succeeded", "shipped", "", False)
        assert (RAN, PROBED) == (["A"], []), "a first start needs no probe"
        tas.claim = granting("required")
        for says, expected, runs in (
            (Happened({"order": 7}), ("succeeded", {"order": 7}, "happened", False), 0),
            (DidNotHappen(), ("succeeded", "shipped", "did_not_happen", False), 1),
            (Unclear("no such page"), ("failed", None, "unclear", True), 0),
            (ValueError("broken"), ("failed", None, "failed", True), 0),
            ("yes", ("failed", None, "failed", True), 0),
            (Happened(object()), ("failed", None, "failed", True), 0),
            ("hang", ("failed", None, "failed", True), 0),
        ):
            RAN.clear()
            SAYS["probe"] = says
            tas.claim = granting("required", lease_ms=800) if says == "hang" else granting("required")
            outcome = await called(tas, name)
            assert short(outcome) == expected, says
            assert len(RAN) == runs, says
            if says == Unclear("no such page"):
                assert outcome.failure is not None and "no such page" in outcome.failure.message
        await tas.all_acknowledged()


async def test_a_person_may_let_it_run_although_the_probe_can_not_tell(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url(), tools=TOOLS):
        tas.claim = granting("preferred")
        SAYS["probe"] = Happened("done already")
        assert short(await called(tas, "ship")) == ("succeeded", "done already", "happened", False)
        assert RAN == [], "also then it does not run twice where the probe knows"
        SAYS["probe"] = Unclear()
        assert short(await called(tas, "ship")) == ("succeeded", "shipped", "unclear", False)


async def test_a_later_attempt_is_probed_also_where_nobody_says_so(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url(), tools=TOOLS):
        SAYS["probe"] = Happened("done already")
        assert short(await called(tas, "ship", attempt=2)) == ("succeeded", "done already", "happened", False)
        assert RAN == []


@pytest.mark.parametrize("name", NAMES)
async def test_a_call_that_was_cut_off_is_looked_up_at_once(nats_server: Nats, name: str) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url(), tools=TOOLS):
        ended = name == "ship"
        for says, expected in (
            (Happened("done"), ("succeeded", "done", "happened", False)),
            (DidNotHappen(), ("failed", None, "did_not_happen", not ended)),  # a thread may do it yet
            (Unclear("?"), ("failed", None, "unclear", True)),
        ):
            SAYS["probe"] = says
            outcome = await tas.call(name, {"order_id": "A", "seconds": 1.0}, effect_class="reconcilable")
            assert short(outcome) == expected, says
        await eventually(lambda: len(RAN) == 3)


async def test_a_cancelled_call_is_looked_up_too(nats_server: Nats) -> None:
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url(), tools=TOOLS):
        SAYS["probe"] = DidNotHappen()
        call = tas.invocation("ship", {"order_id": "A", "seconds": 60}, effect_class="reconcilable")
        await tas.dispatch(call)
        await eventually(lambda: RAN == ["A"])
        await tas.cancel(call)
        outcome = await tas.outcome(call)
        assert short(outcome) == ("failed", None, "did_not_happen", False)
        assert outcome.failure is not None and outcome.failure.code == "cancelled"
