"""Requests of workers take turns of the projects that their tickets and subjects name."""

import asyncio
import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from towpath_contracts.tools.calls import BlobChunk, EffectClass
from towpath_contracts.tools.tickets import TicketClaims
from towpath_contracts.tools.workers import RegisterTools, ToolRegistrationResult, ToolsRegistered
from towpath_fabric.clock import monotonic
from towpath_fabric.tickets import TicketSigner
from towpath_tas.app.audit.audit_queries import CallBlobRequests
from towpath_tas.app.calls.dispatcher import TicketIssuer
from towpath_tas.app.calls.postgres_clock import PostgresClock
from towpath_tas.app.worker_requests import serve_toolsets
from towpath_tas.app.worker_turns import CHANGE_PAUSE_S, PAUSE_OF_TOOL_S, WorkerTurns

NOW = datetime(2026, 11, 26, tzinfo=UTC)


def ticket(signer: TicketSigner) -> str:
    claims = TicketClaims(
        **{name: uuid.uuid4() for name in ("execution_id", "run_id")},
        attempt=1,
        fence=0,
        policy_version=1,
        tool="t",
        args_digest="",
        effect_class=EffectClass.PURE,
        project="shop",
        issued_at=NOW.timestamp(),
        expires_at=(NOW + timedelta(minutes=5)).timestamp(),
        key_id=signer.key_id,
    )
    return signer.sign(claims)


def test_a_piece_of_a_result_is_read_in_the_turn_of_the_project_that_its_ticket_names() -> None:
    signer = TicketSigner(Ed25519PrivateKey.generate())
    requests = CallBlobRequests(None, TicketIssuer(signer, PostgresClock(), 300), WorkerTurns())
    for signed, owner in ((ticket(signer), "shop"), (ticket(TicketSigner(Ed25519PrivateKey.generate())), ""), ("", "")):
        piece = BlobChunk(digest="d", index=0, total=1, data_base64="", ticket=signed)
        for body in (piece.model_dump_json(), json.dumps(piece.model_dump(mode="json"))):
            assert requests.owner_of("svc.tas.blob_put", body.encode()) == owner
    assert requests.owner_of("svc.tas.blob_put", b"no request") == ""


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that are made, in seconds."""
    made: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        made.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", noted)
    return made


@pytest.mark.parametrize(("status", "pauses"), [("accepted", True), ("pending", True), ("unchanged", False)])
async def test_what_moves_the_tools_of_a_project_waits_for_the_next_change(
    waits: list[float], status: Any, pauses: bool
) -> None:
    """A definition that waits holds the calls of its tool, and the accepted one lets them go again."""
    handlers: list[Callable[..., Any]] = []
    answer = ToolsRegistered(
        standings=(ToolRegistrationResult(name="t", version=1, digest="d", status=status),), ticket_keys={}
    )

    async def taken(_: RegisterTools) -> ToolsRegistered:
        return answer

    bus, tools = SimpleNamespace(subscriber=lambda *_: handlers.append), SimpleNamespace(register=taken)
    others = SimpleNamespace(report=None, beat=None)
    serve_toolsets(bus, tools, others, others)  # type: ignore[arg-type]
    offer = RegisterTools(project="shop", toolset="desk", worker="w", owner="o", tools=())
    began = monotonic()
    for _ in range(2):
        await handlers[0](offer, "shop", "desk")
    assert monotonic() - began >= CHANGE_PAUSE_S * 0.9 if pauses else waits == [0.0, 0.0]


async def test_after_a_change_of_many_tools_the_next_one_waits_for_longer(waits: list[float]) -> None:
    turns, many = WorkerTurns(), round(4 * CHANGE_PAUSE_S / PAUSE_OF_TOOL_S)
    turns.note_change("shop", many)
    for project, least in (("other", 0.0), ("shop", 0.9 * many * PAUSE_OF_TOOL_S)):
        began = monotonic()
        async with turns.after_changes(project):
            took = monotonic() - began
        assert took >= least and (project == "shop" or waits == [0.0])
