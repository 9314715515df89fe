"""Child runs in simulated worlds: errands whose agent may not do one thing, and a colleague in a run of its own may."""

import asyncio
import random
from typing import Any

from tests.simulation.outside.people import SimClient
from tests.support.engine.machine import respond, route, use, use_all

from towpath_contracts.decisions.request import DecisionKind, DecisionRequest
from towpath_contracts.networks.goal import Criterion, GoalSettings, GoalTask
from towpath_contracts.tasks import SubmitTask
from towpath_tas.core.policy.matrix import Rule

CLERK, EXPERT = "clerk", "expert"
FORBIDDEN = "purge"
"""What the clerk is denied and the expert is not."""

ONLY_EXPERTS = Rule(name="never", effect="deny", agent=CLERK, tool=FORBIDDEN)
SHORT_MS = 12_000
"""Time that is often over while a child still works."""

LOOKS = 150
"""A tenth of a second apart: how long a client waits for a colleague to be asked before they cancel."""

AT_THE_CHILD = 0.2
"""How often it is the colleague alone who is stopped."""


class MixedClient(SimClient):
    """Sends agents on errands."""

    def task(self, number: int, key: str) -> SubmitTask:
        """Return a goal that is reached by something else than what is denied, so that it outlives its children."""
        moved = Criterion(when="results.exists(r, r.tool == 'move' && r.status == 'succeeded')")
        late: Any = "gate" if self._world.seed % 2 else "stop"
        autonomy: Any = "high" if number % 2 else "medium"
        settings = GoalSettings(max_steps=8, specialists=(EXPERT,), autonomy=autonomy, on_timeout=late)
        goal = GoalTask(goal=f"Run errand {number}.", acceptance_criteria=(moved,), settings=settings)
        short = SHORT_MS if number % 3 == 1 else None
        return SubmitTask(network="desk", goal=goal, timeout_ms=short, idempotency_key=key)

    async def live(self, number: int) -> None:
        """One errand from its beginning; perhaps it is cancelled while a colleague works on it."""
        await asyncio.sleep(self._chance.random() * 3)
        run_id = await self.submit(number)
        if self._chance.random() >= self._world.cancels:
            return
        for _ in range(LOOKS):
            child = next((r for r, run in self._world.runs.runs.items() if run["parent_run_id"] == run_id), None)
            if child is not None:
                await asyncio.sleep(self._chance.choice((0.0, 0.05, 0.5, 3.0)))
                await self.cancel(child if self._chance.random() < AT_THE_CHILD else run_id)
                return
            await asyncio.sleep(0.1)
        await self.cancel(run_id)


def child_decision(request: DecisionRequest, chance: random.Random) -> dict[str, Any]:
    """What a model wants that runs an errand: mostly what it may not do, so that another is asked."""
    if request.kind is DecisionKind.VALIDATE:
        return {"valid": chance.random() < 0.9}
    if request.kind is DecisionKind.CONFIDENCE:
        return {"confidence": chance.choice((0.6, 0.9))}
    if request.kind is DecisionKind.PROGRESS:
        return {"progress": None}
    draw = chance.random()
    if draw < 0.55:
        return use(FORBIDDEN, text=chance.choice("abcdefgh"))
    if draw < 0.7:
        return use_all((FORBIDDEN, {"text": chance.choice("ab")}), ("put", {"text": chance.choice("cd")}))
    if draw < 0.7 + 0.04 * request.step:
        return use("move", text=chance.choice("abcd"))
    if draw < 0.93:
        return use(chance.choice(("look", "put")), text=chance.choice("abcdefgh"))
    if draw < 0.97:
        return respond("done")
    return route(EXPERT if request.context.agent_key == CLERK else CLERK, "ask")
