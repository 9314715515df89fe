"""`python -m tests.chaos.crash_points.sweep`: kills a process at every crash point, one by one.

Every run has to come out as one that was left in peace. A point counts only when its kill took place; every run of the
platform is judged, also those that were hit by accident; an unknown outcome counts as explained only where a worker
was killed while it held that very call.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from tests.chaos.crash_points import points as crash
from tests.chaos.crash_points.cases import SweepCase, SweepRound, long_rounds, short_rounds
from tests.chaos.crash_points.report import SweepKill, SweepReport, explain_unknown
from tests.chaos.crash_points.sweep_client import SweepClient
from tests.chaos.crash_points.tasks import CLASSES, MAX_ACTIVE, EffectClass, Kind, SweepTask, sweep_platform

from towpath_embedded.chaos.comparison import describe_difference
from towpath_embedded.chaos.judge import UnknownOutcomeCall, judge_record
from towpath_embedded.chaos.outside import read_marks
from towpath_embedded.chaos.stored_runs import StoredRunRows, read_record
from towpath_embedded.processes import role_names, role_process
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_fabric.clock import monotonic, wall

HIT_PATIENCE_S: Final = 180.0
"""How long a point may wait for a process to pass it."""

BACK_PATIENCE_S: Final = 120.0
PEACE_PATIENCE_S: Final = 120.0
END_PATIENCE_S: Final = 180.0
LOOK_S: Final = 0.03
PROVOKED_S: Final = 0.5
"""Between two times that what passes a rare point is made to happen, while it is waited for."""

TRAFFIC_S: Final = 0.5
"""Between two runs that are submitted while points are armed."""

IN_FLIGHT: Final = 12
"""Runs that have not ended, above which no other is submitted: what is hit needs up to half a minute to go on."""

KINDS: Final[tuple[Kind, ...]] = ("plain", "cancelled", "plain", "enqueued")


@dataclass(kw_only=True)
class Sweep:
    """One sweep on one platform that has started; *armed* is the folder that its processes look into."""

    client: SweepClient
    armed: Path
    kills: list[SweepKill] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    _references: dict[tuple[Kind, EffectClass], str] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)
    _numbers: Iterable[int] = field(default_factory=lambda: iter(range(1_000_000)))
    _submitting: list[asyncio.Task[str]] = field(default_factory=list)
    """Also those that are through: a submission without an answer must not be forgotten."""

    async def run(self, rounds: Sequence[SweepRound]) -> SweepReport:
        """Kill at every case of *rounds*, one round after the other, and judge."""
        began = time.monotonic()
        await self._run_references()
        left = await self.client.whereabouts(await self._all_rounds(rounds))
        left += await self.client.quiet(END_PATIENCE_S)
        record = await read_record(self.client.platform.dsn(), list(self.client.run_ids))
        marks = read_marks(self.client.outside)
        verdict = judge_record(record, marks, list(self.client.run_ids))
        explained, unexplained = explain_unknown(verdict.unknown, record, marks, self.kills)
        return SweepReport(
            points=len({case.point.name for part in rounds for case in (*part.cases, *part.meanwhile)}),
            kills=self.kills,
            missed=self.missed,
            verdict=verdict,
            explained=explained,
            unexplained=unexplained,
            differences=self._differences(record, verdict.unknown),
            left=sorted(set(left)),
            tools=frozenset(row["tool"] for row in record.calls),
            seconds=time.monotonic() - began,
        )

    async def _all_rounds(self, rounds: Sequence[SweepRound]) -> list[str]:
        """Kill at every case; return the runs that did not end in time."""
        left: list[str] = []
        async with asyncio.TaskGroup() as meanwhile:
            for part in rounds:
                meanwhile.create_task(self._lane(part.meanwhile))
                await (self._leave_in_doubt(part.cases) if part.doubt else self._round(part))
                if part.settle:  # what is left undone must not pass the points of the next round
                    left += await self.client.ended(self.client.run_ids, END_PATIENCE_S)
        return left + await self.client.ended(self.client.run_ids, END_PATIENCE_S)

    async def _run_references(self) -> None:
        """Run one of each sort before anything is killed: what all others are compared with. TimeoutError without."""
        sorts: list[tuple[Kind, EffectClass]] = [("short", "pure")]
        sorts += [("plain", effect_class) for effect_class in CLASSES]
        sorts += [("cancelled", effect_class) for effect_class in CLASSES]
        found = await asyncio.gather(*(self._submit(kind, effect_class) for kind, effect_class in sorts))
        self._references = dict(zip(sorts, found, strict=True))
        left = await self.client.whereabouts(await self.client.ended(found, PEACE_PATIENCE_S))
        if left:
            raise TimeoutError("\n".join(["runs left in peace do not end:", *left]))

    async def _leave_in_doubt(self, cases: Sequence[SweepCase]) -> None:
        """Leave a call of each case's class in doubt; a kill that left none, as in another call, is not enough."""
        for case in cases:
            in_doubt = False
            while not in_doubt:
                self._begin("plain", case.effect_class or "pure")
                killed = await self._kill(case)
                if killed is None:
                    break
                in_doubt = await self.client.in_doubt(killed, case.effect_class)
                await self._back(case.point.role, killed)
        await asyncio.gather(*self._submitting)

    async def _round(self, part: SweepRound) -> None:
        """Kill in every role at the same time, one process of each; meanwhile runs are submitted."""
        lanes: dict[str, list[SweepCase]] = {}
        for case in part.cases:
            lanes.setdefault(case.point.role, []).append(case)
        async with asyncio.TaskGroup() as around:
            traffic = around.create_task(self._traffic(part.classes), name="traffic")
            try:
                async with asyncio.TaskGroup() as group:
                    for name, cases in lanes.items():
                        group.create_task(self._lane(cases), name=f"kill {name}")
            finally:
                traffic.cancel()
        await asyncio.gather(*self._submitting)

    async def _traffic(self, classes: Sequence[EffectClass]) -> None:
        sorts = cycle((kind, effect_class) for kind in KINDS for effect_class in classes)
        while True:
            ended = await self.client.fetch("SELECT count(*) FROM runs.run WHERE ended_at IS NOT NULL")
            asking = sum(not task.done() for task in self._submitting)
            if len(self.client.run_ids) + asking - ended[0][0] < IN_FLIGHT:
                self._begin(*next(sorts))
            await asyncio.sleep(TRAFFIC_S)

    def _begin(self, kind: Kind, effect_class: EffectClass) -> None:
        self._submitting.append(asyncio.create_task(self._submit(kind, effect_class)))

    async def _submit(self, kind: Kind, effect_class: EffectClass) -> str:
        number = next(iter(self._numbers))
        task = SweepTask(kind=kind, effect_class=effect_class, key=f"{kind}-{number}")
        return await self.client.submit(task, END_PATIENCE_S)

    async def _lane(self, cases: Sequence[SweepCase]) -> None:
        for case in cases:
            killed = await self._kill(case)
            if killed is not None:
                await self._back(case.point.role, killed)

    async def _kill(self, case: SweepCase) -> str | None:
        """Arm the case's point and wait for the kill; return the name of the process, None where none passed."""
        before = len(crash.hits(self.armed))
        name, end, provoked = case.point.name, monotonic() + HIT_PATIENCE_S, 0.0
        self._note_process_names()
        crash.arm(self.armed, name, case.nth)
        if name == "orchestrator.before_admit":
            self._flood()
        while True:
            hit = next((hit for hit in crash.hits(self.armed)[before:] if hit.name == name), None)
            if hit is not None:
                break
            if monotonic() > end and crash.disarm(self.armed, name):
                self.missed.append(f"{name}, passing {case.nth}, {case.effect_class or 'all classes'}")
                return None
            if monotonic() > provoked:
                await self._provoke(name)
                provoked = monotonic() + PROVOKED_S
            await asyncio.sleep(LOOK_S)
            self._note_process_names()
        process = self._names.get(hit.pid, "")
        self.kills.append(
            SweepKill(
                point=name,
                nth=case.nth,
                effect_class=case.effect_class,
                process=process,
                at=wall().timestamp(),
            )
        )
        return process

    def _flood(self) -> None:
        """More runs than may be under way at once, so that some have to be admitted later."""
        for _ in range(3 * MAX_ACTIVE):  # every replica counts for itself
            self._begin("short", "pure")

    async def _provoke(self, name: str) -> None:
        """Bring about what passes a point that the traffic passes by chance only."""
        match name:
            case "orchestrator.overdue_claimed":
                await self.client.fetch("UPDATE runs.run SET wake_at = now() WHERE status IN ('running', 'waiting')")
            case "orchestrator.before_outcome" | "orchestrator.outcome_answered":
                self._begin("short", "pure")
            case _:
                return

    def _note_process_names(self) -> None:
        found = self.client.platform.processes
        self._names.update({state.pid: name for name, state in found.items() if state.pid is not None})

    async def _back(self, role: str, killed: str) -> None:
        """Wait until every process of *role* does its work again, so that the next kill finds two of them."""
        platform, end = self.client.platform, monotonic() + BACK_PATIENCE_S
        names = [name for name in platform.processes if role_names.role_of(name) == role]
        ports = {name: int(platform.health_url(name).rpartition(":")[2]) for name in names}
        while True:
            gone = platform.processes[killed].pid if killed else None
            if gone is None or self._names.get(gone) == killed:
                answers = await asyncio.gather(*(role_process.http_status(port, "/readyz") for port in ports.values()))
                if all(answer == 200 for answer in answers):
                    return
            if monotonic() > end:
                raise TimeoutError(f"{killed} did not come back")
            await asyncio.sleep(0.05)
            self._note_process_names()

    def _differences(self, record: StoredRunRows, unknown: Sequence[UnknownOutcomeCall]) -> list[str]:
        doubted = {found.execution_id for found in unknown}
        found = [
            describe_difference(record, self._references[task.sort], run_id, doubted)
            for run_id, task in self.client.run_ids.items()
            if run_id not in self._references.values()
        ]
        return [sentence for sentence in found if sentence]


