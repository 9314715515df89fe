"""`towpath gates watch` and `towpath gates notices`: what waits for people, as it comes and goes.

What is shown is what the platform says when it is asked: the gates that wait for people, page by page, the 10,000
oldest at most. One that comes and goes between two polls is not shown; its run's log has it. Gates that only a switch
opens are left out: no decision of a person settles them. Watching decides nothing.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Literal
from uuid import UUID

from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions
from towpath.cli.shared.output import Column, OutputPrinter
from towpath.cli.shared.text import call_in_words, cut_words, one_line
from towpath.client.client import Client
from towpath.client.resources import GateResource
from towpath_contracts.runs.views import GateView
from towpath_fabric.clock import monotonic

PAGE_SIZE = 500
"""Gates of one page, as many as the platform lists at once."""

MAX_GATES = 10_000
"""Gates of one look; who has more of them open reads no list."""

POLL_S = 1.0
"""Between two looks; people take seconds at best."""

What = Literal["opened", "voted", "closed"]
_MARKS: Mapping[str, tuple[str, str]] = {"opened": ("◐", "yellow"), "voted": ("·", "cyan"), "closed": ("✓", "green")}

_NOTICES = (
    Column("notice", "notice_id"),
    Column("webhook", "webhook"),
    Column("status", "status"),
    Column("kind", "kind"),
    Column("gate", "gate_id", is_id=True),
    Column("tries", "tries"),
    Column("error", "error", is_whole=True),
    Column("since", lambda row: str(row["created_at"])[:19].replace("T", " ")),
)


def quorum_progress(row: Mapping[str, Any]) -> str:
    """Return how far the quorum of a gate is, `1 of 2`; nothing where one person is enough."""
    yes = {vote["actor"] for vote in row.get("votes", ()) if vote["verdict"] != "denied"}
    return f"{len(yes)} of {row['quorum']}" if row.get("quorum", 1) > 1 else ""


def differences(
    known: Mapping[UUID, GateView], pending: Mapping[UUID, GateView]
) -> tuple[list[tuple[What, GateView]], list[UUID]]:
    """Return what is new about the pending gates since the last look, and which were pending then and no longer are."""
    changes: list[tuple[What, GateView]] = []
    for gate_id, gate in pending.items():
        before = known.get(gate_id)
        if before is None:
            changes.append(("opened", gate))
        elif len(gate.votes) > len(before.votes):
            changes.append(("voted", gate))
    return changes, [gate_id for gate_id in known if gate_id not in pending]


def line(what: What, gate: GateView) -> str:
    """Return one change on one line, for a person."""
    row = gate.model_dump(mode="json")
    call = call_in_words({"tool": gate.gate_type, **gate.detail}, 60)
    state = f"{gate.verdict or gate.status} {gate.closed_by}: {one_line(gate.closed_reason, 60)}".strip(" :")
    if what == "opened":
        state = f"waits: {cut_words(gate.reason, 60)}"
    elif what == "voted":
        state = f"{gate.votes[-1].actor} {gate.votes[-1].verdict}, {quorum_progress(row)}"
    return f"{_MARKS[what][0]} {str(gate.gate_id)[:8]}  {call}  {state}"


async def watch(*, until_s: float | None = None, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Show gates as they open, are voted on and close; Ctrl-C ends it.

    Args:
        until_s: Stop after this many seconds.
    """
    out = common.out()
    end = None if until_s is None else monotonic() + until_s
    async with common.connect() as client:
        known: dict[UUID, GateView] = {}
        out.write("watching gates; decide with: towpath gates approve GATE, or deny, or resolve GATE edit", "dim")
        while True:
            pending = await waiting(client.gates)
            changes, gone = differences(known, pending)
            changes += [("closed", gate) for gate in await _closed(client, gone)]
            for what, gate in changes:
                _show(out, what, gate)
            known = pending
            if end is not None and monotonic() >= end:
                return
            await asyncio.sleep(POLL_S)


async def waiting(
    gates: GateResource, at_once: int = PAGE_SIZE, *, root_run_id: UUID | None = None
) -> dict[UUID, GateView]:
    """Return the gates that wait for people, oldest first, *at_once* of them to a page; of one run and those below."""
    found: dict[UUID, GateView] = {}
    after: UUID | None = None
    while len(found) < MAX_GATES:
        page = await gates.page(status="pending", paused=False, after=after, limit=at_once, root_run_id=root_run_id)
        found |= {gate.gate_id: gate for gate in page.gates}
        after = page.next_after
        if after is None:
            break
    return found


async def _closed(client: Client, gone: list[UUID]) -> list[GateView]:
    """Return how the gates ended; one that only slipped from a full page is still pending, and no news."""
    views = [await client.gates.show(gate_id) for gate_id in gone]
    return [view for view in views if view.status != "pending"]


def _show(out: OutputPrinter, what: What, gate: GateView) -> None:
    if out.for_people:
        out.write(line(what, gate), _MARKS[what][1])
    else:
        out.line({"event": what, **gate.model_dump(mode="json")})


async def notices(
    *,
    status: Literal["pending", "sent", "dead", "obsolete", "all"] = "dead",
    retry: UUID | None = None,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """List notices of gates, newest first; by default those that nobody has taken.

    Args:
        status: pending, sent, dead or all.
        retry: Send this dead notice again instead.
    """
    async with common.connect() as client:
        if retry is not None:
            done = await client.gates.retry_notice(retry)
            common.out().record({"notice_id": str(retry), "detail": done.detail}, (Column("done", "detail"),))
            return
        page = await client.gates.notices(status=status)
    rows = [notice.model_dump(mode="json") for notice in page.notices]
    common.out().rows("notices", rows, _NOTICES, empty="No such notice.")
