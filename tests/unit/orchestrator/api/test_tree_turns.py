"""Pausing a large tree asks about few of its runs at a time, so that others' questions come in between."""

import asyncio
from typing import Any, cast
from uuid import UUID, uuid4

from towpath_contracts.runs.run_control import RUN_PAUSED, SteerRun
from towpath_contracts.runs.views import GatePage, GateView, GetRun, ListGates, ListRuns, RunPage, RunView
from towpath_fabric.ports import MessageBus
from towpath_orchestrator.app.api.queries import RunQueries
from towpath_orchestrator.app.api.run_control import RUNS, RUNS_OF_ONE, RunControl

WIDE = 3 * RUNS_OF_ONE
PAUSE = str(uuid4())


class PausedTree:
    """Answers about a run with many children, all of which are paused; counts what is asked at the same time."""

    def __init__(self) -> None:
        self.root = uuid4()
        self.children = [uuid4() for _ in range(WIDE)]
        self.asked = self.most = 0

    async def get_run(self, request: GetRun) -> RunView:
        return RunView.model_construct(run_id=request.run_id, project=request.project, status="waiting", seq=1)

    async def list_gates(self, request: ListGates) -> GatePage:
        await self._count()
        gate = GateView.model_construct(
            gate_id=uuid4(),
            run_id=cast(UUID, request.run_id),
            gate_type=RUN_PAUSED,
            detail={"pause": PAUSE, "act": PAUSE},
        )
        return GatePage.model_construct(gates=(gate,), next_after=None)

    async def list_runs(self, request: ListRuns) -> RunPage:
        await self._count()
        found = self.children if request.parent_run_id == self.root else []
        runs = tuple(RunView.model_construct(run_id=run_id, status="waiting") for run_id in found)
        return RunPage.model_construct(runs=runs, next_before=None)

    async def _count(self) -> None:
        self.asked += 1
        self.most = max(self.most, self.asked)
        await asyncio.sleep(0.001)
        self.asked -= 1


class Audit:
    """Takes what is told of a person's act."""

    async def request(self, *_asked: Any) -> None:
        """Nothing is kept."""


async def test_a_pause_of_a_wide_tree_asks_about_few_runs_at_a_time() -> None:
    tree = PausedTree()
    control = RunControl(cast(RunQueries, tree), cast(MessageBus, Audit()))
    request = SteerRun(project="p", run_id=tree.root, act="pause", actor="ann")
    acts = 4
    done = await asyncio.gather(*(control.steer(request) for _ in range(acts)))
    assert {one.runs for one in done} == {1 + WIDE}
    assert tree.most <= 24 + acts, "each act itself asks one question beside"
    assert 2 * RUNS_OF_ONE < RUNS, "two projects that pause wide trees leave places for a third"
