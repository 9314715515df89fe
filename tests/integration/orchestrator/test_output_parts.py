"""Parts of outputs on their way from the log to a call: only what the run was given, and nobody waits for them."""

import asyncio
import json
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from tests.conftest import DatabaseUrl
from tests.support.engine.machine import RUN, Machine, use, use_all

from towpath_contracts import facts
from towpath_contracts.canonical import canonical_json, digest_text
from towpath_contracts.events import log as ev
from towpath_contracts.runs.records import ForkedFrom
from towpath_fabric.clock import monotonic
from towpath_fabric.postgres.pool import open_pool
from towpath_fabric.telemetry.logs import get_logger
from towpath_orchestrator.app.commit import output_reader
from towpath_orchestrator.app.commit.inbox import InboxFact
from towpath_orchestrator.app.commit.output_reader import OutputReader

PARENT = UUID("01930000-0000-7000-8000-000000000009")
LARGE = "a line of it, " * 50_000
PREVIEW = {"head": "a line", "tail": "of it, ", "size": len(LARGE)}


async def store(dsn: str, run_id: UUID, *events: Any) -> None:
    """Write *events* as the log of a run, with the project's blob of LARGE."""
    connection = await asyncpg.connect(dsn)
    try:
        for seq, event in enumerate(events, 1):
            await connection.execute(
                "INSERT INTO runs.run_event (run_id, seq, at, type, event) VALUES ($1, $2, now(), $3, $4)",
                *(run_id, seq, event.type, event.model_dump_json()),
            )
        data = canonical_json(LARGE).encode()
        for project in ("default", "bank"):
            await connection.execute(
                "INSERT INTO runs.blob (project, digest, data, size) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
                *(project, digest_text(data), data, len(data)),
            )
    finally:
        await connection.close()


def with_large_result() -> tuple[Machine, UUID]:
    """Return a run whose first call has a result in the blob store, and the id of that call."""
    machine = Machine()
    machine.decide(use("echo", text="a"))
    execution_id = machine.call_id()
    stored = {"blob": True, "result_digest": digest_text(canonical_json(LARGE)), "preview": PREVIEW}
    machine.finish(result=None, **stored)
    return machine, execution_id


def asks(machine: Machine, tool: str = "output_read", **args: Any) -> InboxFact:
    """Let the agent call *tool*, and return the fact that it may."""
    machine.decide(use_all((tool, args)))
    fact = facts.InternalToolPermittedFact(run_id=RUN, execution_id=machine.call_id())
    return InboxFact(fact=fact, text="")


async def part_at_once(reader: OutputReader, machine: Machine, item: InboxFact) -> Any:
    await reader.load({RUN: machine.state}, {RUN: [item]})
    assert isinstance(item.fact, facts.InternalToolPermittedFact)
    return item.fact.output


async def part(reader: OutputReader, machine: Machine, item: InboxFact) -> Any:
    """Return the part once it is there: on a busy machine the first try may be over too soon."""
    async with asyncio.timeout(60):
        while (found := await part_at_once(reader, machine, item)) is None:
            pass
    return found


async def test_a_part_comes_with_the_fact_as_it_is_stored_with_it(database: DatabaseUrl) -> None:
    machine, execution_id = with_large_result()
    await store(database(), RUN, *(entry.event for entry in machine.entries))
    async with await open_pool(database("orchestrator"), 2, "test") as pool:
        reader = OutputReader(pool, get_logger("test"))
        item = asks(machine, execution_id=str(execution_id), offset=14, limit=6)
        found = await part(reader, machine, item)
        assert (found["text"], found["bytes"], found["next_offset"]) == ("a line", len(LARGE), 20)
        assert json.loads(item.text)["output"] == found
        machine.feed(item.fact)
        assert machine.events(ev.ToolCallFinished)[-1].result["text"] == "a line"
        search = asks(machine, "output_search", execution_id=str(execution_id), text="OF IT", ignore_case=True)
        assert [one["offset"] for one in (await part(reader, machine, search))["matches"]][:2] == [7, 21]


