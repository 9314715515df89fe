"""What tools one project has is bounded; a person withdraws what is not needed, and reloads parse only what is new."""

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from tests.support.tas.tas_caller import query, tool
from tests.support.tas.tas_running import Running, audit_holds, running, shared_tas, tas

from towpath_contracts import rpc
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.calls import ToolSpec
from towpath_embedded.servers.nats import Nats
from towpath_fabric.postgres.pool import open_pool
from towpath_tas.adapters.ledger_tables import QUERIES
from towpath_tas.app import policy_cache
from towpath_tas.app.policy_cache import PolicyCache
from towpath_tas.metrics import TasMetrics

__all__ = ["audit_holds", "shared_tas", "tas"]

DESCRIPTION = "d" * 4_000


def long_tool(name: str, **changes: Any) -> ToolSpec:
    return tool(f"orders.{name}", "pure", operation="read", description=DESCRIPTION, **changes)


async def test_a_project_has_so_many_tools_and_characters_and_no_more(
    nats_server: Nats, database: Callable[..., str], folder: Path
) -> None:
    bounds = {"max_project_tools": "6", "max_project_tool_chars": "9000"}
    async with running(nats_server, database, folder, **bounds) as place:
        caller = place.caller
        await caller.set_up()
        await caller.register(long_tool("a"))
        with pytest.raises(ProblemError) as refused:
            await caller.register(tool("orders.b", "pure"), tool("orders.c", "pure"))
        assert refused.value.problem.code == "project_tools_full"
        assert "default would have 7 tools" in str(refused.value.problem.detail)
        with pytest.raises(ProblemError, match="project_tools_full"):
            await caller.register(long_tool("b"))
        names = [spec.name for spec in (await caller.ask(rpc.DESCRIBE_TOOLS, project="default")).tools]
        assert "orders.a" in names and not {"orders.b", "orders.c"} & set(names), "all or nothing of a registration"
        await caller.register(), await caller.register(long_tool("a"))
        await caller.register(tool("orders.b", "pure"))


async def test_each_version_that_waits_takes_the_room_of_a_tool(
    nats_server: Nats, database: Callable[..., str], folder: Path
) -> None:
    async with running(nats_server, database, folder, auth="on", max_project_tools="6") as place:
        caller = place.caller
        await caller.set_up()
        for words in ("one", "two"):
            (standing,) = (await caller.register(tool("orders.refund", "pure", summary=words))).standings
            assert standing.status == "pending"
        with pytest.raises(ProblemError, match="project_tools_full"):
            await caller.register(tool("orders.refund", "pure", summary="three"))
        (standing,) = (await caller.register(tool("orders.refund", "pure", summary="two"))).standings
        assert standing.status == "pending", "what waits already takes no more room"


async def test_a_worker_of_another_toolset_holds_and_releases_no_calls(
    nats_server: Nats, database: Callable[..., str], folder: Path
) -> None:
    async with running(nats_server, database, folder, auth="on") as place:
        caller, found = place.caller, tool("orders.look", "pure", discovered=True, definition="first")

        async def held() -> list[int]:
            rows = await query(place.dsn, "SELECT version FROM tas.tool WHERE project = $1 AND held", caller.project)
            return [row["version"] for row in rows]

        await caller.register(found)
        (standing,) = (
            await caller.register(found.model_copy(update={"toolset": "other", "definition": "x"}))
        ).standings
        assert (standing.status, await held()) == ("pending", []), "its own server offers what was accepted"
        await caller.register(found.model_copy(update={"definition": "second"}))
        assert await held() == [3]
        await caller.register(found.model_copy(update={"toolset": "other"}))
        assert await held() == [3]
        await caller.register(found)
        assert await held() == []


async def test_a_withdrawn_tool_is_gone_and_stays_refused_when_it_is_offered_again(tas: Running) -> None:
    caller = tas.caller
    asked = {"project": caller.project, "name": "orders.find", "actor": "paula", "accept": False, "withdraw": True}
    (first,) = (await caller.register(tool("orders.find", "pure", operation="read", summary="Find."))).standings
    assert (first.status, first.version) == ("accepted", 2)
    with pytest.raises(ProblemError, match="not_found"):
        await caller.ask(rpc.DECIDE_PROPOSAL, **asked, version=1)
    await caller.ask(rpc.DECIDE_PROPOSAL, **asked, version=2, reason="no worker has it")
    with pytest.raises(ProblemError, match="not_found"):
        await caller.ask(rpc.DECIDE_PROPOSAL, **asked, version=2)
    denied = await caller.fact(await caller.put(caller.request("orders.find")), "tool.denied")
    assert denied["denial"]["violation_type"] == "tool_unknown"
    (entry,) = await caller.audit(tool="orders.find", actor="paula")
    assert (entry.phase, entry.detail["versions"]) == ("tool.withdrawn", [1, 2])
    standing = (await caller.register()).standings[0]
    assert (standing.status, standing.reason) == ("pending", "refused: the tool was withdrawn")
    await caller.ask(rpc.DECIDE_PROPOSAL, **{**asked, "withdraw": False, "accept": True}, version=1)
    assert (await caller.call("orders.find")).tool == "orders.find"
    phases = [entry.phase for entry in await caller.audit(tool="orders.find", actor="paula")]
    assert phases == ["tool.withdrawn", "tool.reinstated"]


