"""Waits for a run on behalf of a call: to its end, until a person has to decide, or for as long as the call may take.

The log is read page by page; each page is told as progress. Whoever stops listening ends the wait, never the run.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from towpath_console.api import Api, ApiRefusalError
from towpath_contracts.runs.statuses import FINAL_STATUSES, STANDING_STATUSES
from towpath_fabric.clock import monotonic
from towpath_gateway.adapters.untaken_calls import TOOL_WAIT
from towpath_gateway.app.protocols.mcp_server.gate_questions import Gate, open_gates

LOOK_S = 2
"""How long one look at the log waits for news: what waits in a run below this one is not in its log."""

RETRY_S = 0.5
PAGE = 200

_ENDS_BY_ITSELF = (TOOL_WAIT, "model: ", "quota: ")
_OF_A_RUN_BELOW = re.compile(r"^.+? in run [0-9a-f-]{36}: ")

ReportProgress = Callable[[float, str], Awaitable[None]]
"""Is told how far the log was read, and what happened there."""

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitedRun:
    """A run after a wait: what the API says of it, and the gates at which it waits.

    `hides_gates` says that the key may not see them.
    """

    view: dict[str, Any]
    gates: Sequence[Gate] = ()
    hides_gates: bool = False

    @property
    def has_ended(self) -> bool:
        """Whether this is how the run ended."""
        return self.view["status"] in FINAL_STATUSES


async def wait_for_run(
    api: Api, run_id: str, seconds: float, stopping: asyncio.Event, report: ReportProgress, *, after: int | None = 0
) -> WaitedRun:
    """Return the run once it has ended, waits for a person, or *seconds* are over; raises ApiRefusalError.

    Events after the seq *after* are reported; where that is None, those from now on. A part of the platform that is
    away only costs time; *stopping* ends the wait at once.
    """
    until, cursor = monotonic() + seconds, after
    while not stopping.is_set():
        left = until - monotonic()
        try:
            if cursor is None:
                cursor = int((await api.get(f"/v1/runs/{run_id}"))["seq"])
            asked = api.get(f"/v1/runs/{run_id}/events", after=cursor, wait=_whole(left), limit=PAGE)
            page = await _unless_stopping(asked, stopping)
        except ApiRefusalError as error:
            if not error.problem.get("retryable") or left <= 0:
                raise
            await asyncio.sleep(RETRY_S)
            continue
        if page is None:
            break
        for entry in page["entries"]:
            cursor = entry["seq"]
            await report(cursor, _words(entry["event"]))
        is_read = cursor >= page["seq"]
        if is_read and (page["status"] in FINAL_STATUSES or await _stands(api, run_id, page["status"])):
            break
        if left <= 0:
            break
    return await look_at(api, run_id)


async def look_at(api: Api, run_id: str) -> WaitedRun:
    """Return the run as it stands now, with what waits in it; raises ApiRefusalError."""
    view = await api.get(f"/v1/runs/{run_id}")
    gates = await open_gates(api, run_id) if view["status"] in STANDING_STATUSES else ()
    return WaitedRun(view=view, gates=gates or (), hides_gates=gates is None)


async def _stands(api: Api, run_id: str, status: str) -> bool:
    """Return whether the run waits for a person; by its own words, where the key may not see the gates."""
    if status not in STANDING_STATUSES:
        return False
    gates = await open_gates(api, run_id)
    return waits_for_person((await api.get(f"/v1/runs/{run_id}"))["waits"]) if gates is None else bool(gates)


def waits_for_person(waits: Sequence[str]) -> bool:
    """Return whether a person has to end any of the *waits* of a run, in its own words.

    A worker comes by itself, and so does the time that a model's provider or the quota of tool calls has asked for.
    """
    return any(not _OF_A_RUN_BELOW.sub("", wait).startswith(_ENDS_BY_ITSELF) for wait in waits)


def _whole(left: float) -> int:
    return max(0, min(LOOK_S, int(left) + 1)) if left > 0 else 0


def _words(event: dict[str, Any]) -> str:
    """Say what happened: the kind of event, with the tool and the step where it names them."""
    named = [str(event[name]) for name in ("tool", "agent_key") if isinstance(event.get(name), str) and event[name]]
    return " ".join([str(event.get("type", "")).replace("_", " "), *named])[:200]


async def _unless_stopping(asked: Awaitable[Found], stopping: asyncio.Event) -> Found | None:
    """Return what *asked* returns; None where the process is to stop before."""
    asking, stop = asyncio.ensure_future(asked), asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait({asking, stop}, return_when=asyncio.FIRST_COMPLETED)
        return asking.result() if asking.done() else None
    finally:
        stop.cancel()
        if not asking.done():
            asking.cancel()
