"""Dry runs share the loop with decisions: they are computed beside it, one of a project at a time."""

import asyncio
import threading
from typing import Any

import asyncpg
import pytest
from prometheus_client import CollectorRegistry
from tests.support.shared_threads import no_shared_thread
from tests.support.tas.tas_running import Running, shared_tas, tas

from towpath_contracts.tools.access import AccessVerdict, CheckAccess
from towpath_tas.app.policy import access_queries, policy_warnings
from towpath_tas.app.policy.access_queries import AccessQueries
from towpath_tas.app.policy.policy_threads import PolicyThreads
from towpath_tas.app.policy_cache import PolicyCache
from towpath_tas.core.authorization import ProjectAuthorizer
from towpath_tas.core.policy.matrix import Matrix
from towpath_tas.metrics import TasMetrics

__all__ = ["shared_tas", "tas"]

COSTLY = (
    (ProjectAuthorizer, "authorize"),
    (Matrix, "trace"),
    (access_queries, "canonical_json"),
    (policy_warnings, "unknown_agents"),
    (policy_warnings, "agents_of"),
)
"""What takes longer the more is asked."""


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
