"""A campaign: runs on a whole platform, a fault at every boundary of the plan, and the record of what was struck.

Every run is submitted under an idempotency key, as a client would do it. The moment of a strike is when the run's own
log has reached the boundary. Everything that was started is stopped at the end.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from towpath.client.client import Client
from towpath.errors import RefusedError, UnavailableError
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.tasks import RunAccepted
from towpath_embedded.chaos import recording_tools
from towpath_embedded.chaos.faults import FAULTS, FaultInjector, Strike
from towpath_embedded.chaos.gate_operator import AutomaticGateOperator
from towpath_embedded.chaos.plan import StrikePlanEntry, StrikeTrigger, boundaries_of, make_plan
from towpath_embedded.chaos.run_watcher import DatabaseReader, ObservedRunLog, RunWatcher, types_in_order
from towpath_embedded.chaos.workload import Workload, policy_text, tools_text
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_fabric.clock import monotonic

REPLICAS = {"orchestrator": 2, "decider": 2, "tas": 2}
WORKERS = 2
REFERENCE_TIMEOUT_S = 60.0
PUBLISH_TIMEOUT_S = 30.0
SUBMIT_TIMEOUT_S = 120.0
BOUNDARY_TIMEOUT_S = 180.0
TRIES = 3
"""Runs for one cell: where an unknown call is resolved as not happened, a run may end before the boundary."""

HISTORY_TIMEOUT_S = 60.0
_BEHIND = (
    "SELECT count(*) AS runs FROM runs.run r LEFT JOIN history.run_cursor c USING (run_id)"
    " WHERE c.seq IS DISTINCT FROM r.seq"
)

_log = logging.getLogger(__name__)

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignSettings:
    """What a campaign does: *strikes* with *faults*, and once with each of *rare*.

    *pace_s* is the time between two targets, *in_flight* how many of them may wait for their strike. *bystanders* are
    runs beyond the targets that no fault aims at.
    """

    workloads: tuple[Workload, ...]
    faults: tuple[str, ...]
    strikes: int
    seed: int
    rare: tuple[str, ...] = ()
    bystanders: int = 0
    stop_s: float = 2.0
    pace_s: float = 1.0
    in_flight: int = 12
    patience_s: float = 180.0


@dataclass(slots=True, kw_only=True)
class TargetRun:
    """The run that one strike of the plan aims at, and what came of it."""

    cell: StrikePlanEntry
    run_id: str = ""
    strike: Strike | None = None
    log: ObservedRunLog | None = None

    @property
    def recovery_s(self) -> float | None:
        """From the strike to the next entry of the run's log; None where none was to come."""
        if self.strike is None or self.log is None:
            return None
        after = self.log.first_after(self.strike.at)
        return None if after is None else after - self.strike.at


@dataclass(slots=True, kw_only=True)
class CampaignActions:
    """What a campaign did: the strikes, the runs, and how the gates were answered."""

    boundaries: tuple[StrikeTrigger, ...] = ()
    targets: list[TargetRun] = field(default_factory=list)
    references: dict[str, str] = field(default_factory=dict)
    """The undisturbed run of each network."""
    run_ids: dict[str, str] = field(default_factory=dict)
    """Every run with its network."""
    gate_answers: Mapping[str, int] = field(default_factory=dict)
    quiet: bool = False
    seconds: dict[str, float] = field(default_factory=dict)


