"""Forks a run: a new run takes over what another one knew before a step.

Knowledge is inherited, work is not: no call, request, fence or time of the parent is taken over. What it has cost is
only remembered where the fork shares its budget. A plan, or a workflow, is forked from one of its steps, with the
results of those before it. The ids of the new run follow from its own run id, so it never asks again for something that
its parent asked for. Where a person was asked about the parent itself, the fork asks them too before its first step:
else whoever may fork could do without.
"""

from uuid import UUID

from towpath_contracts import facts
from towpath_contracts.decisions.decision import FinishInstruction
from towpath_contracts.events import log as ev
from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_contracts.runs.run_control import RUN_PAUSED
from towpath_contracts.text import counted
from towpath_engine.evolve import evolve
from towpath_engine.handlers.run_gates import PAUSE_HOURS, RUN_GATE_HOURS, is_run_gate, open_run_gate
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.state.run import EffectKind, RunState, Status, initial


class ForkRefusedError(Exception):
    """The run can't be forked from that step; the text gives the reason."""


def on_run_forked(run: TransitionBuilder, fact: facts.RunForkedFact) -> None:
    """Begin a run as a fork. Only a run that was created as one, and in which nothing has happened yet, takes it."""
    parent = run.state.created.forked_from
    if run.state.status is not Status.QUEUED or run.state.seq != 1 or parent is None:
        return
    run.emit(ev.RunForked(parent=parent, parent_seq=fact.parent_seq, by=fact.by, inherited=fact.inherited))
    if fact.note:
        run.emit(ev.NoteAdded(step=run.state.step, text=fact.note))
    for gate in fact.gates:
        hours = PAUSE_HOURS if gate.gate_type == RUN_PAUSED else RUN_GATE_HOURS
        open_run_gate(run, gate.gate_type, gate.key, gate.reason, {**gate.detail, "inherited": True}, hours=hours)


class ForkStateFinder:
    """Finds the state that a run was in just before a step, from its entries in order.

    What the machine notes at the beginning of a step (nudges, the forced last step) is left out: the fork's own
    beginning notes it again. A person's answer, or a measured confidence, is noted once, so the fork keeps it.
    """

    def __init__(self, run_id: UUID, snapshot: NetworkSnapshot, from_step: int) -> None:
        self._from_step = from_step
        self._state = initial(run_id, snapshot)
        self._boundary = self._state
        self._first_step: int | None = None
        self._answered = False
        self._asked: dict[UUID, ev.GateOpened] = {}
        self._last: ev.AnyEvent | None = None

    def observe(self, entry: ev.LogEntry) -> bool:
        """Take the next entry; True once the point is found and no more entries are needed."""
        event = entry.event
        if isinstance(event, ev.DecisionRequested) and self._state.composition is None:
            self._first_step = self._first_step or event.step
            if event.step >= self._from_step:
                return True
        if isinstance(event, ev.RunFinished | ev.CancelAccepted | ev.RunQuarantined):
            return True
        self._answered = isinstance(event, ev.InstructionIssued) and isinstance(event.instruction, FinishInstruction)
        self._state = evolve(self._state, entry)
        if isinstance(event, ev.GateOpened) and event.execution_id is None:
            self._asked[event.gate_id] = event
        if _voids_question(event):
            return False
        if self._state.composition is not None:
            return self._observe_plan()
        if not _is_preamble(event) or _is_answer(self._last, event):
            self._boundary = self._state
        self._last = event
        return False

    def _observe_plan(self) -> bool:
        """Look whether a plan, or a workflow, stands right before its step: until it begins people may be asked."""
        comes = _next_step(self._state)
        self._first_step = self._first_step or comes
        if comes != self._from_step:
            return self._boundary.composition is not None and _next_step(self._boundary) == self._from_step
        self._boundary = self._state
        return False

    def _plan_state(self) -> RunState:
        found, step, first = self._boundary, self._from_step, self._first_step
        if found.composition is not None and not _is_busy(found):
            return found
        begun = self._state.step
        if first is None:
            msg = "the run has no plan yet"
        elif step < first:
            msg = f"the run is a fork that begins at step {first} of its plan: fork its parent"
        else:
            steps = counted(begun, "step")
            msg = f"the run has begun {steps} of its plan; name one from {first} to {max(first, begun)}"
        raise ForkRefusedError(msg)

    def state(self) -> RunState:
        """Return the state before the step; raises ForkRefusedError."""
        if self._state.composition is not None:
            return self._plan_state()
        found, step = self._boundary, self._from_step
        first = self._first_step
        if first is None:
            msg = "the run has not begun its first step"
        elif step < first:
            msg = f"the run is a fork that begins at step {first}: fork its parent"
        elif step > found.step + 1:
            msg = f"the run has {counted(found.step, 'step')}; name one from {first} to {found.step}"
        elif self._answered:
            msg = f"the run answered in step {found.step}: nothing comes after it"
        elif _is_busy(found):
            msg = f"step {found.step} is not over: it waits for a decision or has calls without an outcome"
        else:
            return found
        raise ForkRefusedError(msg)

    def gates(self) -> tuple[facts.InheritedGate, ...]:
        """Return the gates of the run itself that are open there."""
        asked = (self._asked[gate.gate_id] for gate in self._boundary.gates if is_run_gate(gate))
        return tuple(
            facts.InheritedGate(
                gate_type=event.gate_type,
                key=str(event.detail.get("key", "")),
                reason=event.reason,
                detail=event.detail,
            )
            for event in asked
        )

    @property
    def seq(self) -> int:
        """Seq of the last entry that is shared."""
        return self._boundary.seq


def _next_step(state: RunState) -> int | None:
    """Return which step of a plan comes next, from 1; None while one is under way, and where there is none."""
    held = state.composition
    if held is None or held.plan is None or held.phase not in ("plan_validated", "merging_results"):
        return None
    step = len(held.reports) + 1
    return step if step <= len(held.plan.steps) else None


def _is_busy(state: RunState) -> bool:
    """Return whether anything is under way. Outcomes that the ledger must confirm stay with the parent."""
    waits = any(pending.kind is not EffectKind.OUTCOME for pending in state.pending)
    return waits or any(not call.status for call in state.calls)


def _voids_question(event: ev.AnyEvent) -> bool:
    """Return whether the end of the run closes a gate: nobody has decided, so a fork asks again."""
    return isinstance(event, ev.GateClosed) and event.verdict == "void"


def _is_preamble(event: ev.AnyEvent) -> bool:
    match event:
        case ev.NoteAdded() | ev.IterationStarted() | ev.IterationCompleted():
            return True
        case ev.LoopDetected():
            return event.detector != "calls"
        case ev.AgentTransferred():
            return event.forced
        case _:
            return False


def _is_answer(before: ev.AnyEvent | None, event: ev.AnyEvent) -> bool:
    """Return whether *event* tells the model about *before*; nothing at the start of the fork repeats that."""
    match before, event:
        case ev.GateClosed(), ev.NoteAdded():
            return bool(before.reason) and before.reason in event.text
        case ev.GoalConfidenceMeasured(), ev.NoteAdded():
            return f"{before.score:.2f} " in event.text
        case _:
            return False
