"""Answers `svc.orchestrator.steer_run`: a person pauses a run, lets it go on, gives it a note, or puts a gate on it.

Who does so stands in the audit before anything happens. An answer is given once the log of the run holds the act. A
pause goes down the tree, level by level: a run that is paused starts no child, so those found below it are all there
are. A resume goes up: the run at the top goes on last, so that a request that failed on its way can be made again. Of
the runs of trees few are at work at a time, in turns of projects: each asks the database several times.
"""

import asyncio
from uuid import UUID

from towpath_contracts import subjects
from towpath_contracts.events import log as ev
from towpath_contracts.facts import AnyFact, GateResolvedFact, RunSteeredFact
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.run_control import MAX_HOLDS, RESUMED, RUN_PAUSED, RunSteered, SteeringAct, SteerRun
from towpath_contracts.runs.views import GateView, GetEvents, GetRun, ListGates, ListRuns, RunView
from towpath_fabric.clock import monotonic
from towpath_fabric.crash_points import crash_point
from towpath_fabric.ids import new_run_id
from towpath_fabric.ports import MessageBus
from towpath_fabric.turns.work_turns import WorkTurns
from towpath_orchestrator.app.api.queries import RunQueries
from towpath_orchestrator.app.audited_actions import record_action

LIVE = frozenset({"queued", "running", "waiting"})
FOLDED_WITHIN_S = 4.0
"""A fact is folded in milliseconds; whoever asks waits longer than this for each level of a tree."""

LOOK_EVERY_S = 0.05
AT_ONCE = 200
"""Runs, or gates, of one page."""

RUNS = 64
RUNS_OF_ONE = 24
"""Runs of trees that are paused, resumed or looked below at the same time, in all and of one project."""

WAIT_S = 25.0
"""How long a run of a tree waits for its turn: who asks waits for the whole tree half a minute."""

PHASES: dict[SteeringAct, str] = {
    "pause": "run.paused",
    "resume": "run.resumed",
    "note": "run.note_given",
    "gate": "run.gate_requested",
    "confidence": "run.confidence_requested",
}
"""The entry of the audit, by act."""


