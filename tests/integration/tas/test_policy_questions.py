"""Dry runs share the loop with decisions: they are computed beside it, one of a project at a time."""

import asyncio
import json
import threading
import uuid
from typing import Any

import asyncpg
import pytest
from prometheus_client import CollectorRegistry
from tests.support.shared_threads import no_shared_thread
from tests.support.tas.tas_running import Running, shared_tas, tas

from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.access import AccessVerdict, ApplyPolicy, CheckAccess, GetPermissions, GetPolicy
from towpath_contracts.tools.policy import ListPolicyVersions
from towpath_tas.app.policy import access_queries, policies, policy_versions, policy_warnings
from towpath_tas.app.policy.access_queries import AccessQueries
from towpath_tas.app.policy.policies import PolicyStore
from towpath_tas.app.policy.policy_threads import PolicyThreads
from towpath_tas.app.policy.policy_versions import PolicyVersionRequests
from towpath_tas.app.policy_cache import PolicyCache
from towpath_tas.core.authorization import ProjectAuthorizer
from towpath_tas.core.policy.matrix import Matrix
from towpath_tas.metrics import TasMetrics

__all__ = ["shared_tas", "tas"]

COSTLY = (
    (ProjectAuthorizer, "authorize"),
    (Matrix, "trace"),
    (access_queries, "canonical_json"),
    (policy_warnings, "doubts_about_question"),
    (policy_warnings, "agents_of"),
)
"""What takes longer the more is asked."""

SHOWN = (
    (Matrix, "candidates"),
    (access_queries, "delegates_in"),
    (access_queries, "AgentPermissions"),
    (policies, "PolicyView"),
    (policy_versions, "PolicyChangeLog"),
    (policy_versions, "_rule_changes"),
)
"""What takes longer the more rules a policy has."""


async def test_a_network_is_read_once_for_each_version_however_often_a_policy_is_asked(
    tas: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    agents_of = policy_warnings.agents_of

    def noted(spec: str) -> Any:
        read.append(spec)
        return agents_of(spec)

    monkeypatch.setattr(policy_warnings, "agents_of", noted)
    project, threads = f"many-{uuid.uuid4().hex[:8]}", PolicyThreads().questions
    async with asyncpg.create_pool(tas.dsn, min_size=1, max_size=1) as pool:
        published = policy_warnings.PublishedAgents(pool)
        for version in (1, 2):
            await pool.execute("INSERT INTO runs.snapshot VALUES ($1, '{}') ON CONFLICT DO NOTHING", project)
            for name in ("a", "b") if version == 1 else ("b",):
                spec = json.dumps({"name": name, "agents": [{"key": f"{name}{version}"}]})
                stored = "INSERT INTO runs.network_version VALUES ($1, $2, $3, $1, $4, now(), 'me')"
                await pool.execute(stored, project, name, version, spec)
            async with threads.turn(project):
                found = [await published.of(project, threads) for _ in range(2)][-1]
    assert {name: agents[0].key for name, agents in found.items()} == {"a": "a1", "b": "b2"}
    assert [json.loads(spec)["agents"][0]["key"] for spec in read] == ["a1", "b1", "b2"]


async def test_dry_runs_are_computed_beside_the_loop_and_one_of_a_project_at_a_time(
    tas: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[str] = set()
    counting = threading.Lock()
    inside = most = 0

    def noted(compute: Any) -> Any:
        def note(*args: Any, **named: Any) -> Any:
            nonlocal inside, most
            threads.add(threading.current_thread().name.rpartition("_")[0])
            with counting:
                inside += 1
                most = max(most, inside)
            try:
                return compute(*args, **named)
            finally:
                with counting:
                    inside -= 1

        return note

    for owner, name in COSTLY:
        monkeypatch.setattr(owner, name, noted(getattr(owner, name)))
    question = CheckAccess(project=tas.caller.project, network="n", agent_key="a", tool="orders.find", args={"a": 1})
    async with asyncpg.create_pool(tas.dsn, min_size=4, max_size=4) as pool, no_shared_thread():
        queries = AccessQueries(pool, PolicyCache(TasMetrics(CollectorRegistry())), PolicyThreads())
        answers: list[AccessVerdict] = await asyncio.gather(*(queries.check(question) for _ in range(30)))
    assert {one.verdict for one in answers} == {"deny"}
    assert threads == {"policy-questions"}
    assert most == 1


async def test_rights_rules_and_changes_are_shown_beside_the_loop_and_rules_stored_so(
    tas: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: dict[str, set[str]] = {}

    def note(owner: Any, name: str) -> None:
        compute = getattr(owner, name)

        def noted(*args: Any, **named: Any) -> Any:
            threads.setdefault(name, set()).add(threading.current_thread().name.rpartition("_")[0])
            return compute(*args, **named)

        monkeypatch.setattr(owner, name, noted)

    project = tas.caller.project
    async with asyncpg.create_pool(tas.dsn, min_size=2, max_size=2) as pool, no_shared_thread():
        cache, turns = PolicyCache(TasMetrics(CollectorRegistry())), PolicyThreads()
        queries, store = AccessQueries(pool, cache, turns), PolicyStore(pool, cache, turns)
        versions = PolicyVersionRequests(pool, store, turns)
        for owner, name in (*SHOWN, (policies, "rule_row"), (policies, "rules_digest")):
            if name != "delegates_in":  # the project has no network
                note(owner, name)
        text = "kind: Policy\nrules:\n  - {name: two, effect: deny, tool: orders.refund}\n"
        applied = await store.apply(ApplyPolicy(project=project, actor="ann", text=text))
        allowed = await queries.permissions(GetPermissions(project=project, network="n", agent_key="a"))
        shown = await store.show(GetPolicy(project=project))
        log = await versions.changes(ListPolicyVersions(project=project))
    assert (applied.version, allowed.policy_version, shown.version) == (2, 2, 2)
    assert [one.tool for one in allowed.permissions] == ["orders.refund"]
    assert [rule["name"] for rule in shown.rules] == ["two"]
    assert {(one.name, one.change) for one in log.changes[0].changes} == {("two", "added"), ("everything", "removed")}
    assert {name: threads.pop(name) for name in ("rule_row", "rules_digest")} == {
        "rule_row": {"policy-texts"},
        "rules_digest": {"policy-texts"},
    }
    assert set(threads) == {name for _, name in SHOWN} - {"delegates_in"}
    assert set().union(*threads.values()) == {"policy-questions"}


async def test_rules_that_fit_no_answer_are_refused_before_they_are_parsed(
    tas: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (f"  - {{name: r{number}, effect: deny, tool: t{number}}}\n" for number in range(6_000))
    await tas.caller.apply("kind: Policy\nrules:\n" + "".join(lines))
    project = tas.caller.project

    def unwanted(*_: Any, **__: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(policies, "_view", unwanted)
    async with asyncpg.create_pool(tas.dsn, min_size=2, max_size=2) as pool:
        cache, turns = PolicyCache(TasMetrics(CollectorRegistry())), PolicyThreads()
        store = PolicyStore(pool, cache, turns)
        with pytest.raises(ProblemError) as refusal:
            await store.show(GetPolicy(project=project))
        assert refusal.value.problem.code == "answer_too_large"
        monkeypatch.undo()
        assert len((await store.show_text(GetPolicy(project=project))).text) > 200_000