class Campaign:
    """Carries out *settings* on *platform*; see `campaign_platform`."""

    def __init__(self, settings: CampaignSettings, platform: Platform, folder: Path, progress: Progress) -> None:
        self._settings = settings
        self._platform = platform
        self._outside = outside_file(folder)
        self._progress = progress
        self._by_name = {workload.name: workload for workload in settings.workloads}
        self._submitted = 0
        self._injector = FaultInjector(platform, stop_s=settings.stop_s)
        self._watch = RunWatcher(platform.nats_url_of("gateway"), platform.dsn())
        self._clients: tuple[Client, ...] = ()
        self._struck = 0
        self._began = monotonic()
        self.result = CampaignActions()

    async def run(self) -> CampaignActions:
        """Run the whole campaign on the started platform; ProblemError where the networks can't be run at all."""
        reader = DatabaseReader(self._platform.dsn())
        http = Client(self._platform.client_url)
        self._clients = (http, Client(self._platform.nats_url))
        gate_operator = AutomaticGateOperator(http, reader, self._outside, self._injector)
        try:
            async with self._watch, asyncio.TaskGroup() as group:
                await self._publish(http)
                helping = [group.create_task(work) for work in (gate_operator.decide(), self._watch.poll())]
                await self._run_references(reader)
                await self._strike_all()
                await self._wait_until_quiet(reader)
                for task in helping:
                    task.cancel()
        except* ProblemError as refused:
            raise _first_problem(refused) from refused
        finally:
            await self._injector.close()
            await reader.close()
            for client in self._clients:
                await client.close()
        self.result.gate_answers = dict(gate_operator.answer_counts)
        return self.result

    async def _publish(self, client: Client) -> None:
        for workload in self._settings.workloads:
            end = monotonic() + PUBLISH_TIMEOUT_S
            while True:
                try:
                    await client.networks.publish(workload.spec)
                    break
                except RefusedError as error:  # the tools may not be registered yet
                    codes = {entry.code for entry in error.problem.errors}
                    if "tool_unknown" not in codes or monotonic() > end:
                        raise
                await asyncio.sleep(0.2)

    async def _run_references(self, reader: DatabaseReader) -> None:
        """Run each network once undisturbed: its log gives the boundaries."""
        began = monotonic()
        found: list[StrikeTrigger] = []
        for workload in self._settings.workloads:
            run_id = await self._submit(workload)
            self.result.references[workload.name] = run_id
            if not await self._watch.until(run_id, lambda log: log.ended, REFERENCE_TIMEOUT_S):
                detail = f"an undisturbed run of {workload.name} did not end within {REFERENCE_TIMEOUT_S:.0f} s"
                raise ProblemError(problem("timeout", detail))
            await self._must_have_completed(workload, run_id, reader)
            found += boundaries_of(workload.name, types_in_order(self._watch.logs[run_id]))
        self.result.boundaries = tuple(found)
        self.result.seconds["reference"] = monotonic() - began
        faults = len({*self._settings.faults, *self._settings.rare})
        self._progress(f"{len(found)} boundaries in {', '.join(self._by_name)}; {faults} faults")

    @staticmethod
    async def _must_have_completed(workload: Workload, run_id: str, reader: DatabaseReader) -> None:
        """Raise ProblemError `request_invalid` for a run that fails without any fault."""
        rows = await reader.rows("SELECT status, reason FROM runs.run WHERE run_id::text = $1", run_id)
        if rows and rows[0]["status"] != "completed":
            how = f"{rows[0]['status']}: {rows[0]['reason']}"
            detail = f"an undisturbed run of {workload.name} is {how}; its decisions have to lead to its completion"
            raise ProblemError(problem("request_invalid", detail))

    async def _strike_all(self) -> None:
        settings, began = self._settings, monotonic()
        plan = make_plan(self.result.boundaries, settings.faults, settings.strikes, settings.seed, rare=settings.rare)
        self.result.targets = [TargetRun(cell=cell) for cell in plan]
        names = list(self._by_name)
        slots = asyncio.Semaphore(settings.in_flight)
        async with asyncio.TaskGroup() as group:
            for number in range(settings.bystanders):
                await slots.acquire()
                group.create_task(self._bystander(self._by_name[names[number % len(names)]], slots))
            for target in self.result.targets:
                await slots.acquire()
                group.create_task(self._target(target, slots))
                await asyncio.sleep(settings.pace_s)
        await self._injector.settle()
        self.result.seconds["strikes"] = monotonic() - began

    async def _bystander(self, workload: Workload, slots: asyncio.Semaphore) -> None:
        try:
            await self._submit(workload)
        finally:
            slots.release()

    async def _target(self, target: TargetRun, slots: asyncio.Semaphore) -> None:
        boundary = target.cell.boundary
        try:
            for _ in range(TRIES):
                target.run_id = await self._submit(self._by_name[boundary.network])
                target.log = self._watch.logs[target.run_id]
                if await self._watch.until(target.run_id, lambda log: log.has(boundary), BOUNDARY_TIMEOUT_S):
                    await asyncio.sleep(target.cell.delay_s)
                    with contextlib.suppress(TimeoutError):  # no such process is alive: the report shows it
                        target.strike = await self._injector.strike(FAULTS[target.cell.fault])
                    break
        finally:
            slots.release()
        self._struck += 1
        if self._struck % 10 == 0 or self._struck == len(self.result.targets):
            ended = len(self._watch.logs) - len(self._watch.open())
            took = monotonic() - self._began
            self._progress(
                f"{took:4.0f} s: {self._struck} of {len(self.result.targets)} strikes; {len(self._watch.logs)} runs, "
                f"{ended} ended; last: {target.cell.fault} at {boundary.label}"
            )

    async def _submit(self, workload: Workload) -> str:
        """Submit a run over HTTP or NATS in turn and follow it; repeated under its key until it is answered."""
        self._submitted += 1
        number = self._submitted
        client = self._clients[number % len(self._clients)]
        key = f"chaos-{self._settings.seed}-{number}"
        end = monotonic() + SUBMIT_TIMEOUT_S
        accepted: RunAccepted | None = None
        while accepted is None:
            try:
                accepted = await client.submit(
                    workload.name, workload.message, script=list(workload.script), idempotency_key=key, **workload.task
                )
            except UnavailableError:
                if monotonic() > end:
                    raise
        run_id = str(accepted.run_id)
        self.result.run_ids[run_id] = workload.name
        self._watch.follow(run_id)
        return run_id

    async def _wait_until_quiet(self, reader: DatabaseReader) -> None:
        """Wait until every run has ended and the history is complete, or `patience_s` is over."""
        began = monotonic()
        with contextlib.suppress(TimeoutError):
            await self._platform.wait_ready(self._settings.patience_s)
        while (left := self._watch.open()) and monotonic() - began < self._settings.patience_s:  # noqa: ASYNC110 - a level
            await asyncio.sleep(0.2)
        self._progress(f"every run has ended after {monotonic() - began:.0f} s" if not left else f"{len(left)} go on")
        end = monotonic() + HISTORY_TIMEOUT_S
        while not (caught_up := await _history_is_complete(reader)) and monotonic() < end:  # noqa: ASYNC110 - a level
            await asyncio.sleep(0.5)
        self.result.quiet = not left and caught_up
        self.result.seconds["quiescence"] = monotonic() - began