class RunControl:
    """Carries out what people do to live runs from outside."""

    def __init__(self, queries: RunQueries, bus: MessageBus) -> None:
        self._queries = queries
        self._bus = bus
        self._runs = WorkTurns(RUNS, lambda _: RUNS_OF_ONE, WAIT_S)

    async def steer(self, request: SteerRun) -> RunSteered:
        """Do what a person asks for; raises ProblemError. Returns once it is in the log."""
        run = await self._queries.get_run(GetRun(project=request.project, run_id=request.run_id))
        if run.status not in LIVE:
            raise _not_live(run.run_id, run.status)
        match request.act:
            case "pause":
                return await self._pause(request)
            case "resume":
                return await self._resume(request, run)
            case "note":
                await self._check_reader(run)
            case "gate":
                await self._check_room(request)
            case "confidence" if run.kind != "goal":
                raise ProblemError(problem("not_a_goal", f"run {run.run_id} pursues no goal"))
            case _:
                pass
        act_id = new_run_id()
        await self._audit(request, act_id)
        taken = await self._act(request, run.run_id, act_id, None)
        if taken is None:
            raise _not_live(run.run_id, "over")
        gate = taken.gate_id if isinstance(taken, ev.GateOpened) else None
        return RunSteered(detail=_DONE[request.act], gate_id=gate)

    async def _check_reader(self, run: RunView) -> None:
        """Refuse a note that no model would read: plans and workflows ask none what to do."""
        page = await self._queries.events(GetEvents(project=run.project, run_id=run.run_id, limit=1))
        first = page.entries[0].event if page.entries else None
        flows = isinstance(first, ev.RunCreated) and first.swarm is not None and first.swarm.swarm.mode == "workflow"
        if run.kind == "plan" or flows:
            detail = f"run {run.run_id} carries out steps, and asks no model"
            raise ProblemError(problem("note_not_read", detail, run_id=str(run.run_id)))

    async def _check_room(self, request: SteerRun) -> None:
        """Refuse a gate on a run that has as many as it takes: the run would not open it."""
        asked = ListGates(project=request.project, status="pending", run_id=request.run_id, limit=AT_ONCE)
        gates = (await self._queries.list_gates(asked)).gates
        held = sum(bool(gate.detail.get("holds")) and gate.gate_type != RUN_PAUSED for gate in gates)
        if held >= MAX_HOLDS:
            detail = f"{held} gates that people have put on run {request.run_id} are open"
            raise ProblemError(problem("run_gates_full", detail, run_id=str(request.run_id)))

    async def _audit(self, request: SteerRun, act_id: UUID) -> None:
        await record_action(
            self._bus, request, PHASES[request.act], reason=request.text, run_id=request.run_id, act=str(act_id)
        )

    async def _pause(self, request: SteerRun) -> RunSteered:
        """Pause the run and all that live below it; one that is paused already stays so.

        A run that is only held by the pause of one above it gets a pause of its own, which outlives that one.
        """
        pause_id = next(map(_pause_of, await self._own_pauses(request)), None) or new_run_id()
        await self._audit(request, pause_id)
        level, held = [request.run_id], 0
        while level:
            done = await asyncio.gather(*(self._hold(request, run_id, pause_id) for run_id in level))
            held += sum(done)
            level = await self._next_level(request, level)
        if not held:
            raise _not_live(request.run_id, "over")
        gate_id = next((gate.gate_id for gate in await self._own_pauses(request)), None)
        return RunSteered(detail=f"{held} run(s) are paused", runs=held, gate_id=gate_id)

    async def _hold(self, request: SteerRun, run_id: UUID, pause_id: UUID) -> bool:
        """Pause one run; return whether it is paused, or was, and False where it has ended meanwhile."""
        async with self._runs.held(request.project):
            if pause_id in map(_pause_of, await self._pauses(request, run_id)):
                return True
            act_id = pause_id if run_id == request.run_id else new_run_id()
            return await self._act(request, run_id, act_id, pause_id) is not None

    async def _own_pauses(self, request: SteerRun) -> list[GateView]:
        """Return the open pauses of the run itself: none that came from a run above it."""
        held = await self._pauses(request, request.run_id)
        return [gate for gate in held if gate.detail["pause"] == gate.detail["act"]]

    async def _next_level(self, request: SteerRun, level: list[UUID]) -> list[UUID]:
        """Return the children of these runs that have not ended."""
        below = await asyncio.gather(*(self._children(request, run_id) for run_id in level))
        return [run_id for children in below for run_id in children]

    async def _below(self, request: SteerRun, run_id: UUID) -> set[UUID]:
        """Return the runs below a run that have not ended."""
        found: set[UUID] = set()
        level = [run_id]
        while level := await self._next_level(request, level):
            found.update(level)
        return found

    async def _children(self, request: SteerRun, run_id: UUID) -> list[UUID]:
        """Return the children of a run that have not ended."""
        found: list[UUID] = []
        before: UUID | None = None
        while True:
            asked = ListRuns(project=request.project, parent_run_id=run_id, before=before, limit=AT_ONCE)
            async with self._runs.held(request.project):
                page = await self._queries.list_runs(asked)
            found += [run.run_id for run in page.runs if run.status in LIVE]
            before = page.next_before
            if before is None:
                return found

    async def _resume(self, request: SteerRun, run: RunView) -> RunSteered:
        """End every pause of the run, and what came of them below it; a run that was paused by itself stays so."""
        own = await self._pauses(request, run.run_id)
        if not own:
            detail = f"run {run.run_id} is {run.status}, and not paused"
            raise ProblemError(problem("run_not_paused", detail, run_id=str(run.run_id)))
        await self._audit(request, UUID(own[0].detail["act"]))
        pauses = set(map(_pause_of, own))
        tree = await self._pauses(request, None, root=run.root_run_id or run.run_id)
        runs_below = await self._below(request, run.run_id)
        below = [gate for gate in tree if gate.run_id in runs_below and _pause_of(gate) in pauses]
        for gates in (below, own):
            await asyncio.gather(*(self._open(request, gate) for gate in gates))
        runs = len({gate.run_id for gate in (*below, *own)})
        return RunSteered(detail=f"{runs} run(s) go on", runs=runs)

    async def _open(self, request: SteerRun, gate: GateView) -> None:
        """End one pause, and wait until the run's log holds that."""
        async with self._runs.held(request.project):
            await self._opened(request, gate)

    async def _opened(self, request: SteerRun, gate: GateView) -> None:
        await store_fact(
            self._bus,
            GateResolvedFact(
                run_id=gate.run_id, gate_id=gate.gate_id, verdict=RESUMED, reason=request.text, by=request.actor
            ),
        )
        until = monotonic() + FOLDED_WITHIN_S
        while monotonic() < until:
            asked = ListGates(project=request.project, status=None, gate_id=gate.gate_id, limit=1)
            page = await self._queries.list_gates(asked)
            if not page.gates or page.gates[0].status != "pending":
                return
            await asyncio.sleep(LOOK_EVERY_S)
        raise _not_yet()

    async def _pauses(self, request: SteerRun, run_id: UUID | None, root: UUID | None = None) -> list[GateView]:
        """Return the open pauses of a run, or of all runs of the tree below *root*."""
        found: list[GateView] = []
        after: UUID | None = None
        while True:
            asked = ListGates(
                project=request.project, status="pending", run_id=run_id, root_run_id=root, after=after, limit=AT_ONCE
            )
            page = await self._queries.list_gates(asked)
            found += [gate for gate in page.gates if gate.gate_type == RUN_PAUSED]
            after = page.next_after
            if after is None:
                return found

    async def _act(self, request: SteerRun, run_id: UUID, act_id: UUID, pause_id: UUID | None) -> ev.AnyEvent | None:
        """Send the act to one run and return its event; None where the run takes none any more."""
        run = await self._queries.get_run(GetRun(project=request.project, run_id=run_id))
        if run.status not in LIVE:
            return None
        fact = RunSteeredFact.model_validate(
            {
                "run_id": run_id,
                "fact_id": str(act_id),
                "act": request.act,
                "act_id": act_id,
                "by": request.actor,
                "text": request.text,
                "pause_id": pause_id,
            }
        )
        await store_fact(self._bus, fact)
        return await self._taken(request.project, run_id, act_id, run.seq)

    async def _taken(self, project: str, run_id: UUID, act_id: UUID, seq: int) -> ev.AnyEvent | None:
        """Wait until the log holds the act: a broker that loses its data must not lose what was answered."""
        until = monotonic() + FOLDED_WITHIN_S
        while (left := until - monotonic()) > 0:
            look = GetEvents(project=project, run_id=run_id, after=seq, limit=1_000, wait_ms=int(left * 1000))
            await self._queries.await_news(look)
            page = await self._queries.events(look)
            for entry in page.entries:
                if _act_of(entry.event) == str(act_id):
                    return entry.event
            seq = page.entries[-1].seq if page.entries else seq
            if page.status not in LIVE and seq >= page.seq:
                return None
        reason = await self._queries.refusal_of(run_id, act_id)
        raise _not_yet() if reason is None else ProblemError(problem("act_refused", reason, run_id=str(run_id)))


