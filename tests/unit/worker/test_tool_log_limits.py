"""A tool's log is bounded, and a call is probed only where tool access says so."""

import asyncio
import dataclasses
import json
from typing import Any
from uuid import UUID

import pytest

from towpath_contracts.tools.calls import ToolInvocation
from towpath_fabric.nats.bus import Bus
from towpath_fabric.settings import Settings
from towpath_worker.adapters.tool_log import ToolLogWriter
from towpath_worker.app.call import WorkerCall
from towpath_worker.app.start_claims import StartClaimResult

ID = UUID(int=7)
CALL = ToolInvocation.model_construct(execution_id=ID, run_id=ID, project="p", tool="desk.send", toolset="desk")


class Collected(ToolLogWriter):
    """Keeps what would be posted."""

    def __init__(self) -> None:
        super().__init__(Bus("worker", Settings(nats_url="nats://127.0.0.1:1")), "w")
        self.lines: list[bytes] = []

    def _post(self, subject: str, body: bytes) -> None:
        assert subject
        self.lines.append(body)


async def written(*messages: str, **fields: Any) -> list[bytes]:
    """Return the lines of one call."""
    log = Collected()
    write = log.for_call(CALL)
    for message in messages:
        write("info", message, fields)
    await asyncio.sleep(0)
    return log.lines


async def test_a_call_writes_a_thousand_lines_of_4096_characters() -> None:
    lines = await written("x" * 4_097, *["more"] * 1_000)
    assert len(lines) == 1_000 and json.loads(lines[0])["message"] == "x" * 4_096


@pytest.mark.parametrize(("more", "sent"), [(0, 1), (1, 0)])
async def test_a_line_has_at_most_16_kib(more: int, sent: int) -> None:
    (empty,) = await written("m", a="")
    assert len(await written("m", a="x" * (16_384 - len(empty) + more))) == sent


@pytest.mark.parametrize(("kind", "field"), [(WorkerCall, "probing"), (StartClaimResult, "probe")])
def test_no_call_is_probed_unasked(kind: Any, field: str) -> None:
    (found,) = [one for one in dataclasses.fields(kind) if one.name == field]
    assert not found.default
