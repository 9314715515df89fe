"""The database is lost, and a backup is restored that was made in the middle of the work.

A person answers each gate by the outside file: what is in it has happened. What must hold: nothing but a pure call ever
happens twice, every run ends, and ledger, log and outside file agree; the long form also with a broker that nobody has
emptied. The control: without the mark of the restore calls are done again in silence.
"""

import asyncio
import contextlib
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Final

import asyncpg
from tests.chaos.load.findings import ScenarioFindings
from tests.chaos.load.steady_load import SteadyLoad
from tests.chaos.load.tools import EVERY_CLASS
from tests.chaos.scenarios.catalogue import Scenario, ScenarioContext, ScenarioReport
from tests.chaos.servers.broker_store import DAMAGES

from towpath.client.client import Client
from towpath.errors import TowpathError
from towpath_embedded.backups.database_copy import dump, restore
from towpath_embedded.chaos.outside import ToolEffectRecord, read_marks
from towpath_embedded.chaos.replays import replay_mismatches
from towpath_fabric.clock import monotonic

STEPS: Final = 8
THINKS_MS: Final = 300
"""Of every decision, so that runs are still under way when the database is lost."""

MANY: Final = 50
"""Runs; where they are more they think longer, since it takes longer to submit them."""

LOOK_S: Final = 0.2
PATIENCE_S: Final = 300.0
PATIENCE_WITH_REPEATS_S: Final = 1200.0
"""With a broker that takes requests it has seen for repeats, a step may wait for the lease of its decision, 75 s."""

SERVERS: Final = ("nats", "postgres")
FORGET: Final = "DELETE FROM tas.restored_run"

_GATES = (
    "SELECT gate_id::text, execution_id::text FROM runs.gate WHERE status = 'pending' AND gate_type = 'unknown_effect'"
)