async def sweep(folder: Path, rounds: Sequence[SweepRound]) -> SweepReport:
    """Start a platform below *folder*, sweep it, stop it."""
    armed = folder / "armed"
    async with sweep_platform(folder, armed=armed) as platform, SweepClient(platform, folder / "outside") as client:
        return await Sweep(client=client, armed=armed).run(rounds)


def main(words: Sequence[str] | None = None) -> int:
    """Sweep, print the figures and the problems; returns 1 where there are any."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.crash_points.sweep", description=__doc__)
    parser.add_argument("--long", action="store_true", help="every point, both passings, each class of tools")
    parser.add_argument("--only", action="append", help="points whose name begins so; may be repeated")
    parser.add_argument("--json", action="store_true", help="print one JSON object with every kill")
    asked = parser.parse_args(words)
    found = [p for p in crash.list_points() if not asked.only or p.name.startswith(tuple(asked.only))]
    rounds = long_rounds(found) if asked.long else short_rounds(found)
    with temporary_folder() as folder:
        report = asyncio.run(sweep(folder, rounds))
    shown: dict[str, Any] = {**report.figures(), "problems": report.problems}
    if asked.json:
        shown |= {"kill_list": [asdict(k) for k in report.kills], "explained": [asdict(e) for e in report.explained]}
    sys.stdout.write(json.dumps(shown, indent=None if asked.json else 1) + "\n")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