async def store_fact(bus: MessageBus, fact: AnyFact) -> None:
    """Store a fact in the inbox of its run: what is answered then survives this process."""
    crash_point("orchestrator.before_word")
    subject = subjects.run_inbox("orchestrator", fact.run_id)
    if not await bus.store(subject, fact.model_dump_json().encode()):
        raise ProblemError(problem("unavailable", "the broker did not take the request; ask again", retry_after_s=2))
    crash_point("orchestrator.word_stored")


_DONE = {
    "note": "the model reads it with its next decision",
    "gate": "the run waits for a person",
    "confidence": "the model is asked when the step is over",
}


def _pause_of(gate: GateView) -> UUID:
    """Return which pause a gate is of: that of its own run, or of one above it."""
    return UUID(gate.detail["pause"])


def _act_of(event: ev.AnyEvent) -> str:
    """Return the id of the act that *event* records; empty where it records none."""
    match event:
        case ev.GateOpened():
            return str(event.detail.get("act", "")) if event.execution_id is None else ""
        case ev.NoteGiven() | ev.ConfidenceRequested():
            return str(event.act_id)
        case _:
            return ""


def _not_live(run_id: UUID, status: str) -> ProblemError:
    return ProblemError(problem("run_not_live", f"run {run_id} is {status}", run_id=str(run_id)))


def _not_yet() -> ProblemError:
    return ProblemError(problem("unavailable", "the run's log does not hold it yet; ask again", retry_after_s=2))
