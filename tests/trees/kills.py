"""Trees of runs while services are killed: `python -m tests.trees.kills --kills 100 --seed 1`.

Each tree is a workflow of workflows of workflows, three deep: 4 x 4 x 4 = 64 runs at its bottom, each with one call
that must not happen twice. Trees run one after another on a whole platform while SIGKILL strikes its services in turn,
at random; then more trees are cancelled at the root in the middle. Prints one line of JSON; ends with 1 if a run is
lost, an effect doubled, an answer wrong, anything of a tree happens after its cancel was answered, or a run goes on.
"""

import argparse
import asyncio
import contextlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.trees.fleet import expected_answer, tree_size, tree_workload

from towpath.client.client import Client
from towpath.errors import RefusedError, TowpathError, UnavailableError
from towpath_embedded.chaos.campaign import CampaignSettings, campaign_platform, outside_file
from towpath_embedded.chaos.faults import FAULTS, SERVICES, FaultInjector
from towpath_embedded.chaos.gate_operator import AutomaticGateOperator
from towpath_embedded.chaos.judge import FINAL, judge
from towpath_embedded.chaos.outside import read_marks
from towpath_embedded.chaos.run_watcher import DatabaseReader
from towpath_embedded.chaos.workload import TIMEOUT_MS
from towpath_embedded.platform import Platform
from towpath_embedded.servers.postgres_identity import temporary_folder

TREE_S = 300.0
"""How long a tree may take, on a machine where everything is slow and services die."""

QUIET_S = 120.0
SURE_S = 2 * TIMEOUT_MS / 1_000
"""After its own time a call is cut off by its worker, however slow the machine is."""

CANCEL_S = 2.0
"""The latest moment of a tree's life at which it is cancelled."""

_TREE = "SELECT run_id::text, status FROM runs.run WHERE run_id::text = $1 OR root_run_id::text = $1"
_CALLS = "SELECT execution_id::text FROM tas.tool_call WHERE run_id::text = ANY ($1)"
_ENDED = "SELECT extract(epoch FROM ended_at)::float8 AS at FROM runs.run WHERE run_id::text = $1"
_NOTES = (
    "SELECT extract(epoch FROM at)::float8 AS at, phase, verdict FROM tas.audit_entry WHERE execution_id::text = $1"
    " UNION ALL SELECT extract(epoch FROM r.ended_at)::float8, 'run', r.status FROM runs.run r"
    " JOIN tas.tool_call c USING (run_id) WHERE c.execution_id::text = $1"
    " UNION ALL SELECT extract(epoch FROM e.at)::float8, 'event', e.type FROM runs.run_event e"
    " JOIN tas.tool_call c USING (run_id) WHERE c.execution_id::text = $1"
    " UNION ALL SELECT extract(epoch FROM f.raised_at)::float8, 'fence', f.fence::text FROM tas.fence f"
    " JOIN tas.tool_call c USING (run_id) WHERE c.execution_id::text = $1 ORDER BY at"
)
_BEHIND = (
    "SELECT count(*) AS runs FROM runs.run r LEFT JOIN history.run_cursor c USING (run_id)"
    " WHERE c.seq IS DISTINCT FROM r.seq"
)


class PatientGateOperator(AutomaticGateOperator):
    """Waits until a worker that is only slow would have acted or given up, because here it may look dead."""

    def __init__(self, client: Client, reader: DatabaseReader, outside: Path, injector: FaultInjector) -> None:
        super().__init__(client, reader, outside, injector)
        self._since: dict[str, float] = {}

    def _may_answer(self, gate: Any) -> bool:
        since = self._since.setdefault(gate["gate_id"], time.monotonic())
        return super()._may_answer(gate) and time.monotonic() - since > SURE_S


