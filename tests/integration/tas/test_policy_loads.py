"""The load of one project's large policy holds up no call of another, and goes on until it decides."""

import asyncio
import threading
from uuid import uuid4

import asyncpg
import pytest
import structlog
from prometheus_client import CollectorRegistry
from tests.support.tas.tas_caller import TasCaller
from tests.support.tas.tas_running import Running, shared_tas, tas

from towpath_contracts import rpc
from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_tas.app import loaded_policies
from towpath_tas.app.calls.call_update import NO_CHANGE, CallUpdate
from towpath_tas.app.calls.ledger_context import LedgerContext
from towpath_tas.app.calls.ledger_store import LedgerStore
from towpath_tas.app.calls.postgres_clock import PostgresClock
from towpath_tas.app.loaded_policies import LoadedPolicy, StoredPolicy
from towpath_tas.app.policy_cache import PolicyCache
from towpath_tas.core.call import LedgerChange
from towpath_tas.metrics import TasMetrics

__all__ = ["shared_tas", "tas"]

LARGE = "kind: Policy\nrules:\n" + "\n".join(
    f"  - {{name: r{n}, effect: deny, when: 'false && {n} == 1 && args.a == [{','.join('1' * 400)}]'}}"
    for n in range(30)
)


async def test_calls_of_another_project_are_decided_while_a_policy_is_loaded(
    tas: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tas.caller.apply(LARGE)
    go_on, builds, build = threading.Event(), list[str](), loaded_policies._built_whole
    decided: list[str] = []

    def held(stored: StoredPolicy) -> LoadedPolicy:
        builds.append(threading.current_thread().name.rpartition("_")[0])
        assert go_on.wait(20)
        return build(stored)

    def update(project: str) -> CallUpdate:
        def decide(context: LedgerContext) -> LedgerChange:
            decided.append(f"{project} with {len(context.bundle.matrix.rules)} rules")
            return NO_CHANGE

        return CallUpdate(run_id=uuid4(), execution_id=uuid4(), decide=decide, project=project, read=True)

    monkeypatch.setattr(loaded_policies, "_built_whole", held)
    mine = tas.caller.project
    async with (
        TasCaller(tas.nats.url(), f"{mine}-other") as other,
        asyncpg.create_pool(tas.dsn, min_size=1, max_size=1) as pool,
        asyncio.timeout(60),
    ):
        await other.set_up()
        cache, lane = PolicyCache(TasMetrics(CollectorRegistry())), PinnedDatabaseConnection(pool)
        store = LedgerStore(
            cache, PostgresClock(), TasMetrics(CollectorRegistry()), structlog.get_logger(), cache_calls=10
        )
        await store.read_time(lane)
        try:
            first, beside = update(mine), update(other.project)
            await store.apply(lane, [first, beside])
            assert (first.contested, beside.contested, beside.error) == (True, False, "")
            assert decided == [f"{other.project} with 1 rules"]
        finally:
            go_on.set()
        await cache.policies.wait(mine, None)
        again = update(mine)
        await store.apply(lane, [again])
        assert (again.contested, decided[1:]) == (False, [f"{mine} with 30 rules"])
        for _ in range(2):
            await tas.caller.ask(rpc.SET_SHADOW, project=mine, actor="ann", text="kind: Policy\nrules: []")
            await cache.current(lane, mine)
        await lane.close()
    assert builds == ["policy-loads"]
