"""Who comes next: turns of callers, priorities that age, children and their parents, on the real tables."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
import structlog
from prometheus_client import CollectorRegistry
from tests.conftest import DatabaseUrl

from towpath_contracts.events.log import RunCreated
from towpath_fabric.postgres.pool import open_pool
from towpath_orchestrator.app.admission import AdmissionController
from towpath_orchestrator.app.local_facts import LocalFactQueue
from towpath_orchestrator.app.run_activity import RunActivity
from towpath_orchestrator.metrics import OrchestratorMetrics
from towpath_orchestrator.settings import OrchestratorSettings

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
INSERT = (
    "INSERT INTO runs.run (run_id, project, kind, network, version, snapshot_digest, status, seq, caller, priority,"
    " created_at, updated_at, parent_run_id, queue_at) VALUES ($1, $8, 'network', $2, 1, 'd', $3, 1, $4,"
    " $5::smallint, $6, $6, $7,"
    " CASE WHEN $7::uuid IS NULL THEN $6::timestamptz - make_interval(secs => $5::smallint * 30) END)"
)
UNDER_WAY = "SELECT run_id, caller FROM runs.run WHERE status = 'running' ORDER BY started_at, run_id"


class QueueTables:
    """The queue as the tables have it; what is admitted runs, in order of admission, until it is let go."""

    def __init__(self, owner: Any, pool: Any) -> None:
        self.owner = owner
        self.pool = pool
        self.made = 0
        self.begun: list[UUID] = []
        self.local_facts = LocalFactQueue(asyncio.Event())

    def admission(self, room: int, **more: Any) -> AdmissionController:
        shares = {"max_active_share": 1, "max_project_share": 1, **more}
        settings = OrchestratorSettings(max_active_runs=room, **shares)
        return AdmissionController(
            self.pool,
            settings,
            OrchestratorMetrics(CollectorRegistry()),
            self.local_facts,
            structlog.get_logger(),
            RunActivity(),
        )

    async def add(
        self,
        caller: str,
        count: int = 1,
        *,
        status: str = "queued",
        priority: int = 5,
        at: datetime = NOW,
        parent: UUID | None = None,
        network: str = "n",
        project: str = "default",
    ) -> list[UUID]:
        ids = [UUID(int=self.made + place + 1) for place in range(count)]
        self.made += count
        await self.owner.executemany(
            INSERT, [(run, network, status, caller, priority, at, parent, project) for run in ids]
        )
        return ids

    async def admitted(self, admission: AdmissionController) -> list[str]:
        """Look once; returns the callers of what begins, in order."""
        before = len(self.begun)
        await admission.admit()
        self.begun += [fact.run_id for fact in self.local_facts.take(1_000)]
        callers = []
        for place, run_id in enumerate(self.begun[before:], start=before):
            text = "UPDATE runs.run SET status = 'running', started_at = $2 WHERE run_id = $1 RETURNING caller"
            callers.append(await self.owner.fetchval(text, run_id, NOW + timedelta(seconds=place)))
        return callers

    async def end_oldest(self, caller: str | None = None) -> None:
        rows = await self.owner.fetch(UNDER_WAY)
        first = next(row["run_id"] for row in rows if caller in (None, row["caller"]))
        await self.set(first, "completed")

    async def set(self, run_id: UUID, status: str) -> None:
        await self.owner.execute("UPDATE runs.run SET status = $2 WHERE run_id = $1", run_id, status)


@pytest.fixture
async def queue(database: DatabaseUrl) -> AsyncIterator[QueueTables]:
    owner, pool = await asyncpg.connect(database()), await open_pool(database("orchestrator"), 2, "test")
    yield QueueTables(owner, pool)
    await owner.close()
    pool.terminate()


async def test_of_the_next_twenty_runs_ten_are_those_of_who_came_last(queue: QueueTables) -> None:
    """A flood of one caller: 2,000 wait, then another comes with 10."""
    admission = queue.admission(8)
    await queue.add("flood", 2_000)
    assert await queue.admitted(admission) == ["flood"] * 8
    await queue.add("other", 10)
    order: list[str] = []
    while len(order) < 20:
        await queue.end_oldest()
        order += await queue.admitted(admission)
    assert order.count("other") == 10
    assert order[:4] == ["other"] * 4, "whoever holds nothing comes first, until both hold the same"


async def test_more_callers_than_room_take_turns(queue: QueueTables) -> None:
    """With room for one run, nobody's age wins twice: three floods and one who came last are served in a circle."""
    admission = queue.admission(1)
    for caller in ("a", "b", "c", "late"):
        await queue.add(caller, 4)
    order: list[str] = []
    for _ in range(16):
        order += await queue.admitted(admission)
        await queue.end_oldest()
    assert [set(order[place : place + 4]) for place in range(0, 16, 4)] == [{"a", "b", "c", "late"}] * 4


async def test_a_higher_priority_comes_first_until_the_others_have_waited_long_enough(queue: QueueTables) -> None:
    """30 s of waiting count as much as one step of priority; across callers priority means nothing."""
    old = await queue.add("me", priority=2, at=NOW - timedelta(seconds=121))
    low = await queue.add("me", priority=2)
    high = await queue.add("me", priority=6)
    highest = await queue.add("me", priority=10)
    await queue.add("you", priority=0)
    admission = queue.admission(100)
    order = await queue.admitted(admission)
    assert [run for run in queue.begun if run in {*old, *low, *high, *highest}] == [*highest, *old, *high, *low]
    assert order.index("you") <= 1


