"""Internal tools: the run machine applies them as a transition, once the tool-access service permits.

A call is applied at most once, and only by the permission's fact; whatever crashes, the log says whether it was.
Calls of one decision are applied in call order, so that the same replies give the same plan and the same files. The
ledger is told what came of a call until it confirms it.
"""

from datetime import timedelta

from towpath_contracts import facts
from towpath_contracts.base import JsonObject
from towpath_contracts.events import log as ev
from towpath_contracts.text import truncate
from towpath_contracts.tools.calls import ToolFailure
from towpath_contracts.tools.child_tools import starts_child
from towpath_contracts.tools.internal_tools import MAX_FAILURE_CHARS, PLAN_TOOLS, PLATFORM_WORKER, WORKSPACE_TOOLS
from towpath_engine.handlers.calls.tool_calls import after_call
from towpath_engine.handlers.gates import close_gate, note_edit
from towpath_engine.handlers.resend import resend
from towpath_engine.handlers.swarm.delegate import start_child
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.workspace import outcome_effect, unconfirmed_outcomes
from towpath_engine.rules.plan_tools import apply_plan
from towpath_engine.rules.tool_result import Applied, ContentMissingError, ToolRefusedError
from towpath_engine.rules.workspace_tools import apply_workspace, texts_needed
from towpath_engine.state.limits import bounded
from towpath_engine.state.run import OpenCall, PendingEffect, RunState, Status
from towpath_engine.state.workspace import EMPTY

TURN_S = 0.2
"""When a call whose files did not come is asked for again; the reconciler looks four times a second."""

MAX_ASKED = 12
"""Requests of a call whose files never come: then it has failed."""


def on_tool_permitted(t: TransitionBuilder, fact: facts.ToolPermitted) -> None:
    """Apply a permitted call; one that is finished, or may not start any more, changes nothing."""
    call = t.state.open_call(fact.execution_id)
    pending = t.state.pending_effect(fact.execution_id)
    if call is None or pending is None or t.state.status is Status.CANCELLING or not _is_internal(t.state, call):
        return
    if fact.execution_id in t.state.unasked:
        return  # it is asked for when its turn comes, or is under way
    note_edit(t, fact)
    args = call.call.args if fact.executed_args is None else fact.executed_args
    if starts_child(call.call.tool):
        if start_child(t, call, args, fact):
            after_call(t, call)
        return
    failure: ToolFailure | None = None
    applied = Applied(result={})
    try:
        applied = apply(t.state, call.call.tool, args, fact.contents)
    except ToolRefusedError as error:
        told, hint = truncate(str(error), MAX_FAILURE_CHARS), truncate(error.hint, MAX_FAILURE_CHARS)
        failure = ToolFailure(code=error.code, message=told, hint=hint, began=False)
    except ContentMissingError as error:
        if pending.attempt < MAX_ASKED:
            _ask_soon(t, pending)
            return
        failure = ToolFailure(code="content_missing", message=f"the text of {error} is not stored", began=False)
    _finish(t, call, fact, applied, failure)


def apply(state: RunState, tool: str, args: JsonObject, contents: dict[str, str]) -> Applied:
    """Return what *tool* makes of the desk of *state*; raises ToolRefusedError, ContentMissingError."""
    desk = state.desk or EMPTY
    if tool in PLAN_TOOLS:
        return apply_plan(tool, args, desk.plan, may_reset=may_reset(state))
    if tool in WORKSPACE_TOOLS:
        return apply_workspace(tool, args, desk.files, contents)
    raise ToolRefusedError("tool_unknown", f"this version of the platform has no internal tool {tool}")


def may_reset(state: RunState) -> bool:
    """Say whether an active plan may be given up: in a background run a reflection must have justified it."""
    background = state.background
    if background is None:
        return True
    settings = state.created.background_settings
    return settings.allow_plan_reset and (background.reset_allowed or not settings.enable_reflection)


def digests_for(state: RunState, fact: facts.ToolPermitted) -> frozenset[str]:
    """Return the digests of the texts that the call of *fact* reads, as far as the state knows the call."""
    call = state.open_call(fact.execution_id)
    if call is None or state.desk is None or call.call.tool not in WORKSPACE_TOOLS:
        return frozenset()
    args = call.call.args if fact.executed_args is None else fact.executed_args
    return texts_needed(call.call.tool, args, state.desk.files)


def on_outcome_recorded(t: TransitionBuilder, fact: facts.OutcomeRecorded) -> None:
    """The ledger holds the outcome, or never will: it is not told again."""
    if t.state.pending_effect(outcome_effect(t.state.run_id, fact.execution_id)) is not None:
        t.emit(ev.OutcomeRecorded(execution_id=fact.execution_id))


def resend_unconfirmed_outcomes(t: TransitionBuilder) -> None:
    """Tell the ledger again what it has not confirmed, also of a run that has ended."""
    for pending in unconfirmed_outcomes(t.state):
        if pending.resend_at <= t.now:
            resend(t, pending)


def _is_internal(state: RunState, call: OpenCall) -> bool:
    return state.snapshot.tools[call.call.tool].internal


def _ask_soon(t: TransitionBuilder, pending: PendingEffect) -> None:
    """Let the timer ask for the call again: its permission is told once more."""
    at = t.now + timedelta(seconds=TURN_S)
    t.emit(ev.EffectResent(effect_id=pending.effect_id, attempt=pending.attempt + 1, resend_at=at))


def _finish(
    t: TransitionBuilder, call: OpenCall, fact: facts.ToolPermitted, applied: Applied, failure: ToolFailure | None
) -> None:
    close_gate(t, fact.execution_id, "settled", "the call was applied")
    for digest, text in applied.stored.items():
        t.store(digest, text)
    if applied.plan is not None:
        t.emit(
            ev.PlanChanged(
                step=t.state.step, execution_id=fact.execution_id, plan=applied.plan.as_json(), reset=applied.reset
            )
        )
    if applied.changes:
        t.emit(ev.WorkspaceChanged(step=t.state.step, execution_id=fact.execution_id, changes=applied.changes))
    t.emit(
        ev.ToolCallFinished(
            execution_id=fact.execution_id,
            step=t.state.step,
            epoch=t.state.epoch,
            agent_key=t.state.agent_key,
            call_index=call.call.call_index,
            tool=call.call.tool,
            status="failed" if failure is not None else "succeeded",
            result=None if failure is not None else bounded(applied.result),
            failure=failure,
            worker=PLATFORM_WORKER,
            policy_version=fact.policy_version,
        )
    )
    t.ask(outcome_effect(t.state.run_id, fact.execution_id))
    after_call(t, call)
