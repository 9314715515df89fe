"""What must hold after every fact, whatever it was: an independent reading of the log, compared with the machine."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from towpath_contracts import facts
from towpath_contracts.decisions.decision import MAX_CALLS_PER_DECISION, CallToolsInstruction
from towpath_contracts.decisions.request import DecisionRequest
from towpath_contracts.events import log as ev
from towpath_contracts.events.log import LogEntry, event_adapter
from towpath_contracts.networks.goal import OUT_OF_TIME
from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_contracts.run_limits import MAX_PARALLEL, PLAN_STEPS
from towpath_contracts.tools.access import RaiseFence
from towpath_contracts.tools.calls import ToolRequest
from towpath_contracts.tools.internal_outcomes import RecordInternalOutcome
from towpath_contracts.tools.internal_tools import PLATFORM_WORKER
from towpath_engine.advance import advance, wake_at
from towpath_engine.evolve import evolve
from towpath_engine.handlers.plan_status import PLAN_TRANSITIONS
from towpath_engine.reducers.workspace import outcome_effect
from towpath_engine.requests.effects import OutgoingEffect
from towpath_engine.state.run import EffectKind, RunState, dump_state, initial, load_state

AFTER_THE_END = frozenset(
    {"fence_stored", "effect_resent", "usage_corrected", "outcome_recorded", "child_ended", "child_waits"}
)
"""What a finished run may still write: the fate of its fence, and what a late answer says that it used."""

SNAPSHOT_EVERY = 3
"""After so many transitions a state is dumped and loaded: among hundreds of runs, every kind of state is met."""


class InvariantChecker:
    """Reads the log on its own, never the state, and asserts."""

    def __init__(self, network: NetworkSnapshot, first: LogEntry) -> None:
        assert isinstance(first.event, ev.RunCreated)
        self.network, self.task = network, first.event
        self.seq, self.step, self.fence, self.ended = 1, 0, 0, False
        self.started = False
        self.tries = 0
        self.backs_off = False
        self.asked: set[UUID] = set()
        self.given_up = False
        self.reserved: set[UUID] = set()
        self.open: dict[UUID, int] = {}
        self.done: set[UUID] = set()
        self.applied: set[UUID] = set()
        self.children: set[UUID] = set()
        self.phase = "plan_init"
        self.gates: set[UUID] = set()
        self.held: set[UUID] = set()
        self.used_gates: set[UUID] = set()
        self.cancelled = False
        self.requested_at_fence: dict[UUID, int] = {}
        self.attempts: dict[UUID, int] = {}
        self.polls = 0
        self.stored: RunState | None = None
        self.transitions = 0
        self.reloaded: tuple[RunState | None, RunState | None] = None, None

    def observe(
        self,
        before: RunState,
        fact: facts.AnyFact,
        now: datetime,
        entries: Sequence[LogEntry],
        effects: Sequence[OutgoingEffect],
        after: RunState,
    ) -> None:
        """Check one transition."""
        texts = [entry.event.model_dump_json() for entry in entries]
        reloaded = self._folds(before, entries, texts, after)
        self._is_deterministic(before, fact, now, entries, texts, after)
        self.reloaded = after, reloaded
        expected = self._may_count(before.run_id, fact)
        for entry in entries:
            self._entry(entry)
        assert expected or not entries, f"{fact.type} was not awaited, and made {[e.event.type for e in entries]}"
        assert not effects or entries, "an effect without an event would not be sent again after a crash"
        self._effects(effects)
        self._bounds(after)
        if (
            isinstance(fact, facts.TimerFiredFact) and after.is_final == before.is_final
        ):  # its children hear of an end next
            due = wake_at(after)
            assert due is None or due > now, "a timer must move wake_at forward, or the run is woken for ever"

    def _folds(self, before: RunState, entries: Sequence[LogEntry], texts: Sequence[str], after: RunState) -> RunState:
        """The log gives the state, live and when read back from storage; and a dumped state is the state.

        Returns *after* as another process has it: folded from stored events, and now and then dumped and loaded, as
        orchestrators do when they store a snapshot.
        """
        live, stored = before, self.stored or _reread(before, initial(before.run_id, self.network), self.task)
        for entry, text in zip(entries, texts, strict=True):
            live = evolve(live, entry)
            event = event_adapter.validate_json(text)
            stored = evolve(stored, LogEntry.model_construct(seq=entry.seq, at=entry.at, event=event))
        assert live == after
        assert stored == after
        self.transitions += 1
        if self.transitions % SNAPSHOT_EVERY == 0 or after.is_final != before.is_final:
            dumped = dump_state(after)
            assert dump_state(stored) == dumped
            stored = load_state(dumped, self.task, self.network)
            assert stored == after
        self.stored = stored
        return stored

    def _is_deterministic(
        self,
        before: RunState,
        fact: facts.AnyFact,
        now: datetime,
        entries: Sequence[LogEntry],
        texts: Sequence[str],
        after: RunState,
    ) -> None:
        known, reloaded = self.reloaded
        if known is not before:  # the caller goes back to an older state, or began with a later one
            reloaded = load_state(dump_state(before), self.task, self.network)
        again, _, state = advance(reloaded, fact, now)
        assert [e.event.model_dump_json() for e in again] == texts
        assert [(e.seq, e.at) for e in again] == [(e.seq, e.at) for e in entries]
        assert state == after

    def _may_count(self, run_id: UUID, fact: facts.AnyFact) -> bool:  # noqa: C901 - one table of facts
        """Say, from the log alone, whether *fact* answers something that the run waits for."""
        if fact.run_id != run_id:
            return False
        if self.ended:
            if isinstance(fact, facts.ChildReportedFact):
                return fact.child_id in self.children
            late = (
                isinstance(fact, facts.DecisionMadeFact | facts.DecisionFailedFact) and fact.request_id in self.reserved
            )
            return late or isinstance(
                fact, facts.TimerFiredFact | facts.FenceRaisedFact | facts.InternalOutcomeRecordedFact
            )
        match fact:
            case facts.DecisionMadeFact() | facts.DecisionFailedFact():
                return fact.request_id in self.asked or fact.request_id in self.reserved
            case (
                facts.ToolFinishedFact()
                | facts.ToolDeniedFact()
                | facts.ApprovalRequiredFact()
                | facts.CallPausedFact()
                | facts.CallPostponedFact()
            ):
                return fact.execution_id in self.open
            case facts.QuotaChangedFact():
                return bool(self.open) and not self.cancelled
            case facts.InternalToolPermittedFact():
                return fact.execution_id in self.open and not self.cancelled
            case facts.InternalOutcomeRecordedFact():
                return fact.execution_id in self.applied
            case facts.ChildReportedFact():
                return fact.child_id in self.children
            case facts.GateResolvedFact():
                return bool(self.gates)
            case facts.CancelRequestedFact() | facts.RunSteeredFact():
                return not self.cancelled
            case facts.FenceRaisedFact():
                return self.cancelled and fact.fence == self.fence
            case facts.RunAdmittedFact():
                return not self.started
            case facts.RunForkedFact():
                return self.seq == 1 and self.task.forked_from is not None
            case facts.MessageDeadFact():
                told = {outcome_effect(run_id, execution_id) for execution_id in self.applied}
                return fact.effect_id in self.asked | self.children | told or fact.effect_id in self.open
            case facts.TimerFiredFact() | facts.ExecutionConflictFact() | facts.WatchdogReportedFact():
                return True
            case facts.TransitionRefusedFact():
                return True
            case facts.BudgetAccountsAppliedFact() | facts.BudgetRefusedFact() | facts.BudgetWarnedFact():
                return True

    def _entry(self, entry: LogEntry) -> None:  # noqa: C901 - one table of events
        event = entry.event
        assert entry.seq == self.seq + 1, "the log has no gaps"
        self.seq = entry.seq
        assert not self.ended or event.type in AFTER_THE_END, f"{event.type} after the end"
        match event:
            case ev.RunForked():
                assert self.seq == 2, "a fork begins with what it inherits"
                self.step = event.inherited["step"]
                self.phase = event.inherited.get("composition", {}).get("phase", self.phase)
            case ev.RunStarted():
                self.started = True
            case ev.DecisionRequested():
                assert not self.asked, "at most one decision is pending"
                assert not self.held, "a held run asks no model"
                assert not self.open, "a step begins when the calls of the one before are finished"
                assert not self.children, "a step begins when the children of the one before have ended"
                self._asked(event)
            case ev.BackedOff():
                assert event.until > entry.at
                self.backs_off = True
            case ev.DecisionReceived() | ev.DecisionRequestFailed():
                assert event.request_id in self.asked
                self.asked = set()
            case ev.InstructionIssued() if isinstance(event.instruction, CallToolsInstruction):
                self._opened(event.instruction)
            case ev.ToolCallFinished() | ev.ToolCallDenied():
                assert self.open.pop(event.execution_id) == event.call_index
                self._done(event.execution_id)
                if isinstance(event, ev.ToolCallFinished) and event.worker == PLATFORM_WORKER:
                    self.applied.add(event.execution_id)
            case ev.InternalOutcomeRecorded():
                self.applied.remove(event.execution_id)
            case ev.ChildStarted():
                assert event.child_id not in self.children and not self.asked
                assert not self.held, "a held run starts nothing"
                of_call = event.task.execution_id
                assert not self.open if of_call is None else of_call in self.open, "a call is open while its child runs"
                self.children.add(event.child_id)
                assert len(self.children) <= MAX_PARALLEL, "no more run at the same time"
            case ev.ChildEnded():
                self.children.remove(event.child_id)
            case ev.GateOpened():
                assert event.gate_id not in self.used_gates, "a gate id is used once"
                self.used_gates.add(event.gate_id)
                self.gates.add(event.gate_id)
                if event.execution_id is None and event.detail["key"] == OUT_OF_TIME:
                    # Whoever is asked at the deadline is not kept waiting by a model; its question comes once more.
                    self.given_up, self.asked = bool(self.asked), set()
                if event.execution_id is None and event.detail.get("holds"):
                    self.given_up, self.asked = self.given_up or bool(self.asked), set()
                    self.held.add(event.gate_id)
            case ev.GateClosed():
                self.gates.remove(event.gate_id)
                self.held.discard(event.gate_id)
            case ev.EffectResent():
                assert event.attempt == self.attempts.get(event.effect_id, 1) + 1
                assert event.resend_at > entry.at
                self.attempts[event.effect_id] = event.attempt
            case _:
                self._control(event)

    def _asked(self, event: ev.DecisionRequested) -> None:
        """A step begins, or the one under way is judged, or, in runs that are not networks, tried again."""
        if self.given_up:
            assert event.step == self.step
        elif event.kind == "decide" or event.step != self.step:
            assert event.step == self.step + 1 <= self.task.max_steps and event.kind in ("decide", "replan")
            self.tries = 0
        elif event.kind == "summarize" and event.step == 0:
            assert self.task.continues is not None and self.task.continues.to_summarize
        else:
            assert self.task.kind != "network"
        if self.backs_off:
            self.attempts[event.request_id] = 0  # the timer sends it
        self.backs_off = self.given_up = False
        self.step = event.step
        self.asked = {event.request_id}
        self.reserved |= {event.request_id} if event.reserved is not None else set()

    def _control(self, event: ev.AnyEvent) -> None:
        match event:
            case ev.PlanStateChanged():
                assert event.source == self.phase, "the composition is where the last transition left it"
                assert event.target == PLAN_TRANSITIONS[event.source, event.trigger]
                self.phase = event.target
            case ev.PlanStepStarted():
                assert event.index == self.step and not self.children and event.index < PLAN_STEPS
                self.step = event.index + 1
            case ev.CancelAccepted():
                assert event.fence == self.fence + 1 and not self.cancelled and not self.gates
                self.fence, self.cancelled, self.asked = event.fence, True, set()
            case ev.FenceStored():
                for execution_id in event.voided:
                    if self.open.pop(execution_id, None) is not None:
                        self._done(execution_id)
            case ev.RunQuarantined():
                assert not self.gates
                self.asked, self.cancelled = set(), False  # a cancel of it was in vain, and may come once more
            case ev.RunFinished():
                assert event.fence >= self.fence, "the fence never falls"
                assert event.steps == self.step
                assert not self.gates, "a finished run waits for nobody"
                assert (event.status == "cancelled") == self.cancelled, "a cancel wins over every other end"
                assert event.status == "completed" or event.final["status"] == "error"
                self.fence, self.ended, self.asked = event.fence, True, set()
            case _:
                return

    def _opened(self, instruction: CallToolsInstruction) -> None:
        """Calls are open now; the timer sends those of a decision that only polls once more."""
        polling = all(self.network.all_tools[call.tool].polling for call in instruction.calls)
        if polling and self.polls:
            self.attempts |= dict.fromkeys((call.execution_id for call in instruction.calls), 0)
        self.polls = self.polls + 1 if polling else 0
        first, self.tries = self.tries * MAX_CALLS_PER_DECISION, self.tries + 1
        for index, call in enumerate(instruction.calls, first):
            assert call.call_index == index, "the calls of a further attempt have ids of their own"
            assert call.execution_id not in self.open and call.execution_id not in self.done
            self.open[call.execution_id] = index

    def _done(self, execution_id: UUID) -> None:
        assert execution_id not in self.done, "a call finishes once"
        self.done.add(execution_id)

    def _effects(self, effects: Sequence[OutgoingEffect]) -> None:
        assert len({e.message_id for e in effects}) == len(effects)
        for effect in effects:
            assert effect.effect.attempt == self.attempts.get(effect.effect.effect_id, 1)
            match effect.message:
                case DecisionRequest():
                    assert effect.message.request_id in self.asked and effect.message.fence == self.fence
                case ToolRequest():
                    assert effect.message.execution_id in self.open, "a finished call is not asked for again"
                    first = self.requested_at_fence.setdefault(effect.message.execution_id, effect.message.fence)
                    assert effect.message.fence == first, "a resend must not pass a fence that was raised to stop it"
                case RecordInternalOutcome():
                    assert effect.message.execution_id in self.applied, "only what the run did itself is told"
                case RaiseFence():
                    assert effect.message.fence == self.fence and (self.cancelled or self.ended)

    def _bounds(self, after: RunState) -> None:
        """The state says the same as the log, and stays small."""
        assert {p.effect_id for p in after.pending if p.kind is EffectKind.DECIDE} == self.asked
        assert {g.gate_id for g in after.gates} == self.gates
        owed = {p.effect_id for p in after.pending if p.kind is EffectKind.OUTCOME}
        assert owed == {outcome_effect(after.run_id, e) for e in self.applied}
        assert (after.seq, after.step, after.fence, after.is_final) == (self.seq, self.step, self.fence, self.ended)
        if after.swarm is not None:
            assert sum(after.swarm.sizes) <= after.created.context_limit, "a conversation has its bounds"
        assert after.held == bool(self.held)
        assert len(after.operator_notes.notes) <= 20 and len(after.operator_notes.acts) <= 32
        if not self.ended:
            assert {p.effect_id for p in after.pending if p.kind is EffectKind.TOOL} == set(self.open)
        assert sum(len(o.text.encode()) for o in after.outputs) == after.output_bytes <= self.task.context_limit
        assert len(after.log_tail) <= 10 and len(after.older) <= 20 and len(after.detectors.nudged) <= 8
        assert (after.active_since is None) or after.status in ("running", "cancelling")


def _reread(before: RunState, empty: RunState, task: ev.RunCreated) -> RunState:
    """The state as another process would load it."""
    return empty if before.seq == 0 else load_state(dump_state(before), task, empty.snapshot)