def _first_problem(group: BaseExceptionGroup[ProblemError]) -> ProblemError:
    """Take the first problem out of what a task group makes of it."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    assert isinstance(found, ProblemError)
    return found


async def _history_is_complete(reader: DatabaseReader) -> bool:
    rows = await reader.rows(_BEHIND)
    return rows is not None and not rows[0]["runs"]


def outside_file(folder: Path) -> Path:
    return folder / "outside.txt"


@contextlib.asynccontextmanager
async def campaign_platform(settings: CampaignSettings, folder: Path, progress: Progress) -> AsyncIterator[Platform]:
    """Start a platform in *folder* whose only worker serves the recording tools; it is stopped when the block ends."""
    policy, tools = folder / "policy.yaml", folder / "tools.json"
    policy.write_text(policy_text(settings.workloads))
    tools.write_text(tools_text(settings.workloads))
    tool_environment = {
        recording_tools.TOOLS_VARIABLE: str(tools),
        recording_tools.OUTSIDE_VARIABLE: str(outside_file(folder)),
    }
    worker = WorkerLaunch(
        modules=(recording_tools.__name__,), count=WORKERS, concurrency=8, environment=tool_environment
    )
    platform = Platform(
        folder / "platform",
        replicas=REPLICAS,
        role_environment={"tas": {"TOWPATH_POLICY_FILE": str(policy), "TOWPATH_SINGLE_PERSON": "true"}},
        workers=[worker],
        notice=_log.debug,
        starts="fork",
    )
    began = monotonic()
    async with platform:
        progress(f"the platform is ready after {monotonic() - began:.1f} s: {len(platform.processes)} processes")
        yield platform