async def test_a_reload_reads_and_parses_the_specs_that_are_new(tas: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tas.caller.project
    pool = await open_pool(tas.dsn, 1, "test")
    cache = PolicyCache(TasMetrics(CollectorRegistry()))
    parsed: list[str] = []
    parse = ToolSpec.model_validate_json

    def noted(text: str) -> ToolSpec:
        spec = parse(text)
        parsed.append(spec.name)
        return spec

    monkeypatch.setattr(ToolSpec, "model_validate_json", noted)
    try:
        for reason, expected in (
            ("at first all", ["orders.find", "orders.refund", "orders.ship", "orders.tag"]),
            ("then nothing", []),
            ("one that is new", ["orders.a"]),
            ("one that has changed", ["orders.a"]),
        ):
            if reason.startswith("one"):
                await tas.caller.register(long_tool("a", summary=reason))
            parsed.clear()
            cache.forget(project)
            bundle = await cache.of(pool, project)
            assert sorted(parsed) == expected, reason
        assert bundle.registry.tools["orders.a"].spec.summary == reason
        rows = await query(
            tas.dsn, "SELECT chars, length(spec::text) AS real FROM tas.tool WHERE project = $1", project
        )
        assert all(row["chars"] == row["real"] for row in rows)
        monkeypatch.setattr(policy_cache, "PARSED_AT_ONCE", 0)
        assert set((await PolicyCache(TasMetrics(CollectorRegistry())).of(pool, project)).registry.specs()) >= {
            "orders.a",
            "orders.find",
        }, "also in a thread"
    finally:
        pool.terminate()


OLDER = """
INSERT INTO tas.tool (project, name, version, digest, spec, chars, status, reason, toolset, owner, worker)
SELECT t.project, t.name, t.version + g, md5(t.name || g), t.spec, t.chars, 'accepted', '', t.toolset, t.owner, t.worker
FROM tas.tool t, generate_series(1, $2::integer) g WHERE t.project = $1 AND t.version = 1
"""


async def test_old_versions_are_not_read_in_a_table_that_was_never_analysed(tas: Running) -> None:
    names = [f"orders.old{place}" for place in range(50)]
    await tas.caller.register(*(tool(name, "pure") for name in names))
    await query(tas.dsn, OLDER, tas.caller.project, 100)
    pool = await open_pool(tas.dsn, 1, "test")
    try:
        for statement, asked in (
            (QUERIES.tool_specs, (tas.caller.project, names, [1] * len(names))),
            (QUERIES.tool_versions, (tas.caller.project, names)),
        ):
            plan = "\n".join(row[0] for row in await pool.fetch(f"EXPLAIN (ANALYZE) {statement}", *asked))
            assert "Hash Join" not in plan and "Bitmap Heap Scan" not in plan, plan
    finally:
        pool.terminate()


async def test_projects_whose_specs_are_too_long_in_all_are_dropped_from_memory(
    tas: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_cache, "MAX_SPEC_CHARS", 1)
    pool = await open_pool(tas.dsn, 1, "test")
    cache = PolicyCache(TasMetrics(CollectorRegistry()))
    try:
        await cache.of(pool, tas.caller.project)
        await cache.of(pool, "another")
        assert cache.known(tas.caller.project) is None and cache.known("another") is not None
        assert (await cache.of(pool, tas.caller.project)).registry.tools["orders.find"].version == 1
    finally:
        pool.terminate()


async def test_queues_are_told_of_the_own_toolsets_and_shared_ones_only_where_they_are_asked_for(tas: Running) -> None:
    caller = tas.caller
    await caller.set_up()
    invocation = await caller.call("orders.find")
    [queue] = (await caller.ask(rpc.LIST_QUEUES, project=caller.project)).queues
    assert (queue.toolset, queue.consumer) == ("orders", f"exec_{caller.project}=orders")
    assert (queue.waits, queue.listeners, queue.missing) == (1, 0, False), "nobody takes from it"
    assert (await caller.ask(rpc.LIST_QUEUES, project="another")).queues == ()
    await caller.register(tool("lonely.read", "pure", operation="read", toolset="lonely"))
    await caller.nc.jetstream().delete_consumer("TOOLEXEC", f"exec_{caller.project}=lonely")
    [named] = (await caller.ask(rpc.LIST_QUEUES, project=caller.project, toolset="lonely")).queues
    assert (named.toolset, named.missing) == ("lonely", True)
    found = await caller.ask(rpc.LIST_QUEUES, project=caller.project, platform=True)
    assert {one.toolset: one.missing for one in found.queues if one.toolset} == {"lonely": True, "orders": False}
    assert ("TOOLREQ", "tas") in {(one.stream, one.consumer) for one in found.queues if one.listeners}
    assert {fill.stream for fill in found.streams} >= {"TOOLEXEC", "EVENTS"}
    of_run = {"project": caller.project, "run_id": invocation.run_id}
    assert (await caller.ask(rpc.LIST_QUEUES, **of_run)).queues == (), "the call has only just come"

    async def waits_for() -> list[str]:
        return [queue.toolset for queue in (await caller.ask(rpc.LIST_QUEUES, **of_run)).queues]

    for _ in range(300):
        if found := await waits_for():
            break
        await asyncio.sleep(0.2)
    assert found == ["orders"]
    assert (await caller.ask(rpc.LIST_QUEUES, project=caller.project, run_id=uuid.uuid4())).queues == ()
