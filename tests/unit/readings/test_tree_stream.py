"""Logs of a tree merged into one stream, in any order of reading, and taken up again at any place."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from towpath.client.trees import merged
from towpath.errors import TowpathError, error_from
from towpath_contracts.events.log import (
    CancelAccepted,
    ChildEnded,
    ChildStarted,
    LogEntry,
    NoteAdded,
    RunFinished,
    RunQuarantined,
)
from towpath_contracts.networks.plan import PlanTask
from towpath_contracts.networks.swarm import CompiledSwarm, SelectedSwarm
from towpath_contracts.problems.registry import problem
from towpath_contracts.runs.children import ChildTask
from towpath_readings.stream.tree import TreeEntry, TreeStream, child_name, read_cursor, write_cursor

ROOT = UUID(int=1)
Logs = dict[UUID, list[LogEntry]]


def log(*events: Any) -> list[LogEntry]:
    return [LogEntry(seq=seq, at=datetime(2026, 1, 1, tzinfo=UTC), event=event) for seq, event in enumerate(events, 1)]


def note(text: str) -> NoteAdded:
    return NoteAdded(step=1, text=text)


def started(child: int, agent: str) -> ChildStarted:
    return ChildStarted(child_id=UUID(int=child), step=1, index=0, task=ChildTask(agent_key=agent, user_message="x"))


def ended(child: int) -> ChildEnded:
    return ChildEnded(child_id=UUID(int=child), step=1, index=0, status="completed")


DONE = RunFinished(status="completed", reason="responded", final={}, steps=1, fence=0)


def family() -> Logs:
    """A root with two children at once and a third later; the first has a child of its own."""
    return {
        ROOT: log(
            note("r1"),
            started(2, "a"),
            started(3, "b"),
            note("r2"),
            ended(2),
            ended(3),
            started(5, "b"),
            ended(5),
            DONE,
        ),
        UUID(int=2): log(note("a1"), started(4, "deep"), ended(4), note("a2"), DONE),
        UUID(int=3): log(note("b1"), note("b2"), DONE),
        UUID(int=4): log(note("d1"), DONE),
        UUID(int=5): log(note("c1"), DONE),
    }


PARKED = RunQuarantined(code="execution_conflict", message="")


def parked(child: int, child_seq: int) -> ChildEnded:
    return ended(child).model_copy(update={"status": "quarantined", "child_seq": child_seq})


def broken_family() -> Logs:
    """A root with a child that is parked and goes on to hear of its own, and one that ends before its own does."""
    return {
        ROOT: log(started(2, "a"), started(3, "b"), parked(2, 2), note("r1"), ended(3), note("r2"), DONE),
        UUID(int=2): log(started(4, "deep"), PARKED, ended(4), note("a1")),
        UUID(int=3): log(started(5, "deep"), DONE),
        UUID(int=4): log(note("d1"), DONE),
        UUID(int=5): log(note("e1"), note("e2"), DONE),
    }


def read(logs: Logs, chance: random.Random, cursor: str = "") -> Iterator[tuple[TreeEntry, str]]:
    """Read all logs by chance, each piece of a run in order; yield what is sent, with the cursor after it."""
    tree = TreeStream(ROOT, read_cursor(cursor) if cursor else None)
    at: dict[UUID, int] = {}
    while left := [one for one in tree.runs if at.get(one, 0) < len(logs[one])]:
        run = chance.choice(left)
        at[run] = at.get(run, 0) + 1
        for found in tree.take(run, logs[run][at[run] - 1]):
            yield found, tree.cursor
        if at[run] == len(logs[run]) and logs[run][-1].event == DONE:
            for found in tree.end(run):
                yield found, tree.cursor
    assert tree.is_over


def names(given: list[TreeEntry]) -> list[tuple[UUID, int]]:
    return [(one.run_id, one.seq) for one in given]


@pytest.mark.parametrize("seed", range(25))
def test_b12_a_tree_is_sent_once_in_the_order_of_cause_and_taken_up_anywhere(seed: int) -> None:
    """Row B12 across children: each run in order, children between their start and their end, resumption exact."""
    logs, chance = family(), random.Random(seed)
    found, cursors = map(list, zip(*read(logs, chance), strict=True))
    assert sorted(names(found)) == sorted((run, one.seq) for run, entries in logs.items() for one in entries)
    for run, entries in logs.items():
        assert [one.seq for one in found if one.run_id == run] == [one.seq for one in entries]
    paths = {one.run_id: one.path for one in found}
    assert paths == {
        ROOT: (),
        UUID(int=2): ("a",),
        UUID(int=3): ("b",),
        UUID(int=4): ("a", "deep"),
        UUID(int=5): ("b",),
    }
    place = {name: where for where, name in enumerate(names(found))}
    for one in found:
        if isinstance(one.event, ChildStarted | ChildEnded):
            of_child = [where for (run, _), where in place.items() if run == one.event.child_id]
            here = place[one.run_id, one.seq]
            assert all(where > here for where in of_child) or isinstance(one.event, ChildEnded)
            assert all(where < here for where in of_child) or isinstance(one.event, ChildStarted)
    for where in range(len(found)):
        rest = [one for one, _ in read(logs, chance, cursors[where])]
        assert sorted(names(found[: where + 1]) + names(rest)) == sorted(names(found)), where
        assert {one.run_id: one.path for one in rest}.items() <= paths.items()


@pytest.mark.parametrize("seed", range(25))
def test_b12_a_parked_child_holds_nobody_up_and_what_comes_later_is_sent(seed: int) -> None:
    """Row B12 across children: a run that is parked or ends before its own children do; resumption is exact."""
    logs, chance = broken_family(), random.Random(seed)
    found, cursors = map(list, zip(*read(logs, chance), strict=True))
    assert sorted(names(found)) == sorted((run, one.seq) for run, entries in logs.items() for one in entries)
    place = {name: where for where, name in enumerate(names(found))}
    assert place[UUID(int=2), 2] < place[ROOT, 3] and place[UUID(int=3), 2] < place[ROOT, 5]
    for where in range(len(found)):
        rest = [one for one, _ in read(logs, chance, cursors[where])]
        assert sorted(names(found[: where + 1]) + names(rest)) == sorted(names(found)), where


def test_b12_the_end_of_a_parked_child_waits_for_what_it_had_logged_and_no_longer() -> None:
    logs, tree, child = broken_family(), TreeStream(ROOT), UUID(int=2)
    held = [one for entry in logs[ROOT] for one in tree.take(ROOT, entry)]
    assert names(held) == [(ROOT, 1), (ROOT, 2)] and tree.is_held(ROOT)
    assert names(list(tree.take(child, logs[child][0]))) == [(child, 1)]
    assert names(list(tree.take(child, logs[child][1]))) == [(child, 2), (ROOT, 3), (ROOT, 4)]
    assert names(list(tree.end(UUID(int=3)))) == [(ROOT, 5), (ROOT, 6), (ROOT, 7)]
    assert list(tree.end(ROOT)) == [] and not tree.is_over, "a run below the parked one goes on"
    assert list(tree.end(UUID(int=4))) == [] and tree.is_over


def test_b12_a_parked_child_that_is_cancelled_is_sent_to_its_end() -> None:
    tree, child = TreeStream(ROOT), UUID(int=2)
    for entry in log(started(2, "a"), parked(2, 1), DONE):
        _ = list(tree.take(ROOT, entry))
    _ = list(tree.end(ROOT))
    logged = log(PARKED, CancelAccepted(by="p", fence=1), DONE)
    _ = list(tree.take(child, logged[0]))
    assert tree.is_over
    assert names(list(tree.take(child, logged[1]))) == [(child, 2)] and not tree.is_over
    assert names(list(tree.take(child, logged[2]))) == [(child, 3)] and child in read_cursor(tree.cursor)
    assert list(tree.end(child)) == [] and tree.is_over and read_cursor(tree.cursor) == {ROOT: 3}


def test_b12_children_whose_end_nobody_reported_are_forgotten_when_they_have_ended() -> None:
    logs, tree = broken_family(), TreeStream(ROOT)
    logs[ROOT] = log(started(3, "b"), ended(3))
    for run in (ROOT, UUID(int=3), UUID(int=5)):
        for entry in logs[run]:
            _ = list(tree.take(run, entry))
        found = names(list(tree.end(run))) if run != ROOT else []
        assert found == ([(ROOT, 2)] if run == UUID(int=3) else [])
        assert (UUID(int=5) in read_cursor(tree.cursor)) == (run == UUID(int=3))
    assert read_cursor(tree.cursor) == {ROOT: 2}


def test_b12_a_run_that_can_not_be_read_holds_nobody_up() -> None:
    logs, tree = family(), TreeStream(ROOT)
    listed = [one for entry in logs[ROOT] for one in tree.take(ROOT, entry)]
    assert names(listed)[-1] == (ROOT, 4)
    assert names(list(tree.end(UUID(int=2)))) == [(ROOT, 5)]
    assert names(list(tree.end(UUID(int=3)))) == [(ROOT, 6), (ROOT, 7)]
    assert tree.runs[-1] == UUID(int=5) and not tree.has_ended(UUID(int=5))
    assert names(list(tree.end(UUID(int=5)))) == [(ROOT, 8), (ROOT, 9)]
    assert list(tree.end(ROOT)) == [] and tree.is_over


def test_b12_what_is_taken_twice_is_sent_once() -> None:
    tree, first = TreeStream(ROOT), family()[ROOT][0]
    assert names(list(tree.take(ROOT, first))) == [(ROOT, 1)] and list(tree.take(ROOT, first)) == []


def test_a_cursor_reads_as_it_was_written_and_nothing_else_is_one() -> None:
    fields = {UUID(int=2**127 - 5): 7, ROOT: 123_456}
    assert read_cursor(write_cursor(fields)) == fields
    for text in ("", "7", "x.1", write_cursor(fields) + "~", "~" * 40_000, f"{'a' * 22}.{'9' * 16}", f"{'ä' * 22}.1"):
        with pytest.raises(ValueError, match="not the id of an event"):
            read_cursor(text)


async def test_b12_a_tree_that_is_read_run_by_run_comes_out_the_same_and_fails_with_its_reader() -> None:
    """As over NATS: one reader for each run, as they are begun."""
    logs = family()

    async def reader(run_id: UUID) -> AsyncIterator[LogEntry]:
        for entry in logs[run_id]:
            await asyncio.sleep(0)
            yield entry

    listed = [one async for one in merged(ROOT, reader)]
    assert sorted(names(listed)) == sorted((run, one.seq) for run, entries in logs.items() for one in entries)
    assert names(listed)[-1] == (ROOT, 9)
    for lost, error in ((UUID(int=4), "run_not_found"), (ROOT, "run_not_found"), (UUID(int=3), "unavailable")):

        async def broken(run_id: UUID, lost: UUID = lost, error: str = error) -> AsyncIterator[LogEntry]:
            if run_id == lost:
                raise error_from(problem(error, "not to be had"))
            async for entry in reader(run_id):
                yield entry

        if lost == UUID(int=4):
            assert names([one async for one in merged(ROOT, broken)])[-1] == (ROOT, 9), "it holds nobody up"
            continue
        with pytest.raises(TowpathError, match=error):
            _ = [one async for one in merged(ROOT, broken)]


@pytest.mark.parametrize(
    "logs",
    [
        broken_family(),
        {ROOT: log(started(2, "a"), parked(2, 1), DONE), UUID(int=2): log(PARKED, note("later"), note("last"))},
    ],
)
async def test_b12_a_tree_that_is_read_run_by_run_ends_though_a_child_is_parked(logs: Logs) -> None:
    """As over NATS: a reader of a parked run goes on to wait."""

    async def reader(run_id: UUID) -> AsyncIterator[LogEntry]:
        for entry in logs[run_id]:
            yield entry
        if logs[run_id][-1].event != DONE:
            await asyncio.Event().wait()

    async with asyncio.timeout(60):
        listed = [one async for one in merged(ROOT, reader)]
    assert sorted(names(listed)) == sorted((run, one.seq) for run, entries in logs.items() for one in entries)


def test_a_child_is_named_by_its_swarm_or_its_agent() -> None:
    swarm = SelectedSwarm(name="review", swarm=CompiledSwarm(mode="team", members=("a",), stages=(("a",),)))
    assert child_name(ChildTask(agent_key="a", user_message="", swarm=swarm)) == "review"
    assert child_name(ChildTask(agent_key="a", user_message="", plan=PlanTask(prompt="do it"))) == "plan"
    assert child_name(ChildTask(agent_key="a", user_message="")) == "a"


def test_a_place_in_a_tree_has_32_kib_and_a_longer_one_is_refused_unread() -> None:
    most = {UUID(int=number): 10 for number in range(1_260)}
    assert len(write_cursor(most)) in range(32 * 1_024 - 27, 32 * 1_024 + 1)
    assert read_cursor(write_cursor(most)) == most
    with pytest.raises(ValueError, match="not the id of an event"):
        read_cursor(write_cursor({**most, UUID(int=2_000): 1}))