async def test_a_commit_does_not_wait_for_a_log_that_takes_long_and_the_call_asks_again(database: DatabaseUrl) -> None:
    machine, execution_id = with_large_result()
    await store(database(), RUN, *(entry.event for entry in machine.entries))
    async with await open_pool(database("orchestrator"), 2, "test") as pool:
        reader = OutputReader(pool, get_logger("test"))
        item = asks(machine, execution_id=str(execution_id), limit=6)
        held = await asyncpg.connect(database())
        try:
            async with held.transaction():
                await held.execute("LOCK TABLE runs.run_event IN ACCESS EXCLUSIVE MODE")
                began = monotonic()
                assert await part_at_once(reader, machine, item) is None
                assert monotonic() - began < 30  # the table is let go of after it
        finally:
            await held.close()
        machine.feed(item.fact)
        assert machine.events(ev.ToolCallFinished)[-1].execution_id == execution_id, "it has not failed"
        assert [event.effect_id for event in machine.events(ev.EffectResent)] == [machine.call_id()]
        assert (await part(reader, machine, item))["text"] == "a line"


async def test_who_asks_for_a_slow_read_again_and_again_does_not_make_every_commit_wait(
    database: DatabaseUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_reader, "PASS_S", 0.4)
    waits: list[float] = []
    wait = asyncio.wait

    async def noted(tasks: Any, timeout: float) -> Any:
        waits.append(timeout)
        return await wait(tasks, timeout=timeout)

    machine, execution_id = with_large_result()
    async with await open_pool(database("orchestrator"), 2, "test") as pool:
        reader = OutputReader(pool, get_logger("test"))
        item = asks(machine, execution_id=str(execution_id))
        held = await asyncpg.connect(database())
        try:
            async with held.transaction():
                await held.execute("LOCK TABLE runs.run_event IN ACCESS EXCLUSIVE MODE")
                began = monotonic()
                with monkeypatch.context() as patch:
                    patch.setattr(asyncio, "wait", noted)
                    for _ in range(10):
                        assert await part_at_once(reader, machine, item) is None
                turns = 1 + (monotonic() - began) // (output_reader.NO_PASS * 0.4)
                assert len(waits) == 10 and 0.4 <= sum(waits) <= 0.4 * turns, "one of the ten has waited"
        finally:
            await held.close()
        assert not (await part(reader, machine, item))["found"]


async def test_a_run_reads_nothing_of_another_projects_run_whatever_it_says_it_was_forked_from(
    database: DatabaseUrl,
) -> None:
    above, execution_id = with_large_result()
    created, *others = (entry.event for entry in above.entries)
    assert isinstance(created, ev.RunCreated)
    fates = []
    for project in ("bank", "default"):
        async with await open_pool(database("orchestrator"), 2, "test") as pool:
            owner = await asyncpg.connect(database())
            await owner.execute("DELETE FROM runs.run_event")
            await owner.close()
            await store(database(), PARENT, created.model_copy(update={"project": project}), *others)
            fork = Machine(forked_from=ForkedFrom(run_id=PARENT, step=2))
            found = await part(OutputReader(pool, get_logger("test")), fork, asks(fork, execution_id=str(execution_id)))
            fates.append(found["found"])
    assert fates == [False, True]


async def test_a_fork_reads_nothing_of_a_run_that_is_erased(
    database: DatabaseUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_reader, "KEPT_S", 0.2)
    above, execution_id = with_large_result()
    await store(database(), PARENT, *(entry.event for entry in above.entries))
    async with await open_pool(database("orchestrator"), 2, "test") as pool:
        reader = OutputReader(pool, get_logger("test"))
        fork = Machine(forked_from=ForkedFrom(run_id=PARENT, step=2))
        first = asks(fork, execution_id=str(execution_id))
        assert (await part(reader, fork, first))["found"]
        fork.feed(first.fact)
        owner = await asyncpg.connect(database())
        await owner.execute("DELETE FROM runs.run_event")
        await owner.close()
        await asyncio.sleep(0.3)
        assert not (await part(reader, fork, asks(fork, execution_id=str(execution_id))))["found"]