async def test_a_parent_gives_its_room_to_its_children_and_they_come_before_new_runs(queue: QueueTables) -> None:
    """Two parents fill the room of two; their children take it over, and nothing waits for ever."""
    admission = queue.admission(2)
    parents = await queue.add("me", 2)
    await queue.admitted(admission)
    assert queue.begun == parents
    new = await queue.add("me", 2, priority=10, at=NOW - timedelta(hours=1))
    children = [run for parent in parents for run in await queue.add("me", 2, parent=parent, at=NOW)]
    await queue.admitted(admission)
    assert queue.begun[2:] == children[:2]
    await queue.admitted(admission)
    assert len(queue.begun) == 4, "the room is full"
    for child in children[:2]:
        await queue.set(child, "completed")
    await queue.admitted(admission)
    assert queue.begun[4:] == children[2:3], "the first parent goes on, and holds room again"
    await queue.set(parents[0], "completed")
    await queue.admitted(admission)
    assert queue.begun[5:] == children[3:]
    await queue.set(children[2], "completed")
    await queue.set(children[3], "waiting")
    await queue.admitted(admission)
    assert queue.begun[6:] == new, "a parent whose child waits for a person holds no room either"


async def test_a_tree_of_one_caller_leaves_the_next_room_to_another(queue: QueueTables) -> None:
    """One run with many children: they take their caller's turns."""
    admission = queue.admission(4)
    (parent,) = await queue.add("tree", status="running")
    await queue.add("tree", 60, parent=parent)
    assert await queue.admitted(admission) == ["tree"] * 4
    await queue.add("other", 10)
    order: list[str] = []
    while len(order) < 20:
        await queue.end_oldest()
        order += await queue.admitted(admission)
    assert order.count("other") == 10


async def test_while_too_many_runs_wait_for_people_only_children_begin(queue: QueueTables) -> None:
    """New runs would only wait as well; a child is what a begun run needs to end."""
    (parent,) = await queue.add("me", status="running")
    await queue.add("me", 3, status="waiting")
    await queue.add("me", 2, priority=10)
    children = await queue.add("me", 2, parent=parent)
    await queue.admitted(queue.admission(10, max_waiting_runs=3))
    assert queue.begun == children


async def test_one_project_leaves_room_to_others_whatever_its_callers_and_networks(queue: QueueTables) -> None:
    admission = queue.admission(10, max_active_share=0.8, max_project_share=0.9)
    for place in range(12):
        await queue.add(f"c{place % 3}", network=f"n{place % 2}", project="greedy")
    assert len(await queue.admitted(admission)) == 9
    assert await queue.admitted(admission) == []
    await queue.add("late", 3, project="other")
    assert await queue.admitted(admission) == ["late"]
    await queue.end_oldest("c0")
    assert await queue.admitted(admission) == ["late"], "the greedy one holds eight, the other one"


async def test_a_project_with_many_callers_takes_no_more_turns_than_one_with_a_single_caller(
    queue: QueueTables,
) -> None:
    """Fifty callers flood; another project's only caller comes with 10, and gets half of what becomes free."""
    admission = queue.admission(8)
    for place in range(50):
        await queue.add(f"flood-{place}", 4, project="greedy")
    assert len(await queue.admitted(admission)) == 8
    await queue.add("late", 10, project="other")
    order: list[str] = []
    while len(order) < 20:
        await queue.end_oldest()
        order += await queue.admitted(admission)
    assert order[:4] == ["late"] * 4, "the project that holds nothing comes first, until both hold the same"
    assert order.count("late") == 10
    flooding = [caller for caller in order if caller != "late"]
    assert len(set(flooding)) == len(flooding), "of the one project its callers take turns"


async def test_runs_that_people_let_go_on_all_at_once_leave_room_to_other_projects(queue: QueueTables) -> None:
    admission = queue.admission(10, max_project_share=0.9)
    await queue.add("resumed", 40, status="running", project="greedy")
    await queue.add("more", 2, project="greedy")
    await queue.add("late", 3, project="other")
    assert await queue.admitted(admission) == ["late"]
    await queue.end_oldest("late")
    assert await queue.admitted(admission) == ["late"]


async def test_runs_of_one_project_that_wait_for_people_stop_no_other_project(queue: QueueTables) -> None:
    admission = queue.admission(10, max_waiting_runs=10, max_project_share=0.9)
    await queue.add("asks", 29, status="waiting", project="greedy")
    [parent] = await queue.add("asks", 1, status="waiting", project="greedy")
    await queue.set(parent, "running")
    await queue.add("asks", 2, project="greedy")
    await queue.add("child", 1, parent=parent, project="greedy")
    await queue.add("late", 2, project="other")
    assert sorted(await queue.admitted(admission)) == ["child", "late", "late"]


async def test_a_project_that_fills_the_queue_leaves_a_part_of_it_to_others(queue: QueueTables) -> None:
    admission = queue.admission(1, max_queued_runs=20, max_project_share=0.5)
    await queue.owner.execute("INSERT INTO gateway.principal (caller, project) VALUES ('a', 'greedy'), ('b', 'greedy')")
    await queue.add("a", 5, project="greedy")
    await queue.add("b", 5, project="greedy")
    for project, caller in (("greedy", "b"), ("other", "late")):
        admission.starts_at_once(RunCreated.model_construct(project=project, caller=caller, network="n"))
    admission.stored()
    await queue.admitted(admission)
    assert admission.is_queue_share_used("b", 1)
    assert not admission.is_queue_share_used("late", 1)
