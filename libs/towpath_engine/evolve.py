"""Applies one event of the run log to the state of a run. Folding all events of a log gives the run's state.

Theory of operation
-------------------

A run is its log. `advance` decides which events happen; this module applies them, and decides nothing.
The status of a run moves like this (names on the arrows are events):

      new
       │ RunCreated
       ▼
    queued ───────────────── RunQuarantined ──────────────┐
       │ RunStarted                                       │
       ▼                                                  ▼
    running ◀──▶ waiting ─── RunQuarantined ───────▶ quarantined
       │            │                                     │
       ├────────────┴── CancelAccepted ──▶ cancelling ◀───┘ CancelAccepted
       │                                       │
       │ RunFinished                           │ RunFinished
       ▼                                       ▼
    completed  failed  escalated  abandoned  timed_out  cancelled          (final: no event leads out of them)

`running` and `waiting` differ only in what is pending: a run waits while everything that is pending stands behind a
person's decision, or is a call that its project's quota has postponed. No event records that; the status is
computed after each event, and active time, which deadlines count, stands still while a run waits.

Three rules make a stored log sufficient to rebuild a run:

1. Every event is applied as it is recorded, whether or not `advance` would emit it today. A log written by an older
   engine folds to the state that the older engine had.
2. An event is applied with nothing but the state, the event and the time recorded with it: no clock, no randomness, no
   settings. The same log gives the same state on every machine.
3. An event is applied exactly once, in the order of `seq`. Duplicates are the concern of `advance`: it turns a fact
   that is repeated into no event at all, so nothing here asks whether something happened already.

`REDUCERS` below lists which function applies which event. An event that is missing there is a defect: the lookup raises
`KeyError`, and the orchestrator quarantines the run. The parts of the state that belong to one kind of run or feature
(budget, background, goal, swarm conversation) look at every event after the table, because each of them depends on how
the event changed the rest.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from towpath_contracts.events import log as ev
from towpath_engine.reducers.background import update_background
from towpath_engine.reducers.budget import update_budget
from towpath_engine.reducers.calls import (
    apply_instruction_issued,
    apply_tool_call_denied,
    apply_tool_call_edited,
    apply_tool_call_finished,
    apply_tool_call_postponed,
)
from towpath_engine.reducers.children import (
    apply_child_ended,
    apply_child_started,
    apply_child_stopped,
    apply_child_waits,
)
from towpath_engine.reducers.conversation import update_conversation
from towpath_engine.reducers.decisions import (
    apply_agent_transferred,
    apply_backed_off,
    apply_decision_missed,
    apply_decision_postponed,
    apply_decision_received,
    apply_decision_refused,
    apply_decision_requested,
    apply_note_added,
    apply_usage_corrected,
)
from towpath_engine.reducers.epoch_turns import update_epoch_turns
from towpath_engine.reducers.fork import apply_run_forked
from towpath_engine.reducers.gates import apply_gate_closed, apply_gate_opened
from towpath_engine.reducers.goal import update_goal
from towpath_engine.reducers.lifecycle import (
    apply_cancel_accepted,
    apply_effect_resent,
    apply_fence_stored,
    apply_run_created,
    apply_run_finished,
    apply_run_quarantined,
    apply_run_started,
)
from towpath_engine.reducers.loops.counters import apply_loop_detected, apply_step_validated
from towpath_engine.reducers.operator_acts import apply_confidence_requested, apply_note_given
from towpath_engine.reducers.plan import (
    apply_handed_off,
    apply_plan_accepted,
    apply_plan_moved,
    apply_plan_step_ended,
    apply_plan_step_started,
)
from towpath_engine.reducers.watchdog import apply_watchdog_reported
from towpath_engine.reducers.workspace import apply_outcome_recorded, apply_plan_changed, apply_workspace_changed
from towpath_engine.state.replace import replace
from towpath_engine.state.run import RunState, Status

Reducer = Callable[[RunState, Any, datetime], RunState]


def unchanged(state: RunState, _event: ev.AnyEvent, _at: datetime) -> RunState:
    """Return *state*: the event is for readers of the log, or only for a part that looks at every event."""
    return state


REDUCERS: dict[type, Reducer] = {
    # the life of a run
    ev.RunCreated: apply_run_created,
    ev.RunForked: apply_run_forked,
    ev.RunStarted: apply_run_started,
    ev.CancelAccepted: apply_cancel_accepted,
    ev.FenceStored: apply_fence_stored,
    ev.RunQuarantined: apply_run_quarantined,
    ev.RunFinished: apply_run_finished,
    ev.EffectResent: apply_effect_resent,
    # decisions
    ev.DecisionRequested: apply_decision_requested,
    ev.BackedOff: apply_backed_off,
    ev.DecisionReceived: apply_decision_received,
    ev.DecisionRequestFailed: apply_decision_missed,
    ev.DecisionPostponed: apply_decision_postponed,
    ev.DecisionRefused: apply_decision_refused,
    ev.InstructionIssued: apply_instruction_issued,
    ev.AgentTransferred: apply_agent_transferred,
    ev.NoteAdded: apply_note_added,
    # tool calls, and the workspace that internal tools change
    ev.ToolCallEdited: apply_tool_call_edited,
    ev.ToolCallFinished: apply_tool_call_finished,
    ev.ToolCallDenied: apply_tool_call_denied,
    ev.ToolCallPostponed: apply_tool_call_postponed,
    ev.InternalOutcomeRecorded: apply_outcome_recorded,
    ev.WorkspacePlanChanged: apply_plan_changed,
    ev.WorkspaceChanged: apply_workspace_changed,
    # gates
    ev.GateOpened: apply_gate_opened,
    ev.GateClosed: apply_gate_closed,
    # what people say from outside
    ev.NoteGiven: apply_note_given,
    ev.ConfidenceRequested: apply_confidence_requested,
    # loops and the watchdog
    ev.LoopDetected: apply_loop_detected,
    ev.WatchdogReported: apply_watchdog_reported,
    # goal runs; `update_goal` does the rest
    ev.StepResultValidated: apply_step_validated,
    ev.DenialEscalated: unchanged,
    ev.ProgressMeasured: unchanged,
    ev.GoalConfidenceMeasured: unchanged,
    # background runs; `update_background` does it all
    ev.IterationStarted: unchanged,
    ev.IterationCompleted: unchanged,
    ev.Reflected: unchanged,
    ev.RunEndDecided: unchanged,
    ev.DeliverableRefused: unchanged,
    ev.FinalSummaryRecorded: unchanged,
    ev.BackgroundRunEnded: unchanged,
    # plans, swarms and children
    ev.PlanStateChanged: apply_plan_moved,
    ev.PlanAccepted: apply_plan_accepted,
    ev.PlanStepStarted: apply_plan_step_started,
    ev.PlanStepEnded: apply_plan_step_ended,
    ev.SwarmHandoffRequested: apply_handed_off,
    ev.ChildStarted: apply_child_started,
    ev.ChildGateWaitChanged: apply_child_waits,
    ev.ChildEnded: apply_child_ended,
    ev.ChildStopRequested: apply_child_stopped,
    # budgets; `update_budget` does the rest
    ev.BudgetAccountsApplied: unchanged,
    ev.BudgetRefused: unchanged,
    ev.BudgetWarned: unchanged,
    ev.UsageCorrected: apply_usage_corrected,
}


def evolve(state: RunState, entry: ev.LogEntry) -> RunState:
    """Return the state after *entry*, with its seq, its live status and its active time brought up to date."""
    event, at = entry.event, entry.at
    changed = REDUCERS[type(event)](state, event, at)
    if changed.budget is not None or isinstance(event, ev.BudgetAccountsApplied):
        changed = replace(changed, budget=update_budget(state, changed, event))
    if changed.background is not None:
        changed = replace(changed, background=update_background(state, changed, changed.background, event, at))
    if changed.goal is not None:
        changed = replace(changed, goal=update_goal(state, changed, changed.goal, event))
    if changed.swarm is not None:
        changed = replace(changed, swarm=update_conversation(state, changed, changed.swarm, event))
    if changed.epoch_turns is not None:
        kept = update_epoch_turns(state, changed, changed.epoch_turns, event)
        changed = changed if kept is changed.epoch_turns else replace(changed, epoch_turns=kept)
    changed = replace(changed, seq=entry.seq, status=_live_status(changed))
    return _with_active_time(changed, at)


def _live_status(state: RunState) -> Status:
    if state.status in (Status.RUNNING, Status.WAITING):
        return Status.WAITING if state.only_waits else Status.RUNNING
    return state.status


def _with_active_time(state: RunState, at: datetime) -> RunState:
    active = state.status in (Status.RUNNING, Status.CANCELLING)
    if active == (state.active_since is not None):
        return state
    if active:
        return replace(state, active_since=at)
    since = state.active_since
    spent = int((at - since).total_seconds() * 1000) if since is not None else 0
    return replace(state, active_since=None, active_ms=state.active_ms + max(0, spent))
