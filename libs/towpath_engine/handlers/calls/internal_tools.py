"""Applies calls of internal tools to the state of the run, once the tool-access service permits them.

A call is applied at most once, and only by the fact of its permission; whatever crashes, the log shows whether it was
applied. Calls of one decision are applied in call order, so the same answers give the same plan and the same files.
The outcome is sent to the ledger until the ledger confirms it.
"""

from datetime import timedelta

from towpath_contracts import facts
from towpath_contracts.base import JsonObject
from towpath_contracts.events import log as ev
from towpath_contracts.networks.child_tools import starts_child
from towpath_contracts.text import truncate
from towpath_contracts.tools.calls import ToolFailure
from towpath_contracts.tools.internal_tools import (
    MAX_FAILURE_CHARS,
    OUTPUT_TOOLS,
    PLAN_TOOLS,
    WORKSPACE_TOOLS,
)
from towpath_engine.handlers.calls.call_order import after_call
from towpath_engine.handlers.gates import close_gate, record_edit
from towpath_engine.handlers.internal_outcomes import end_own_call
from towpath_engine.handlers.resend import resend
from towpath_engine.handlers.swarm.delegate import start_child
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.workspace import outcome_effect, unconfirmed_outcomes
from towpath_engine.rules.output_tools import apply_output_tool
from towpath_engine.rules.plan_tools import apply_plan
from towpath_engine.rules.tool_result import ContentMissingError, InternalToolError, InternalToolResult
from towpath_engine.rules.workspace_tools import apply_workspace, texts_needed
from towpath_engine.state.limits import shorten_answer
from towpath_engine.state.run import PendingEffect, RunState, Status, StepCall
from towpath_engine.state.workspace import EMPTY_WORKSPACE

TURN_S = 0.2
"""When a call whose texts did not come asks again, times its requests so far: what is read for it may take long.
The reconciler looks four times a second."""

MAX_ASKED = 16
"""Requests of a call whose texts never come, two each time that it asks: after 13 s it has failed."""


def on_tool_permitted(run: TransitionBuilder, fact: facts.InternalToolPermittedFact) -> None:
    """Apply a permitted call; one that is finished, or may not start any more, changes nothing."""
    call = run.state.open_call(fact.execution_id)
    pending = run.state.pending_effect(fact.execution_id)
    if call is None or pending is None or run.state.status is Status.CANCELLING or not _is_internal(run.state, call):
        return
    if fact.execution_id in run.state.unasked:
        return  # it is sent when those before it have ended, or its child is under way
    record_edit(run, fact)
    args = call.call.args if fact.executed_args is None else fact.executed_args
    if starts_child(call.call.tool):
        if start_child(run, call, args, fact):
            after_call(run, call)
        return
    failure: ToolFailure | None = None
    applied = InternalToolResult(result={})
    try:
        applied = apply_internal_tool(run.state, call.call.tool, args, fact)
    except InternalToolError as error:
        message, hint = truncate(str(error), MAX_FAILURE_CHARS), truncate(error.hint, MAX_FAILURE_CHARS)
        failure = ToolFailure(code=error.code, message=message, hint=hint, began=False)
    except ContentMissingError as error:
        if pending.attempt < MAX_ASKED:
            _ask_soon(run, pending)
            return
        failure = ToolFailure(code="content_missing", message=f"the text of {error} can't be read", began=False)
    _finish(run, call, fact, applied, failure)


def apply_internal_tool(
    state: RunState, tool: str, args: JsonObject, fact: facts.InternalToolPermittedFact
) -> InternalToolResult:
    """Apply *tool* to *state*, with what came with *fact*; raises InternalToolError, ContentMissingError."""
    desk = state.desk or EMPTY_WORKSPACE
    if tool in PLAN_TOOLS:
        return apply_plan(tool, args, desk.plan, may_reset=can_reset_plan(state))
    if tool in WORKSPACE_TOOLS:
        return apply_workspace(tool, args, desk.files, fact.contents)
    if tool in OUTPUT_TOOLS:
        return apply_output_tool(tool, args, fact.output)
    raise InternalToolError("tool_unknown", f"this version of the platform has no internal tool {tool}")


def can_reset_plan(state: RunState) -> bool:
    """Return whether an active plan may be given up: in a background run a reflection must have justified it."""
    background = state.background
    if background is None:
        return True
    settings = state.created.background_settings
    return settings.allow_plan_reset and (background.reset_allowed or not settings.enable_reflection)


def digests_for(state: RunState, fact: facts.InternalToolPermittedFact) -> frozenset[str]:
    """Return the digests of the texts that the call of *fact* reads, as far as the state knows the call."""
    call = state.open_call(fact.execution_id)
    if call is None or state.desk is None or call.call.tool not in WORKSPACE_TOOLS:
        return frozenset()
    args = call.call.args if fact.executed_args is None else fact.executed_args
    return texts_needed(call.call.tool, args, state.desk.files)


def output_call(state: RunState, fact: facts.InternalToolPermittedFact) -> tuple[str, JsonObject] | None:
    """Return tool and arguments of the call of *fact* where it reads an output; None for every other."""
    call = state.open_call(fact.execution_id)
    if call is None or call.call.tool not in OUTPUT_TOOLS:
        return None
    return call.call.tool, call.call.args if fact.executed_args is None else fact.executed_args


def on_outcome_recorded(run: TransitionBuilder, fact: facts.InternalOutcomeRecordedFact) -> None:
    """Stop sending an outcome: the ledger has stored it, or answered that it never will."""
    if run.state.pending_effect(outcome_effect(run.state.run_id, fact.execution_id)) is not None:
        run.emit(ev.InternalOutcomeRecorded(execution_id=fact.execution_id))


def resend_unconfirmed_outcomes(run: TransitionBuilder) -> None:
    """Send outcomes again that the ledger has not confirmed, also of a run that has ended."""
    for pending in unconfirmed_outcomes(run.state):
        if pending.resend_at <= run.now:
            resend(run, pending)


def _is_internal(state: RunState, call: StepCall) -> bool:
    return state.snapshot.all_tools[call.call.tool].internal


def _ask_soon(run: TransitionBuilder, pending: PendingEffect) -> None:
    """Let the timer send the call again, so that its permission comes once more."""
    at = run.now + timedelta(seconds=TURN_S * pending.attempt)
    run.emit(ev.EffectResent(effect_id=pending.effect_id, attempt=pending.attempt + 1, resend_at=at))


def _finish(
    run: TransitionBuilder,
    call: StepCall,
    fact: facts.InternalToolPermittedFact,
    applied: InternalToolResult,
    failure: ToolFailure | None,
) -> None:
    close_gate(run, fact.execution_id, "settled", "the call was applied")
    for digest, text in applied.stored.items():
        run.store_text(digest, text)
    if applied.plan is not None:
        run.emit(
            ev.WorkspacePlanChanged(
                step=run.state.step, execution_id=fact.execution_id, plan=applied.plan.as_json(), reset=applied.reset
            )
        )
    if applied.changes:
        run.emit(ev.WorkspaceChanged(step=run.state.step, execution_id=fact.execution_id, changes=applied.changes))
    result = None if failure is not None else shorten_answer(applied.result)
    end_own_call(run, call, result=result, failure=failure, policy_version=fact.policy_version)
    after_call(run, call)