class LostDatabase:
    """Loses the database of *work* and restores it.

    `lost` are the calls that happened after the backup was begun, `happened` those of which a person said so.
    """

    def __init__(self, work: SteadyLoad, findings: ScenarioFindings) -> None:
        self._work = work
        self._findings = findings
        self.lost: set[str] = set()
        self.happened: set[str] = set()
        self.asked: Counter[str] = Counter()

    async def lose(self, file: Path, *, runs: int, marked: bool = True, emptied: bool = True) -> None:
        """Back up in the middle of *runs*, let the work go on, kill everything, and restore what was backed up.

        Unless the broker is *emptied*, it knows more than the database does.
        """
        work = self._work
        thinks_ms = THINKS_MS * max(1, runs // MANY)
        await work.submit(runs, steps=STEPS, delay_ms=thinks_ms, tools=EVERY_CLASS)
        await self._effects(runs)
        known = self._calls()
        backup = await dump(work.platform.dsn(), file)
        done = len(self._marks())
        await self._effects(done + min(runs, (runs * STEPS - done) // 3))
        services = [name for name in work.platform.processes if name not in SERVERS]
        await asyncio.gather(*map(work.platform.hold, services))
        if emptied:
            await work.platform.hold("nats")
            DAMAGES["deleted"].do(work.platform.nats.store)
            work.platform.release("nats")
        await self._recreate()
        self.lost = self._calls() - known
        marks = await restore(work.platform.dsn(), file, backup.made_at, "chaos")
        if not marked:
            await self._execute(FORGET, "towpath")
        for name in services:
            work.platform.release(name)
        await work.platform.wait_ready()
        self._findings.require(marks.runs == backup.unfinished > 0, f"{marks.runs} of {backup.unfinished} were marked")
        self._findings.require(bool(self.lost), "nothing happened between the backup and the loss")
        self._findings.figures.update(marked_runs=marks.runs, lost_calls=len(self.lost), open_calls=marks.calls)

    async def answer(self, patience_s: float = PATIENCE_S) -> None:
        """Say at each gate what the outside file says, until all runs have ended."""
        end, later = monotonic() + patience_s, await self._work.submit(3, steps=2, tools=EVERY_CLASS)
        async with Client(self._work.platform.client_url) as client:
            while await self._unfinished():
                if monotonic() > end:
                    raise TimeoutError(f"{await self._unfinished()} runs had not ended; asked: {self.asked}")
                gates = await self._work.rows(_GATES) or []
                await asyncio.gather(*(self._answer(client, gate) for gate in gates))
                await asyncio.sleep(LOOK_S)
        held = await self._work.rows("SELECT FROM runs.gate WHERE run_id = ANY ($1::uuid[])", later)
        self._findings.require(held == [], "a run that began after the restore was asked about")

    async def judge(self, *, marked: bool = True) -> None:
        """Compare the outside file, ledger, log and row, and replay every run."""
        verdict = await self._work.verdict()
        holes = [hole for hole in verdict.audit_holes if hole.split()[0] not in self.lost]  # as is its permission
        self._findings.add_verdict(replace(verdict, audit_holes=holes, dup=verdict.dup if marked else []))
        differing = await replay_mismatches(self._work.platform.dsn(), self._work.run_ids)
        made = Counter(mark.execution_id for mark in self._marks() if mark.effect_class != "pure")
        twice = sum(count - 1 for count in made.values())
        self._findings.require(not differing, f"{len(differing)} runs replay differently: {differing[:2]}")
        self._findings.require((twice == 0) is marked, f"{twice} effects happened again")
        self._findings.require(bool(self.happened) or not marked, "nothing was asked about that had happened")
        self._findings.figures.update({f"said_{word}": count for word, count in self.asked.items()}, twice=twice)

    async def _answer(self, client: Client, gate: asyncpg.Record) -> None:
        key = gate["execution_id"]
        verdict = "happened" if any(mark.execution_id == key for mark in self._marks()) else "retry"
        with contextlib.suppress(TowpathError):  # it was answered just now, and the next look shows that
            await client.gates.resolve(gate["gate_id"], verdict, reason="the outside file says so")
            self.asked[verdict] += 1
            if verdict == "happened":
                self.happened.add(key)

    async def _unfinished(self) -> int:
        rows = await self._work.rows(
            "SELECT count(*) AS n FROM runs.run WHERE run_id = ANY ($1::uuid[]) AND ended_at IS NULL",
            self._work.run_ids,
        )
        return int(rows[0]["n"]) if rows else -1

    async def _effects(self, count: int) -> None:
        end = monotonic() + PATIENCE_S
        while len(self._marks()) < count:
            if monotonic() > end:
                raise TimeoutError(f"{len(self._marks())} of {count} effects")
            await asyncio.sleep(LOOK_S / 4)

    def _marks(self) -> tuple[ToolEffectRecord, ...]:
        return read_marks(self._work.outside)

    def _calls(self) -> set[str]:
        return {mark.execution_id for mark in self._marks()}

    async def _recreate(self) -> None:
        await self._execute("DROP DATABASE towpath WITH (FORCE)", "postgres")
        await self._work.platform.postgres.ensure_database()

    async def _execute(self, statement: str, database: str) -> None:
        connection = await asyncpg.connect(self._work.platform.postgres.dsn(database=database))
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


async def lose_and_restore(
    folder: Path,
    work: SteadyLoad,
    findings: ScenarioFindings,
    *,
    runs: int,
    marked: bool = True,
    emptied: bool = True,
) -> None:
    """Lose the database in the middle of *runs*, restore it, answer what is asked, and judge."""
    lost = LostDatabase(work, findings)
    await lost.lose(folder / "kept.dump", runs=runs, marked=marked, emptied=emptied)
    await lost.answer(PATIENCE_S if emptied else PATIENCE_WITH_REPEATS_S)
    await lost.judge(marked=marked)


async def _restore(context: ScenarioContext) -> ScenarioReport:
    findings, few = ScenarioFindings(), 25
    plain = {"runs": 200 if context.long else few}
    tries = {"": plain, "control_": {"runs": few, "marked": False}}
    if context.long:
        tries["newer_broker_"] = {"runs": few, "emptied": False}
    for name, options in tries.items():
        found, folder = ScenarioFindings(), context.folder / f"{name}world"
        async with SteadyLoad(folder, workers=2, notice=context.notice, starts="fork") as work:
            await lose_and_restore(folder, work, found, **options)
        context.notice(f"{name or 'plain'}: {found.figures}")
        findings.figures.update({f"{name}{word}": figure for word, figure in found.figures.items()})
        findings.problems += [f"{name}{sentence}" for sentence in found.problems]
    return findings.report()


SCENARIOS = (
    Scenario(number=32, name="restore", summary="lose the database, and restore a backup of it", run=_restore),
)
