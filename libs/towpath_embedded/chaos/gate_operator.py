"""The person at the gates: approves what waits, and says of an unknown call what the outside file says.

Of an unknown call nothing is said while a process is frozen or has just gone on, because it could still act; and
nothing is guessed: what stands in the file happened, what does not did not.
"""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from towpath.client.client import Client
from towpath.errors import TowpathError
from towpath_embedded.chaos.faults import FaultInjector
from towpath_embedded.chaos.outside import read_marks
from towpath_embedded.chaos.run_watcher import DatabaseReader
from towpath_fabric.clock import monotonic

LOOK_S = 0.25
AT_ONCE = 64
AGAIN_S = 3.0
SETTLED_S = 2.0
"""After the last frozen process went on: what it was about to do is done, or refused."""

_PENDING = (
    "SELECT gate_id::text, gate_type, execution_id::text, detail->>'digest' AS digest FROM runs.gate"
    " WHERE status = 'pending' ORDER BY opened_at LIMIT 500"
)


class GateOperator:
    """Decides at every gate of the platform until it is cancelled."""

    def __init__(self, client: Client, reader: DatabaseReader, outside: Path, striker: FaultInjector) -> None:
        self._client = client
        self._reader = reader
        self._outside = outside
        self._striker = striker
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._answers: dict[str, tuple[str, float]] = {}

    @property
    def said(self) -> Counter[str]:
        """How often each verdict was given and taken, once for a gate."""
        return Counter(verdict for verdict, _ in self._answers.values())

    async def decide(self) -> None:
        """Look for open gates and decide, for ever."""
        try:
            while True:
                await asyncio.sleep(LOOK_S)
                for gate in await self._reader.rows(_PENDING) or ():
                    if gate["gate_id"] not in self._busy and len(self._busy) < AT_ONCE and self._may_say(gate):
                        self._begin(gate)
        finally:
            for task in self._busy.values():
                task.cancel()
            await asyncio.gather(*self._busy.values(), return_exceptions=True)

    def _may_say(self, gate: Any) -> bool:
        """What was taken may be lost on its way to the run, so it is said again after a while."""
        _, answered = self._answers.get(gate["gate_id"], ("", -AGAIN_S))
        if monotonic() - answered < AGAIN_S:
            return False
        settled = not self._striker.frozen and monotonic() - self._striker.thawed_at > SETTLED_S
        return gate["gate_type"] == "approval" or settled

    def _begin(self, gate: Any) -> None:
        key = gate["gate_id"]
        task = self._busy[key] = asyncio.create_task(self._say(gate))
        task.add_done_callback(lambda _: self._busy.pop(key, None))

    async def _say(self, gate: Any) -> None:
        try:
            if gate["gate_type"] == "approval":
                await self._client.gates.approve(gate["gate_id"], reason="chaos approves", digest=gate["digest"])
                verdict = "approved"
            else:
                marks = await asyncio.to_thread(read_marks, self._outside)
                happened = any(mark.execution_id == gate["execution_id"] for mark in marks)
                verdict = "happened" if happened else "did_not_happen"
                reason = "it stands in the outside file" if happened else "the outside file does not have it"
                await self._client.gates.resolve(gate["gate_id"], verdict, reason=reason)
        except TowpathError:
            return  # settled meanwhile, or nobody answers: the next look tells
        self._answers[gate["gate_id"]] = (verdict, monotonic())
