"""The steps of a run: begin one, act on its decision, join its calls, end the run.

Every step passes the same termination checks in the same order: the fixed order is the order of the
lines of `begin_step`. Whatever was refused is fed back and changes nothing else.
"""

from collections.abc import Callable

from towpath_contracts import facts
from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.decision import PLAIN_KINDS, AskPerson, CallTools, Finish, GiveUp, Transfer
from towpath_contracts.events import log as ev
from towpath_contracts.networks.spec import Snapshot
from towpath_contracts.text import truncate
from towpath_engine.handlers.finish import finish
from towpath_engine.handlers.run_gates import MANUAL, open_run_gate
from towpath_engine.handlers.run_kinds import strategy_of
from towpath_engine.handlers.stop_checks.budgets import EXCEEDED, last_answer_only, stop_without_budget
from towpath_engine.handlers.stop_checks.deadline import stop_at_deadline
from towpath_engine.handlers.stop_checks.loop_escalation import LOOP_GATE, Loop
from towpath_engine.handlers.stop_checks.loops import climb, enforced, loop_of, stop_on_loop
from towpath_engine.handlers.stop_checks.watchdog import stop_on_finding
from towpath_engine.handlers.transition import TransitionBuilder
from towpath_engine.rules.decisions import Refusal, instruct
from towpath_engine.state.run import EffectKind, RunState, Status
from towpath_engine.state.workspace import listed

ANSWERED = frozenset({EffectKind.DECIDE, EffectKind.TOOL, EffectKind.CHILD})
"""What a step waits for; a run's gate may open, and be settled, while an answer is on its way."""


def is_awaiting(state: RunState) -> bool:
    """Say whether a person is asked about the run, or an answer is on its way."""
    return state.waits_at_run_gate or any(effect.kind in ANSWERED for effect in state.pending)


def on_run_admitted(t: TransitionBuilder, _fact: facts.RunAdmitted) -> None:
    if t.state.status is Status.QUEUED:
        t.emit(ev.RunStarted())
        begin_step(t)


def begin_step(t: TransitionBuilder) -> None:
    """Check every reason to stop; when there is none, do what a step of this kind of run does."""
    if is_awaiting(t.state):
        return  # whoever settles the gate, or answers last, comes here again
    if any(stops(t) for stops in STOP_CHECKS):
        return
    force_answer(t)
    strategy_of(t).act(t)


def stop_on_kind_checks(t: TransitionBuilder) -> bool:
    return any(stops(t) for stops in strategy_of(t).checks)


def stop_after_tool_errors(t: TransitionBuilder) -> bool:
    limit = t.state.created.max_tool_errors
    if t.state.tool_errors < limit or t.state.created.kind not in PLAIN_KINDS:
        return False
    finish(
        t, Status.FAILED, "max_tool_errors_exceeded", f"{t.state.tool_errors} tool calls failed; the limit is {limit}"
    )
    return True


def stop_at_kind_limits(t: TransitionBuilder) -> bool:
    return any(stops(t) for stops in strategy_of(t).limits)


def stop_at_max_steps(t: TransitionBuilder) -> bool:
    limit = t.state.created.max_steps
    if t.state.composition is not None or t.state.step < limit:
        return False  # the steps of a composed run are those of its plan
    finish(t, Status.FAILED, "max_steps_exceeded", f"no answer within {limit} steps")
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


def force_answer(t: TransitionBuilder) -> None:
    """Hand the last step to the agent that must answer; a composed run asks no model, so it has no such step."""
    limit, spent = t.state.created.max_steps, last_answer_only(t.state)
    if t.state.composition is not None or not t.state.snapshot.force_respond:
        return
    if not spent and not (limit > 1 and t.state.step == limit - 1):
        return
    target = _answering_agent(t.state.snapshot, t.state.agent_key)
    why = "The budget is used up" if spent else "This is the last step"
    t.emit(ev.NoteAdded(step=t.state.step, text=f"{why}: answer now with RESPOND."))
    if target != t.state.agent_key:
        t.emit(
            ev.AgentTransferred(
                step=t.state.step,
                source=t.state.agent_key,
                target=target,
                epoch=t.state.epoch + 1,
                context=t.state.handoff,
                forced=True,
            )
        )


def _answering_agent(snapshot: Snapshot, current: str) -> str:
    """Return who must answer: the named agent, else the current, the default or the first one that may."""
    if snapshot.force_respond_agent is not None:
        return snapshot.force_respond_agent
    candidates = (current, snapshot.default_agent_key, *sorted(snapshot.agents))
    return next((key for key in candidates if snapshot.agents[key].allow_respond), current)