class TreeCampaign:
    """Submits trees on a platform, kills its services and keeps what was seen."""

    def __init__(self, platform: Platform, folder: Path, width: int, seed: int) -> None:
        self.platform, self.width = platform, width
        self.chance = random.Random(seed)
        self.workload = tree_workload(width)
        self.client = Client(platform.client_url)
        self.reader = DatabaseReader(platform.dsn())
        self.outside = outside_file(folder)
        self.injector = FaultInjector(platform, stop_s=1.0)
        self.gate_operator = PatientGateOperator(self.client, self.reader, self.outside, self.injector)
        self.trees: list[str] = []
        self.wrong: list[str] = []
        self.killed: Counter[str] = Counter()
        self.cancelled = self.cut_effects = 0
        self.quickest = TREE_S

    async def close(self) -> None:
        """Let go of everything."""
        await self.injector.close()
        await self.reader.close()
        await self.client.close()

    async def publish(self) -> None:
        """Publish the network; the tools may not be registered yet."""
        async with asyncio.timeout(TREE_S):
            while True:
                with contextlib.suppress(TowpathError):
                    await self.client.networks.publish(self.workload.spec)
                    return
                await asyncio.sleep(0.3)

    async def submit(self) -> str:
        """Submit a tree under a key, until somebody answers."""
        key = str(uuid4())
        async with asyncio.timeout(TREE_S):
            while True:
                with contextlib.suppress(UnavailableError):
                    accepted = await self.client.submit(
                        self.workload.name,
                        self.workload.message,
                        script=list(self.workload.script),
                        idempotency_key=key,
                    )
                    self.trees.append(str(accepted.run_id))
                    return str(accepted.run_id)
                await asyncio.sleep(0.2)

    async def rows(self, statement: str, *arguments: object) -> list[Any]:
        """Return rows, asked again until the database answers."""
        while (found := await self.reader.rows(statement, *arguments)) is None:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.2)
        return found

    async def runs_of(self, tree: str) -> dict[str, str]:
        """Return the status of every run of a tree."""
        return {row["run_id"]: row["status"] for row in await self.rows(_TREE, tree)}

    async def ended(self, tree: str, timeout_s: float = TREE_S) -> dict[str, str]:
        """Wait until every run of a tree has ended, or the time is over; returns their statuses."""
        until = time.monotonic() + timeout_s
        while True:
            runs = await self.runs_of(tree)
            if (runs and all(status in FINAL for status in runs.values())) or time.monotonic() > until:
                return runs
            await asyncio.sleep(0.2)

    async def check(self, tree: str) -> None:
        """Wait for a tree; its answer must be the one, and every run of it must be there once."""
        began = time.monotonic()
        runs = await self.ended(tree)
        self.quickest = min(self.quickest, time.monotonic() - began)
        open_ = sum(status not in FINAL for status in runs.values())
        if open_:
            self.wrong.append(f"{tree}: {open_} of {len(runs)} runs go on")
            return
        if len(runs) != tree_size(self.width):
            self.wrong.append(f"{tree}: {len(runs)} runs, not {tree_size(self.width)}")
        view = await self.get_run(tree)
        if view.status != "completed" or view.final != {"message": expected_answer(self.width)}:
            self.wrong.append(f"{tree} is {view.status}: {view.reason}: {str(view.final)[:200]}")

    async def get_run(self, tree: str) -> Any:
        """Ask for a run until somebody answers."""
        async with asyncio.timeout(TREE_S):
            while True:
                with contextlib.suppress(UnavailableError):
                    return await self.client.get(tree)
                await asyncio.sleep(0.2)

    async def kill_services(self, kills: int) -> None:
        """Kill service after service, each in its turn, at random moments."""
        for number in range(kills):
            await asyncio.sleep(self.chance.uniform(0.2, 2.0))
            target = SERVICES[number % len(SERVICES)]
            with contextlib.suppress(TimeoutError):
                await self.injector.strike(FAULTS[f"kill.{target}"])
                self.killed[target] += 1

    async def under_kills(self, kills: int) -> None:
        """Let tree after tree run while services are killed."""
        killing = asyncio.create_task(self.kill_services(kills))
        try:
            while not killing.done():
                await self.check(await self.submit())
            await killing
        finally:
            killing.cancel()
            await asyncio.gather(killing, return_exceptions=True)
        await self.platform.wait_ready(QUIET_S)

    async def cancel_one(self) -> None:
        """Cancel a tree at its root in the middle: once it has ended nothing of it may happen, or go on."""
        tree = await self.submit()
        wanted = self.chance.randrange(2, tree_size(self.width))
        await self.until(tree, lambda runs: len(runs) >= wanted or runs.get(tree) in FINAL)
        await asyncio.sleep(self.chance.uniform(0, min(self.quickest / 2, CANCEL_S)))
        try:
            await self.client.cancel(tree, reason="enough")
        except RefusedError:
            return  # it has ended before; another one is taken
        await self.until(tree, lambda runs: runs.get(tree) in FINAL)
        runs = await self.ended(tree, QUIET_S)
        going = [run_id for run_id, status in runs.items() if status not in FINAL]
        if going:
            self.wrong.append(f"{tree}: {len(going)} runs go on after its cancel: {going[:3]}")
        calls = {row["execution_id"] for row in await self.rows(_CALLS, [*runs])}
        (root,) = await self.rows(_ENDED, tree)
        late = [mark for mark in read_marks(self.outside) if mark.execution_id in calls and mark.at > root["at"]]
        if late:
            self.wrong.append(f"{tree}: {len(late)} effects after it was {runs[tree]}")
        self.cancelled += runs[tree] == "cancelled"
        self.cut_effects += sum(mark.execution_id in calls for mark in read_marks(self.outside))

    async def until(self, tree: str, condition: Callable[[dict[str, str]], bool]) -> None:
        """Wait until the runs of a tree are as wanted."""
        async with asyncio.timeout(TREE_S):
            while not condition(await self.runs_of(tree)):  # noqa: ASYNC110 - a level
                await asyncio.sleep(0.02)

    async def recorded_reports(self, call: str) -> str:
        """Return what the audit and its run say of a call, in their order, for whoever has to explain it."""
        notes = [f"{row['at']:.3f} {row['phase']} {row['verdict']}" for row in await self.rows(_NOTES, call)]
        return f"{call}: {'; '.join(notes)}"

    async def judge_all(self) -> dict[str, Any]:
        """Wait for the history and hold everything that is stored against the marks outside."""
        until = time.monotonic() + QUIET_S
        while (await self.rows(_BEHIND))[0]["runs"] and time.monotonic() < until:  # noqa: ASYNC110 - a level
            await asyncio.sleep(0.3)
        verdict = await judge(self.platform.dsn(), self.outside, ends=FINAL)
        findings = {name: found for name, found in verdict.findings.items() if found}
        self.wrong += [f"{name}: {one}" for name, found in findings.items() for one in found[:5]]
        self.wrong += [await self.recorded_reports(one.split()[0]) for one in verdict.late[:5]]
        return {
            "runs": verdict.runs,
            "ended": verdict.ended,
            "effects": verdict.effects,
            "repeats": verdict.repeats,
            "unknown": len(verdict.unknown),
            **{name: len(found) for name, found in verdict.findings.items()},
        }


