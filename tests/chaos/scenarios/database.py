"""Postgres is frozen, killed and refused for a while, or answers only with refusals.

What must hold: nothing is lost, and nothing starts without its claim in the ledger; every process lives on and no one
is started again; new work is refused clearly (503 with Retry-After); work resumes by itself.
"""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncpg
from tests.chaos.load.findings import ScenarioFindings, post_run, signal_tree, slowest_liveness_answer
from tests.chaos.load.steady_load import SteadyLoad
from tests.chaos.scenarios.broker import SETTLE_S, SLOWLY_MS, finish
from tests.chaos.scenarios.catalogue import Scenario, ScenarioContext, ScenarioReport

from towpath_embedded.chaos.outside import read_marks
from towpath_fabric.clock import monotonic, wall

GRACE_S: Final = 8.0
"""What was claimed just before the database went may still begin this long, also on a busy machine."""

DATABASE: Final = "towpath"


async def freeze_and_stop_database(
    work: SteadyLoad, findings: ScenarioFindings, *, runs: int, frozen_s: float, refused_s: float
) -> None:
    """Freeze the database for *frozen_s*, then kill it and keep it away for *refused_s*, while *runs* are under way."""
    await work.submit(runs, steps=8, delay_ms=SLOWLY_MS)
    await work.until_ended(0.05)
    restarts = _restarts(work)
    server = work.platform.postgres.process
    assert server is not None
    signal_tree(server.pid, signal.SIGSTOP)
    try:
        await _while_away(work, findings, "frozen", frozen_s)
    finally:
        signal_tree(server.pid, signal.SIGCONT)
    findings.figures["resumed_after_freeze_s"] = round(await work.resumed(await _known(work)), 2)
    await work.platform.hold("postgres")
    await _while_away(work, findings, "refused", refused_s)
    work.platform.release("postgres")
    began = monotonic()
    await work.resumed(await _known(work))
    findings.figures["resumed_after_kill_s"] = round(monotonic() - began, 2)
    findings.require(_restarts(work) == restarts, f"processes were started again: {restarts} then {_restarts(work)}")


async def _known(work: SteadyLoad) -> int:
    """Return the number of events as soon as the database answers."""
    while (count := await work.events()) is None:  # noqa: ASYNC110 - the database does not report it
        await asyncio.sleep(0.1)
    return count


async def _while_away(work: SteadyLoad, findings: ScenarioFindings, name: str, seconds: float) -> None:
    """Look at the platform from outside for *seconds*: it lives, it refuses, it starts nothing."""
    began_at, end = wall().timestamp(), monotonic() + seconds
    slowest, refusals, longest = 0.0, 0, 0.0
    while monotonic() < end:
        took, silent = await slowest_liveness_answer(work)
        slowest = max(slowest, took)
        findings.require(not silent, f"{name}: {', '.join(silent)} did not answer /livez")
        answer = await post_run(work, f"{name}-{refusals}")
        findings.require(answer.refused_clearly, f"{name}: a new run was answered with {answer}")
        refusals, longest = refusals + 1, max(longest, answer.took_s)
        await asyncio.sleep(0.2)
    until_at = wall().timestamp()
    begun = [
        mark
        for mark in read_marks(work.outside)
        if mark.effect_class != "pure" and began_at + GRACE_S < mark.at < until_at
    ]
    findings.require(not begun, f"{name}: {len(begun)} calls began while no claim could be granted")
    findings.figures.update(
        {f"{name}_s": round(seconds, 1), f"{name}_refusals": refusals, f"{name}_longest_refusal_s": round(longest, 2)}
    )
    findings.figures[f"{name}_slowest_livez_s"] = round(slowest, 2)


def _restarts(work: SteadyLoad) -> dict[str, int]:
    return {name: state.restarts for name, state in work.platform.processes.items() if name != "postgres"}


Refusal = Callable[[SteadyLoad], contextlib.AbstractAsyncContextManager[None]]


@asynccontextmanager
async def read_only(work: SteadyLoad) -> AsyncIterator[None]:
    """Let every transaction be read-only, as on a standby."""
    async with _owner(work) as owner:
        await owner.execute(f"ALTER DATABASE {DATABASE} SET default_transaction_read_only = on")
        await _end_sessions(owner)
        try:
            yield
        finally:
            await owner.execute(f"ALTER DATABASE {DATABASE} RESET default_transaction_read_only")
            await _end_sessions(owner)


@asynccontextmanager
async def sessions_ended(work: SteadyLoad) -> AsyncIterator[None]:
    """End every session again and again, as an administrator or a failing proxy does."""

    async def again() -> None:
        async with _owner(work) as owner:
            while True:
                await _end_sessions(owner)
                await asyncio.sleep(0.3)

    ending = asyncio.create_task(again(), name="end sessions")
    try:
        yield
    finally:
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)


@asynccontextmanager
async def too_many_connections(work: SteadyLoad) -> AsyncIterator[None]:
    """Let no service connect any more (53300)."""
    async with _owner(work) as owner:
        await owner.execute(f"ALTER DATABASE {DATABASE} CONNECTION LIMIT 0")
        await _end_sessions(owner)
        try:
            yield
        finally:
            await owner.execute(f"ALTER DATABASE {DATABASE} CONNECTION LIMIT -1")


