"""What `towpath demo crash` adds to the demo: its orchestrator is killed in the middle, and the calls are counted.

The process is of the demo's own platform, which starts it again as it does with every process that ends. That a tool
was called once is counted in two places that know nothing of each other: the audit, and the shop's own database.
"""

import asyncio
import json
import os
import signal
import sqlite3
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from towpath.cli.administration.embedded_platform import EmbeddedPlatform
from towpath.cli.runs.run_follower import GateHandler
from towpath.cli.shared.output import OutputPrinter
from towpath.client.client import Client
from towpath_contracts.events.log import GateOpened
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_fabric.clock import monotonic

KILLED = "orchestrator"
RESTART_TIMEOUT_S = 60.0
"""Until the platform has started the process again; it does so at once, but a machine may be busy."""
PID_POLL_S = 0.05
PHASE = "outcome"
"""Of the entry of the audit that every call which a worker was sent has once."""


@dataclass(slots=True)
class OrchestratorKill:
    """Kills the orchestrator of *platform* once, right after *decide* has settled the first gate."""

    platform: EmbeddedPlatform
    decide: GateHandler
    found: dict[str, Any] = field(default_factory=dict)
    refunds_before: int = 0

    async def at_gate(self, client: Client, gate: GateOpened, out: OutputPrinter) -> None:
        """Have the gate decided, then kill the process that has to carry the decision out, and wait for the next."""
        first = not self.found
        if first:
            self.refunds_before = self._refunds()
        await self.decide(client, gate, out)
        if first:
            await self._kill(out)

    async def _kill(self, out: OutputPrinter) -> None:
        began = monotonic()
        while not (killed := self._pid()):  # it is being started again just now; 0 would mean this process's own group
            if monotonic() - began > RESTART_TIMEOUT_S:
                raise ProblemError(problem("service_failed", "no orchestrator is there that could be killed"))
            await asyncio.sleep(PID_POLL_S)
        os.kill(killed, signal.SIGKILL)
        began = monotonic()
        out.write(f"  ✕ towpath  kill -9 {killed}: the orchestrator, right after the decision", "bold red")
        while (pid := self._pid()) in {0, killed}:
            if monotonic() - began > RESTART_TIMEOUT_S:
                raise ProblemError(
                    problem("service_failed", f"the orchestrator, killed as pid {killed}, did not return")
                )
            await asyncio.sleep(PID_POLL_S)
        away_s = round(monotonic() - began, 2)
        out.write(f"  ↻ towpath  started again as pid {pid} after {away_s:.1f} s; the same run goes on", "bold green")
        self.found = {"killed_pid": killed, "started_pid": pid, "away_s": away_s}

    async def count_calls(self, client: Client, run_id: UUID, out: OutputPrinter) -> dict[str, Any]:
        """Show how often each tool was called in the run, by the audit and by the shop; returns the numbers."""
        page = await client.audit.search(run_id=run_id, limit=1_000)
        ids: dict[str, set[UUID | None]] = defaultdict(set)
        outcomes: dict[str, int] = defaultdict(int)
        for entry in page.entries:
            if entry.phase == PHASE and entry.tool:
                ids[entry.tool].add(entry.execution_id)
                outcomes[entry.tool] += 1
        out.write("\n  how often the tools were called, before and after the kill together:", "bold")
        for tool, found in sorted(ids.items()):
            out.write(f"  {tool:<14} {_counted(outcomes[tool], 'time')}  execution {', '.join(map(str, found))}")
        refunds = self._refunds() - self.refunds_before
        out.write(f"  the shop's own database has {_counted(refunds, 'refund')} more of order 8812")
        return {"orchestrator": self.found, "calls": dict(outcomes), "refunds": refunds}

    def _refunds(self) -> int:
        return booked_refunds(Path(self.platform.state["sample"]) / "orders.sqlite3")

    def _pid(self) -> int:
        """Return the pid of the orchestrator as the platform says it now; 0 while there is none."""
        state = json.loads((Path(self.platform.state["data"]) / "state.json").read_text("utf-8"))
        return int(state["processes"].get(KILLED, {}).get("pid") or 0)


def booked_refunds(shop: Path) -> int:
    """Return how many refunds of the demo's order the shop itself has booked; none before it was asked anything."""
    if not shop.is_file():
        return 0
    with closing(sqlite3.connect(f"file:{shop}?mode=ro", uri=True)) as database:
        (count,) = database.execute("SELECT count(*) FROM refunds WHERE order_id = '8812'").fetchone()
    return int(count)


def was_called_once(result: dict[str, Any]) -> bool:
    """Return whether no tool was called twice, and the shop agrees with the audit about the refund."""
    calls = result["calls"]
    return set(calls.values()) == {1} and result["refunds"] == calls.get("orders.refund", 0)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"