def after_decision(t: TransitionBuilder, decision: JsonObject) -> bool:
    """Validate a decision and do what it says, or feed the refusal back.

    Says whether the phases of the step are to be walked: there was no action to wait for, and the run has not ended.
    """
    instruction = instruct(t.state, decision)
    match instruction:
        case Refusal():
            return resend_decision(t, instruction.code, instruction.feedback)
        case CallTools():
            return _call_tools(t, instruction)
        case Transfer():
            _issue(t, instruction)
            return _transfer(t, instruction) if strategy_of(t).hands_over(t, instruction) else not t.state.is_final
        case Finish():
            _issue(t, instruction)
            return not strategy_of(t).done(t, instruction)
        case GiveUp():
            _issue(t, instruction)
            return not strategy_of(t).give_up(t, instruction)
        case AskPerson():
            _issue(t, instruction)
            open_run_gate(t, MANUAL, f"asked:{t.state.step}", instruction.reason, {"asked": instruction.detail})
    return False


def _issue(t: TransitionBuilder, instruction: CallTools | Transfer | Finish | GiveUp | AskPerson) -> None:
    t.emit(
        ev.InstructionIssued(
            step=t.state.step, epoch=t.state.epoch, agent_key=t.state.agent_key, instruction=instruction
        )
    )


FEEDBACK_CHARS = 2_000
"""The longest feedback: enough for every mistake of a sane decision, and no door for flooding the next prompt."""


def resend_decision(t: TransitionBuilder, code: str, feedback: str) -> bool:
    """Feed a refusal back; nothing else changes. Says whether the phases of the step are to be walked."""
    told = _refuse(t, code, feedback)
    if t.state.created.single_instruction:
        finish(t, Status.FAILED, code, told)
    return not t.state.is_final


def _refuse(t: TransitionBuilder, code: str, feedback: str) -> str:
    """Say in the log why a decision is not carried out; returns what the model is told."""
    told = truncate(feedback, FEEDBACK_CHARS)
    t.emit(
        ev.DecisionRefused(
            step=t.state.step, epoch=t.state.epoch, agent_key=t.state.agent_key, code=code, feedback=told
        )
    )
    return told


def _call_tools(t: TransitionBuilder, instruction: CallTools) -> bool:
    objection = strategy_of(t).objection(t.state, instruction)
    if objection is not None:
        return resend_decision(t, objection.code, objection.feedback)
    loop = loop_of(t.state, instruction.calls)
    if loop is not None:
        return _refuse_loop(t, loop)
    if last_answer_only(t.state):
        return resend_decision(t, EXCEEDED, "No budget is left for calls.")
    if stop_without_budget(t):
        return False
    _issue(t, instruction)
    for call in t.state.calls:
        if call.workspace:
            t.store(call.workspace, listed(t.state.desk))
    for pending in t.state.pending:
        if pending.kind is EffectKind.TOOL and pending.attempt and pending.effect_id not in t.state.queued:
            t.ask(pending.effect_id)
    return False


def _refuse_loop(t: TransitionBuilder, loop: Loop) -> bool:
    """The third equal call in a row is not run: tell the model, or climb the ladder further."""
    taken = climb(t, loop)
    if taken in ("nudge", "replan"):
        return resend_decision(t, LOOP_GATE, loop.told)
    if taken == "gate":
        _refuse(t, LOOP_GATE, loop.told)
    enforced(t, loop, taken)
    return False


def _transfer(t: TransitionBuilder, instruction: Transfer) -> bool:
    same = instruction.target == t.state.agent_key
    t.emit(
        ev.AgentTransferred(
            step=t.state.step,
            source=t.state.agent_key,
            target=instruction.target,
            epoch=t.state.epoch if same else t.state.epoch + 1,
            context=instruction.context,
        )
    )
    if t.state.created.single_instruction:
        finish(t, Status.COMPLETED, "instruction_done", "", final={"transferred_to": instruction.target})
    return not t.state.is_final


def finish_instruction(t: TransitionBuilder) -> None:
    """End a run of a single instruction with what came of its calls."""
    results = [
        {"tool": c.call.tool, "execution_id": str(c.call.execution_id), "status": c.status, "result": c.result}
        for c in t.state.calls
    ]
    finish(t, Status.COMPLETED, "instruction_done", "", final={"results": results})
