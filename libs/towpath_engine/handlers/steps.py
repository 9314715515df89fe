"""The steps of a run: begin one, act on its decision, join its calls.

Every step passes the checks of `STOP_CHECKS` in their order. A decision that is refused is fed back to the model and
changes nothing else.
"""

from collections.abc import Callable

from towpath_contracts import facts
from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import digest_text
from towpath_contracts.decisions.decision import (
    PLAIN_KINDS,
    AbandonInstruction,
    AskPersonInstruction,
    CallToolsInstruction,
    FinishInstruction,
    TransferInstruction,
)
from towpath_contracts.decisions.request import DecisionKind
from towpath_contracts.events import log as ev
from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_contracts.runs.run_control import MANUAL
from towpath_contracts.text import truncate
from towpath_engine.handlers.decision_requests import request_assessment
from towpath_engine.handlers.finish import finish
from towpath_engine.handlers.run_gates import open_run_gate
from towpath_engine.handlers.run_kinds import strategy_of
from towpath_engine.handlers.stop_checks.budgets import EXCEEDED, last_answer_only, stop_without_budget
from towpath_engine.handlers.stop_checks.deadline import stop_at_deadline
from towpath_engine.handlers.stop_checks.loop_escalation import enforce, record_loop, stop_on_loop
from towpath_engine.handlers.stop_checks.loop_finders import DetectedLoop, loop_of
from towpath_engine.handlers.stop_checks.watchdog import stop_on_finding
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.reducers.loops.counters import LOOP_DETECTED
from towpath_engine.rules.decisions import DecisionRefusal, instruct
from towpath_engine.state.earlier_turns import wants_summary
from towpath_engine.state.run import EffectKind, RunState, Status
from towpath_engine.state.workspace import file_list_json

ANSWERED = frozenset({EffectKind.DECIDE, EffectKind.TOOL, EffectKind.CHILD})
"""What a step waits for; a gate of the run may open, and be resolved, while an answer is on its way."""


def is_awaiting(state: RunState) -> bool:
    """Return whether a person is asked about the run, or an answer is on its way."""
    return state.waits_at_run_gate or any(effect.kind in ANSWERED for effect in state.pending)


def on_run_admitted(run: TransitionBuilder, _fact: facts.RunAdmittedFact) -> None:
    if run.state.status is Status.QUEUED:
        run.emit(ev.RunStarted())
        begin_step(run)


def begin_step(run: TransitionBuilder) -> None:
    """Check every reason to stop; when there is none, do what a step of this kind of run does."""
    if is_awaiting(run.state):
        return  # the resolution of the gate, or the last answer, comes here again
    if any(stops(run) for stops in STOP_CHECKS):
        return
    if wants_summary(run.state):
        request_assessment(run, DecisionKind.SUMMARIZE)
        return
    force_answer(run)
    strategy_of(run).act(run)


def stop_on_kind_checks(run: TransitionBuilder) -> bool:
    return any(stops(run) for stops in strategy_of(run).checks)


def stop_after_tool_errors(run: TransitionBuilder) -> bool:
    limit = run.state.created.max_tool_errors
    if run.state.tool_errors < limit or run.state.created.kind not in PLAIN_KINDS:
        return False
    finish(
        run,
        Status.FAILED,
        "max_tool_errors_exceeded",
        f"{run.state.tool_errors} tool calls failed; the limit is {limit}",
    )
    return True


def stop_at_kind_limits(run: TransitionBuilder) -> bool:
    return any(stops(run) for stops in strategy_of(run).limits)


def stop_at_max_steps(run: TransitionBuilder) -> bool:
    limit = run.state.created.max_steps
    if run.state.composition is not None or run.state.step < limit:
        return False  # the steps of a composed run are those of its plan
    finish(run, Status.FAILED, "max_steps_exceeded", f"no answer within {limit} steps")
    return True


STOP_CHECKS: tuple[Callable[[TransitionBuilder], bool], ...] = (
    stop_at_deadline,
    stop_on_kind_checks,
    stop_on_loop,
    stop_on_finding,
    stop_without_budget,
    stop_after_tool_errors,
    stop_at_kind_limits,
    stop_at_max_steps,
)
"""Every reason to stop, in the order in which they count: the first that applies names the reason of the end.

Each check returns whether it ended the run, or opened a gate that the run waits for. Success comes before everything
but the deadline, so a run that reached its goal in its last step has not failed. What a person may decide (loops,
findings) comes before the limits, which end the run without asking.
"""


def force_answer(run: TransitionBuilder) -> None:
    """Hand the last step to the agent that must answer; a composed run asks no model, so it has no such step."""
    limit, spent = run.state.created.max_steps, last_answer_only(run.state)
    if run.state.composition is not None or not run.state.snapshot.force_respond:
        return
    if not spent and not (limit > 1 and run.state.step == limit - 1):
        return
    target = _answering_agent(run.state.snapshot, run.state.agent_key)
    why = "The budget is used up" if spent else "This is the last step"
    run.emit(ev.NoteAdded(step=run.state.step, text=f"{why}: answer now with RESPOND."))
    if target != run.state.agent_key:
        run.emit(
            ev.AgentTransferred(
                step=run.state.step,
                source=run.state.agent_key,
                target=target,
                epoch=run.state.epoch + 1,
                context=run.state.handoff,
                forced=True,
            )
        )


