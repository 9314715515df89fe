"""What a run is told to wait for where no worker takes its calls: asked for rarely, and never in place of the run."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.unit.gateway.protocols.test_a2a import RUN, view

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.views import RunView
from towpath_contracts.tools.queues import ListQueues, QueueList, QueueState
from towpath_gateway.adapters import untaken_calls
from towpath_gateway.adapters.untaken_calls import UntakenCallReader

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
NO_WORKER = QueueState(stream="TOOLEXEC", consumer="c", toolset="orders", waits=1)
WAIT = "tool: no worker takes calls of the toolset orders (start the one that has it: towpath worker MODULE_OR_FILE)"


class ToolAccess:
    """Answers with the queues of a project, and of those with the ones of its runs."""

    def __init__(self, *queues: QueueState) -> None:
        self.queues = queues
        self.of_run: tuple[QueueState, ...] = queues
        self.asked: list[ListQueues] = []
        self.is_away = False

    async def ask(self, asked: ListQueues) -> QueueList:
        self.asked.append(asked)
        if self.is_away:
            raise ProblemError(problem("unavailable", "away"))
        return QueueList(queues=self.queues if asked.run_id is None else self.of_run)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    times = {"now": 100.0}
    monkeypatch.setattr(untaken_calls, "monotonic", lambda: times["now"])
    monkeypatch.setattr(untaken_calls, "wall", lambda: NOW)
    return times


def begun(seconds: float = 60, status: str = "running", **more: Any) -> RunView:
    return view(status, started_at=NOW - timedelta(seconds=seconds), **more)


async def test_a_run_whose_calls_no_worker_takes_says_so_behind_what_else_it_waits_for(clock: Any) -> None:
    tas = ToolAccess(NO_WORKER, NO_WORKER.model_copy(update={"toolset": "mail", "listeners": 1}))
    shown = await UntakenCallReader(tas.ask).add_to(begun(waits=("approval: large",)))
    assert shown.waits == ("approval: large", WAIT)
    assert tas.asked == [ListQueues(project="shop"), ListQueues(project="shop", run_id=RUN)]


@pytest.mark.parametrize(
    ("queue", "told"),
    [
        ({}, True),
        ({"waits": 0, "in_flight": 1}, False),  # its worker is gone, or does one thing at a time
        ({"waits": 0}, False),
        ({"listeners": 1}, False),
        ({"in_flight": 2}, False),  # a worker that is busy asks for nothing more
        ({"in_flight": 2, "redelivered": 1}, True),
        ({"toolset": ""}, False),
    ],
)
async def test_a_worker_that_listens_or_is_busy_is_there(queue: dict[str, Any], told: bool, clock: Any) -> None:
    tas = ToolAccess(NO_WORKER.model_copy(update=queue))
    assert bool((await UntakenCallReader(tas.ask).add_to(begun())).waits) is told


async def test_only_runs_that_go_on_for_four_seconds_are_looked_after(clock: Any) -> None:
    tas = ToolAccess(NO_WORKER)
    reader = UntakenCallReader(tas.ask)
    for run in (begun(3.9), begun(status="waiting"), begun(status="completed"), view("running")):
        assert (await reader.add_to(run)).waits == () and not tas.asked
    assert (await reader.add_to(begun(4.1))).waits == (WAIT,)


async def test_the_queues_of_a_project_are_asked_for_every_two_seconds_however_often_runs_are_read(clock: Any) -> None:
    tas = ToolAccess()
    reader = UntakenCallReader(tas.ask)
    for later, asked in ((0, 1), (1.9, 1), (2.1, 2)):
        clock["now"] = 100.0 + later
        await reader.add_to(begun())
        await reader.add_to(begun())
        assert len(tas.asked) == asked
    await reader.add_to(begun(project="other"))
    assert [one.project for one in tas.asked] == ["shop", "shop", "other"]
    tas.queues, tas.of_run = (NO_WORKER,), ()
    clock["now"] = 110.0
    assert (await reader.add_to(begun())).waits == (), "the calls are another run's"


async def test_where_nobody_says_anything_of_queues_the_run_is_told_all_the_same(clock: Any) -> None:
    tas = ToolAccess(NO_WORKER)
    tas.is_away = True
    reader = UntakenCallReader(tas.ask)
    assert await reader.add_to(begun()) == begun()
    assert (await reader.add_to(begun())).waits == () and len(tas.asked) == 1


async def test_what_is_known_of_256_projects_is_kept(clock: Any) -> None:
    tas = ToolAccess()
    reader = UntakenCallReader(tas.ask)
    for number in range(257):
        await reader.add_to(begun(project=f"p{number}"))
    await reader.add_to(begun(project="p1"))
    assert len(tas.asked) == 257
    await reader.add_to(begun(project="p0"))
    assert len(tas.asked) == 258
