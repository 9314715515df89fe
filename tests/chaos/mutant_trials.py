"""`python -m tests.chaos.mutant_trials [NAME…]`: each mutant meets the crash that its missing guard is for.

The scenario is the same for the service as it is and for the mutant; the one has to come out clean, the other has
to be detected by the figure that names its fault.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.chaos.crash_points import points as crash
from tests.chaos.crash_points.sweep_client import SweepClient
from tests.chaos.crash_points.tasks import EffectClass, Kind, SweepTask, sweep_platform
from tests.chaos.mutants import MUTANTS

from towpath_embedded.chaos.comparison import describe_difference
from towpath_embedded.chaos.judge import judge_record
from towpath_embedded.chaos.outside import read_marks
from towpath_embedded.chaos.stored_runs import read_record
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_fabric.clock import monotonic

PATIENCE_S: Final = 60.0
AFTER_S: Final = 12.0
"""When what is missing counts as lost after a crash: a message comes again after 5 s, and is handled within as much."""

LOOK_S: Final = 0.05
AGAIN_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What the judge found after a scenario: findings by figure, `differences` and `unfinished` besides."""

    name: str
    mutated: bool
    findings: Mapping[str, tuple[str, ...]]

    @property
    def figures(self) -> dict[str, int]:
        """The figures that are not 0."""
        return {figure: len(found) for figure, found in self.findings.items() if found}

    @property
    def as_it_should(self) -> bool:
        """Whether the mutant was detected by its figure, or the service as it is by none."""
        return bool(self.findings[MUTANTS[self.name].figure]) if self.mutated else not self.figures


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scene:
    """A platform and the folder in which its points are armed."""

    client: SweepClient
    armed: Path

    async def submit(self, kind: Kind, effect_class: EffectClass, key: str) -> str:
        return await self.client.submit(SweepTask(kind=kind, effect_class=effect_class, key=key))

    async def killed_at(self, point: str) -> None:
        """Wait until a process was killed at *point*, which is armed already."""
        end = monotonic() + PATIENCE_S
        while not any(hit.name == point for hit in crash.hits(self.armed)):
            if monotonic() > end:
                raise TimeoutError(f"no process passed {point}")
            await asyncio.sleep(LOOK_S)

    async def waits(self, run_id: str) -> None:
        """Wait until *run_id* has an open gate."""
        end = monotonic() + PATIENCE_S
        question = "SELECT 1 FROM runs.gate WHERE run_id::text = $1 AND status = 'pending'"
        while not await self.client.fetch(question, run_id):
            if monotonic() > end:
                raise TimeoutError(f"{run_id} opens no gate")
            await asyncio.sleep(LOOK_S)


async def _late_request(scene: _Scene) -> None:
    """A request lies with a dead process while its run is cancelled; it comes again when the fence is up."""
    crash.arm(scene.armed, "tas.request_taken")
    run_id = await scene.submit("alone", "irreversible", "late")
    await scene.killed_at("tas.request_taken")
    await scene.client.cancel(run_id)


async def _repeated_request(scene: _Scene) -> None:
    """A request was decided, stored and sent, and comes again because its process died before the acknowledgement."""
    crash.arm(scene.armed, "tas.request_before_ack")
    await scene.submit("plain", "irreversible", "repeated")
    await scene.killed_at("tas.request_before_ack")


async def _lost_cancel(scene: _Scene) -> None:
    """A person's cancel is taken by a process that dies before it stores what follows."""
    run_id = await scene.submit("alone", "pure", "word")
    await scene.waits(run_id)
    crash.arm(scene.armed, "orchestrator.before_commit")
    await scene.client.cancel_once(run_id)
    await scene.killed_at("orchestrator.before_commit")


async def _unstored_call(scene: _Scene) -> None:
    """A call was permitted by a process that dies before the ledger has it."""
    crash.arm(scene.armed, "tas.before_open")
    await scene.submit("plain", "pure", "unstored")
    await scene.killed_at("tas.before_open")


_SCENARIOS: Final[Mapping[str, Callable[[_Scene], Awaitable[None]]]] = {
    "no_fence_check": _late_request,
    "no_ledger_uniqueness": _repeated_request,
    "ack_before_commit": _lost_cancel,
    "dispatch_before_commit": _unstored_call,
}


async def trial(name: str, folder: Path, *, mutated: bool = True) -> Trial:
    """Play the scenario of the mutant *name* on a platform below *folder*, with the mutant or with the service."""
    armed = folder / "armed"
    commands = MUTANTS[name].commands if mutated else None
    others = {"orchestrator", "decider", "tas", "worker"} - {MUTANTS[name].role}
    async with (
        sweep_platform(folder, armed=armed, single=tuple(others), commands=commands) as platform,
        SweepClient(platform, folder / "outside") as client,
    ):
        reference = await client.submit(SweepTask(kind="cancelled", effect_class="pure", key="reference"))
        early = await client.ended([reference], PATIENCE_S)
        await _SCENARIOS[name](_Scene(client=client, armed=armed))
        if mutated:
            return await _judge_mutant(name, client, reference)
        late = await client.ended(client.run_ids, PATIENCE_S) + await client.quiet(PATIENCE_S)
        findings = await _judged(client, reference)
        return Trial(name=name, mutated=False, findings={**findings, "unfinished": (*early, *late)})


async def _judge_mutant(name: str, client: SweepClient, reference: str) -> Trial:
    """Judge until the mutant's figure is there; a run that has not come to its end is no difference before its time."""
    figure, began = MUTANTS[name].figure, monotonic()
    while True:
        watched_s = monotonic() - began
        findings = await _judged(client, reference)
        due = figure != "differences" or watched_s > AFTER_S
        if (due and findings[figure]) or watched_s > PATIENCE_S:
            return Trial(name=name, mutated=True, findings=findings)
        await asyncio.sleep(AGAIN_S)


async def _judged(client: SweepClient, reference: str) -> dict[str, tuple[str, ...]]:
    record = await read_record(client.platform.dsn(), list(client.run_ids))
    verdict = judge_record(record, read_marks(client.outside), list(client.run_ids))
    stopped = [run_id for run_id, task in client.run_ids.items() if task.key == "word"]
    differences = [describe_difference(record, reference, run_id) for run_id in stopped]
    found = {figure: tuple(sentences) for figure, sentences in verdict.findings.items()}
    return {**found, "differences": tuple(filter(None, differences))}


def main(words: Sequence[str] | None = None) -> int:
    """Try mutants, each with the service as it is beside it; returns 1 where one of them is not as it should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.mutant_trials", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(MUTANTS)} (default: all)")
    asked = parser.parse_args(words)
    wrong = 0
    for name in asked.names or MUTANTS:
        for mutated in (False, True):
            with temporary_folder() as folder:
                found = asyncio.run(trial(name, folder, mutated=mutated))
            wrong += not found.as_it_should
            shown = {"mutant": name, "mutated": mutated, "as_it_should": found.as_it_should, "findings": found.findings}
            sys.stdout.write(json.dumps(shown) + "\n")
            sys.stdout.flush()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