def _answering_agent(snapshot: NetworkSnapshot, current: str) -> str:
    """Return who must answer: the named agent, else the current, the default or the first one that may."""
    if snapshot.force_respond_agent is not None:
        return snapshot.force_respond_agent
    candidates = (current, snapshot.default_agent_key, *sorted(snapshot.agents))
    return next((key for key in candidates if snapshot.agents[key].allow_respond), current)


def after_decision(run: TransitionBuilder, decision: JsonObject) -> bool:
    """Validate a decision and carry it out, or feed the refusal back.

    Returns whether the phases of the step come next: there is no action to wait for, and the run has not ended.
    """
    instruction = instruct(run.state, decision)
    match instruction:
        case DecisionRefusal():
            return resend_decision(run, instruction.code, instruction.feedback)
        case CallToolsInstruction():
            return _call_tools(run, instruction)
        case TransferInstruction():
            _issue(run, instruction)
            return (
                _transfer(run, instruction)
                if strategy_of(run).on_transfer(run, instruction)
                else not run.state.is_final
            )
        case FinishInstruction():
            _issue(run, instruction)
            return not strategy_of(run).on_finish(run, instruction)
        case AbandonInstruction():
            _issue(run, instruction)
            return not strategy_of(run).on_give_up(run, instruction)
        case AskPersonInstruction():
            _issue(run, instruction)
            open_run_gate(run, MANUAL, f"asked:{run.state.step}", instruction.reason, {"asked": instruction.detail})
    return False


def _issue(
    run: TransitionBuilder,
    instruction: CallToolsInstruction
    | TransferInstruction
    | FinishInstruction
    | AbandonInstruction
    | AskPersonInstruction,
) -> None:
    run.emit(
        ev.InstructionIssued(
            step=run.state.step,
            epoch=run.state.epoch,
            agent_key=run.state.agent_key,
            instruction=instruction,
            file_list=_file_list_for(run, instruction) if isinstance(instruction, CallToolsInstruction) else None,
        )
    )


def _file_list_for(run: TransitionBuilder, instruction: CallToolsInstruction) -> str | None:
    """Have the list of files stored that calls work with, and return its digest; None where no call asks for one."""
    tools = run.state.snapshot.all_tools
    if not any(tools[call.tool].workspace for call in instruction.calls):
        return None
    text = file_list_json(run.state.desk)
    digest = digest_text(text)
    run.store_text(digest, text)
    return digest


FEEDBACK_CHARS = 2_000
"""The longest feedback: enough for every mistake of a reasonable decision, without flooding the next prompt."""


def resend_decision(run: TransitionBuilder, code: str, feedback: str) -> bool:
    """Feed a refusal back; nothing else changes. Returns whether the phases of the step come next."""
    message = _refuse(run, code, feedback)
    if run.state.created.single_instruction:
        finish(run, Status.FAILED, code, message)
    return not run.state.is_final


def _refuse(run: TransitionBuilder, code: str, feedback: str) -> str:
    """Record in the log why a decision is not carried out; returns the message to the model."""
    message = truncate(feedback, FEEDBACK_CHARS)
    run.emit(
        ev.DecisionRefused(
            step=run.state.step, epoch=run.state.epoch, agent_key=run.state.agent_key, code=code, feedback=message
        )
    )
    return message


def _call_tools(run: TransitionBuilder, instruction: CallToolsInstruction) -> bool:
    objection = strategy_of(run).check_calls(run.state, instruction)
    if objection is not None:
        return resend_decision(run, objection.code, objection.feedback)
    loop = loop_of(run.state.detectors, instruction.calls)
    if loop is not None:
        return _refuse_loop(run, loop)
    if last_answer_only(run.state):
        return resend_decision(run, EXCEEDED, "No budget is left for calls.")
    if stop_without_budget(run):
        return False
    _issue(run, instruction)
    for pending in run.state.pending:
        if pending.kind is EffectKind.TOOL and pending.attempt and pending.effect_id not in run.state.queued:
            run.send_effect(pending.effect_id)
    return False


def _refuse_loop(run: TransitionBuilder, loop: DetectedLoop) -> bool:
    """Do not run the third equal call in a row: tell the model, or escalate further."""
    taken = record_loop(run, loop)
    if taken in ("nudge", "replan"):
        return resend_decision(run, LOOP_DETECTED, loop.told)
    if taken == "gate":
        _refuse(run, LOOP_DETECTED, loop.told)
    enforce(run, loop, taken)
    return False


def _transfer(run: TransitionBuilder, instruction: TransferInstruction) -> bool:
    same = instruction.target == run.state.agent_key
    run.emit(
        ev.AgentTransferred(
            step=run.state.step,
            source=run.state.agent_key,
            target=instruction.target,
            epoch=run.state.epoch if same else run.state.epoch + 1,
            context=instruction.context,
        )
    )
    if run.state.created.single_instruction:
        finish(run, Status.COMPLETED, "instruction_done", "", final={"transferred_to": instruction.target})
    return not run.state.is_final


def finish_instruction(run: TransitionBuilder) -> None:
    """End a run of a single instruction with what came of its calls."""
    results = [
        {"tool": c.call.tool, "execution_id": str(c.call.execution_id), "status": c.status, "result": c.result}
        for c in run.state.calls
    ]
    finish(run, Status.COMPLETED, "instruction_done", "", final={"results": results})
