"""Answers the gates of a campaign: approves what waits, and resolves unknown calls from the outside file.

An unknown call is not resolved while a process is frozen or has just been continued, because that process could still
carry the call out. Nothing is guessed: a call that is in the file happened, every other one did not.
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


class AutomaticGateOperator:
    """Decides at every gate of the platform until it is cancelled."""

    def __init__(self, client: Client, reader: DatabaseReader, outside: Path, injector: FaultInjector) -> None:
        self._client = client
        self._reader = reader
        self._outside = outside
        self._injector = injector
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._answers: dict[str, tuple[str, float]] = {}

    @property
    def answer_counts(self) -> Counter[str]:
        """How often each verdict was accepted, counting a gate once."""
        return Counter(verdict for verdict, _ in self._answers.values())

    async def decide(self) -> None:
        """Answer open gates until cancelled."""
        try:
            while True:
                await asyncio.sleep(LOOK_S)
                for gate in await self._reader.rows(_PENDING) or ():
                    if gate["gate_id"] not in self._busy and len(self._busy) < AT_ONCE and self._may_answer(gate):
                        self._begin(gate)
        finally:
            for task in self._busy.values():
                task.cancel()
            await asyncio.gather(*self._busy.values(), return_exceptions=True)

    def _may_answer(self, gate: Any) -> bool:
        """An answer that was taken may be lost on its way to the run, so it is given again after a while."""
        _, answered = self._answers.get(gate["gate_id"], ("", -AGAIN_S))
        if monotonic() - answered < AGAIN_S:
            return False
        settled = not self._injector.frozen and monotonic() - self._injector.last_continued_at > SETTLED_S
        return gate["gate_type"] == "approval" or settled

    def _begin(self, gate: Any) -> None:
        key = gate["gate_id"]
        task = self._busy[key] = asyncio.create_task(self._answer(gate))
        task.add_done_callback(lambda _: self._busy.pop(key, None))

    async def _answer(self, gate: Any) -> None:
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
            return  # settled meanwhile, or no answer came: the next look shows which
        self._answers[gate["gate_id"]] = (verdict, monotonic())