@asynccontextmanager
async def not_accepting(work: SteadyLoad) -> AsyncIterator[None]:
    """Refuse new sessions as a database that is being replaced does, and end the old ones (55000, 57P01)."""
    async with _owner(work) as owner:
        await owner.execute(f"ALTER DATABASE {DATABASE} ALLOW_CONNECTIONS false")
        await _end_sessions(owner)
        try:
            yield
        finally:
            await owner.execute(f"ALTER DATABASE {DATABASE} ALLOW_CONNECTIONS true")


@asynccontextmanager
async def no_login(work: SteadyLoad) -> AsyncIterator[None]:
    """Take every service its login, as a rotation of passwords does for a moment (28000)."""
    roles = ("orchestrator", "tas", "log_writer", "gateway")
    async with _owner(work) as owner:
        for role in roles:
            await owner.execute(f"ALTER ROLE towpath_{role} NOLOGIN")
        await _end_sessions(owner)
        try:
            yield
        finally:
            for role in roles:
                await owner.execute(f"ALTER ROLE towpath_{role} LOGIN")


@asynccontextmanager
async def rows_locked(work: SteadyLoad) -> AsyncIterator[None]:
    """Hold the tables that every transition writes, so that statements wait and are cancelled (57014, 40P01)."""
    async with _owner(work, DATABASE) as owner, owner.transaction():
        await owner.execute("LOCK TABLE runs.run, tas.tool_call IN EXCLUSIVE MODE")
        cancelling = asyncio.create_task(_cancel_waiting(work), name="cancel statements")
        try:
            yield
        finally:
            cancelling.cancel()
            await asyncio.gather(cancelling, return_exceptions=True)


async def _cancel_waiting(work: SteadyLoad) -> None:
    async with _owner(work) as owner:
        while True:
            await owner.execute(
                "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
                " WHERE wait_event_type = 'Lock' AND usename LIKE 'towpath_%'"
            )
            await asyncio.sleep(0.3)


REFUSALS: dict[str, Refusal] = {
    "read_only": read_only,
    "sessions_ended": sessions_ended,
    "too_many_connections": too_many_connections,
    "not_accepting": not_accepting,
    "no_login": no_login,
    "rows_locked": rows_locked,
}


async def refuse_statements(work: SteadyLoad, findings: ScenarioFindings, *, runs: int, seconds: float) -> None:
    """Let the database answer with each kind of refusal for *seconds*, each under fresh work."""
    restarts = _restarts(work)
    for name, refusal in REFUSALS.items():
        await work.submit(runs, steps=6, delay_ms=SLOWLY_MS)
        async with refusal(work):
            await asyncio.sleep(seconds)
        began = monotonic()
        await work.resumed(await _known(work))
        findings.figures[f"resumed_after_{name}_s"] = round(monotonic() - began, 2)
    findings.require(_restarts(work) == restarts, f"processes were started again: {restarts} then {_restarts(work)}")


async def run_without_log_writer(work: SteadyLoad, findings: ScenarioFindings, *, runs: int) -> None:
    """Keep the log-writer down while *runs* end, then let it catch up."""
    await work.platform.hold("log_writer")
    first = len(work.run_ids)
    began = monotonic()
    await work.submit(runs)
    await work.until(lambda ended: ended >= first + runs, SETTLE_S)
    findings.figures["runs_without_history"] = runs
    findings.figures["ended_without_history_s"] = round(monotonic() - began, 2)
    work.platform.release("log_writer")
    began = monotonic()
    await work.platform.wait_ready()
    verdict = await work.verdict()
    findings.figures["history_caught_up_s"] = round(monotonic() - began, 2)
    findings.add_verdict(verdict)


@asynccontextmanager
async def _owner(work: SteadyLoad, database: str = "postgres") -> AsyncIterator[Any]:
    """A session of the owner, in a database that no refusal reaches unless another is named."""
    connection = await asyncpg.connect(work.platform.postgres.dsn(database=database))
    try:
        yield connection
    finally:
        await connection.close()


async def _end_sessions(owner: Any) -> None:
    await owner.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename LIKE 'towpath_%'")


def _work(context: ScenarioContext) -> SteadyLoad:
    return SteadyLoad(context.folder, workers=2 if context.long else 1, notice=context.notice)


async def _away(context: ScenarioContext) -> ScenarioReport:
    async with _work(context) as work:
        findings = ScenarioFindings()
        each = 90.0 if context.long else 4.0
        await freeze_and_stop_database(work, findings, runs=200 if context.long else 30, frozen_s=each, refused_s=each)
        return await finish(work, findings)


async def _refusing(context: ScenarioContext) -> ScenarioReport:
    async with _work(context) as work:
        findings = ScenarioFindings()
        await refuse_statements(work, findings, runs=50 if context.long else 15, seconds=20.0 if context.long else 2.0)
        return await finish(work, findings)


async def _history(context: ScenarioContext) -> ScenarioReport:
    async with _work(context) as work:
        findings = ScenarioFindings()
        await run_without_log_writer(work, findings, runs=1_000 if context.long else 60)
        return await finish(work, findings)


SCENARIOS = (
    Scenario(number=9, name="database-away", summary="freeze, kill and keep away the database", run=_away),
    Scenario(number=9, name="database-refusing", summary="a database that answers with refusals", run=_refusing),
    Scenario(number=9, name="history-away", summary="no log-writer while runs end", run=_history),
)