async def run_campaign(kills: int, cancels: int, seed: int, width: int = 4) -> dict[str, Any]:
    """Do it all on a platform of its own; returns the figures. `wrong` says what must not be."""
    began = time.monotonic()
    settings = CampaignSettings(workloads=(tree_workload(width),), faults=(), strikes=0, seed=seed)
    with temporary_folder() as folder:
        async with campaign_platform(settings, folder, lambda _line: None) as platform:
            campaign = TreeCampaign(platform, folder, width, seed)
            deciding = asyncio.create_task(campaign.gate_operator.decide())
            try:
                await campaign.publish()
                await campaign.under_kills(kills)
                under_kills = len(campaign.trees)
                while campaign.cancelled < cancels and len(campaign.trees) < under_kills + 4 * cancels:
                    await campaign.cancel_one()
                figures = await campaign.judge_all()
            finally:
                deciding.cancel()
                await asyncio.gather(deciding, return_exceptions=True)
                await campaign.close()
    return {
        "trees": under_kills,
        "leaves": width**3,
        "cancels": cancels,
        "cancelled": campaign.cancelled,
        "effects_before_cancels": campaign.cut_effects,
        "quickest_tree_s": round(campaign.quickest, 1),
        "kills": dict(campaign.killed),
        **figures,
        "said": dict(campaign.gate_operator.answer_counts),
        "wrong": campaign.wrong,
        "seconds": round(time.monotonic() - began, 1),
    }


def main() -> int:
    """Parse the arguments and do it."""
    parser = argparse.ArgumentParser(prog="python -m tests.trees.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="services killed with SIGKILL")
    parser.add_argument("--cancels", type=int, default=20, help="trees cancelled in the middle")
    parser.add_argument("--width", type=int, default=4, choices=(1, 2, 3, 4), help="4 makes trees of 64 leaves")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    figures = asyncio.run(run_campaign(options.kills, options.cancels, options.seed, options.width))
    sys.stdout.write(json.dumps(figures) + "\n")
    return 1 if figures["wrong"] or figures["cancelled"] < options.cancels else 0


if __name__ == "__main__":
    sys.exit(main())
