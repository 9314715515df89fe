"""A request that waits for its turn: its run is not woken for it, and one that has ended elsewhere leaves the queue."""

from typing import Any
from uuid import UUID

import asyncpg
import structlog
from prometheus_client import CollectorRegistry
from tests.conftest import DatabaseUrl
from tests.support.engine.machine import START, snapshot, task

from towpath_contracts.canonical import digest_text
from towpath_contracts.events.log import LogEntry
from towpath_contracts.facts import CancelRequestedFact, RunAdmittedFact
from towpath_engine.advance import advance
from towpath_engine.replay import create
from towpath_engine.requests.effects import OutgoingEffect
from towpath_engine.state.run import RunState
from towpath_fabric.clock import monotonic
from towpath_fabric.postgres.pool import open_pool
from towpath_orchestrator.adapters.run_store import RunStore
from towpath_orchestrator.app.dispatch.dispatch_windows import WindowedDispatcher
from towpath_orchestrator.app.dispatch.windowed_request_timers import AHEAD_S, WaitingRequestMonitor
from towpath_orchestrator.app.state_cache import StateCache
from towpath_orchestrator.metrics import OrchestratorMetrics
from towpath_orchestrator.settings import OrchestratorSettings

RUN = (
    "INSERT INTO runs.run (run_id, project, kind, network, version, snapshot_digest, status, seq, caller, wake_at,"
    " created_at, updated_at) VALUES ($1, 'default', 'network', 'desk', 1, (SELECT digest FROM runs.snapshot), "
    " 'running', $2, 'me', now(), now(), now())"
)
EVENT = "INSERT INTO runs.run_event (run_id, seq, at, type, event) VALUES ($1, $2, $3, $4, $5)"


def begun(run: int) -> tuple[RunState, list[LogEntry], OutgoingEffect]:
    network = snapshot()
    state, first = create(UUID(int=run), network, task(network, timeout_ms=3_153_600_000_000), START)
    entries, (effect,), state = advance(state, RunAdmittedFact(run_id=state.run_id), START)
    return state, [first, *entries], effect


async def tell(owner: Any, run_id: UUID, entries: list[LogEntry]) -> None:
    rows = [(run_id, one.seq, one.at, one.event.type, one.event.model_dump_json()) for one in entries]
    await owner.executemany(EVENT, rows)


async def test_a_held_request_does_not_wake_its_run_and_leaves_when_the_run_has_ended(database: DatabaseUrl) -> None:
    owner, pool = await asyncpg.connect(database()), await open_pool(database("orchestrator"), 2, "test")
    sent: list[OutgoingEffect] = []

    async def send(effect: OutgoingEffect) -> None:
        sent.append(effect)

    settings = OrchestratorSettings().model_copy(update={"message_window": 1})
    windows, cache, tables = (
        WindowedDispatcher(send, settings, OrchestratorMetrics(CollectorRegistry())),
        StateCache(10),
        RunStore(pool),
    )
    holding = WaitingRequestMonitor(pool, tables, cache, windows, structlog.get_logger())
    try:
        text = snapshot().model_dump_json()
        await owner.execute("INSERT INTO runs.snapshot VALUES ($1, $2)", digest_text(text), text)
        for run in (1, 2, 3):
            state, entries, effect = begun(run)
            await owner.execute(RUN, state.run_id, state.seq)
            await tell(owner, state.run_id, entries)
            cache.put(state)
            await windows.offer(effect, state)
        assert [effect.message.run_id.int for effect in sent] == [1]
        for held in windows.held():
            held.wake = monotonic()  # as if it had waited nearly as long as its resend
        state, _, _ = begun(3)
        ended, _, after = advance(state, CancelRequestedFact(run_id=state.run_id, by="me"), START)
        await tell(owner, state.run_id, list(ended))
        await owner.execute("UPDATE runs.run SET seq = $2 WHERE run_id = $1", state.run_id, after.seq)
        await holding.look()
        assert [held.effect.message.run_id.int for held in windows.held()] == [2]
        (held,) = windows.held()
        assert held.effect.effect.attempt == 1
        woken = "SELECT wake_at > now() + make_interval(secs => $2) FROM runs.run WHERE run_id = $1"
        assert await owner.fetchval(woken, UUID(int=2), 0.0)
        assert not await owner.fetchval(woken, UUID(int=1), 0.0), "what is not held is left alone"
        assert not await owner.fetchval(woken, UUID(int=2), AHEAD_S + 1)
        held.since -= 1_000
        first, _, _ = begun(1)
        windows.settle(first, advance(first, CancelRequestedFact(run_id=first.run_id, by="me"), START)[2])
        await windows.pump()
        assert [effect.message.run_id.int for effect in sent] == [1, 2]
        await holding.look()
        assert await owner.fetchval(woken, UUID(int=2), AHEAD_S + 1), "its time runs from its sending"
        assert not await owner.fetchval(woken, UUID(int=2), held.interval_s + 1)
    finally:
        await owner.close()
        pool.terminate()
