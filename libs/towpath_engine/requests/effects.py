"""Builds the message of each pending effect.

A message is a pure function of the state and the pending effect, so a resend after a crash sends the same message.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.request import DecisionKind, DecisionRequest, ScriptPosition
from towpath_contracts.ids import effect_id
from towpath_contracts.networks.model_settings import ModelSettings, merge_model_settings
from towpath_contracts.runs.children import AskChildStatus
from towpath_contracts.runs.trace_context import trace_of
from towpath_contracts.text import truncate
from towpath_contracts.tools.access import RaiseFence
from towpath_contracts.tools.calls import ToolRequest
from towpath_contracts.tools.grants import grant_chain
from towpath_contracts.tools.internal_outcomes import RecordInternalOutcome
from towpath_contracts.tools.internal_tools import MAX_FAILURE_CHARS
from towpath_engine.reducers.budget import total_cost
from towpath_engine.reducers.decisions import DECIDE_GRACE_S
from towpath_engine.requests.network_context import build_context
from towpath_engine.requests.planner import plan_schema
from towpath_engine.state.budget import SpendingRestriction
from towpath_engine.state.limits import shorten_answer
from towpath_engine.state.run import STOPPING, EffectKind, PendingEffect, RunState

CALLS = 4
"""Model calls that one attempt may take where a run has a budget: two that fail before an answer, an unreadable answer,
and one after repair."""

JUDGED = (DecisionKind.VALIDATE, DecisionKind.PROGRESS)
"""What the judge of a goal is asked. Confidence is the acting model's own: how sure *it* is."""

OUTPUT_TOKENS = 8_192

LEAN_OUTPUT_TOKENS = 1_024
"""Of a run that asks for less because its budget comes to an end: enough for a decision, and one call has to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextToStore:
    """A text that an event of the transition names by digest: stored before the transition is, and never sent."""

    run_id: UUID
    digest: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingEffect:
    """A message to send once the transition is committed; `effect_id:attempt` is its message id."""

    effect: PendingEffect
    message: DecisionRequest | ToolRequest | RaiseFence | AskChildStatus | RecordInternalOutcome | TextToStore

    @property
    def message_id(self) -> str:
        """The broker's deduplication id."""
        return f"{self.effect.effect_id}:{self.effect.attempt}"


def resendable_effects(state: RunState) -> list[PendingEffect]:
    """Return what is pending and may be sent again in the same attempt, in case it was lost.

    Where a run has a budget a model is asked once in an attempt: the broker may have forgotten that it took the request
    before, and a second decider would be paid for it. Its next attempt comes when its lease is over.
    """
    unasked = state.unasked
    asked = [p for p in state.pending if p.effect_id not in unasked and not p.postponed]
    return asked if state.budget is None else [p for p in asked if p.kind is not EffectKind.DECIDE]


def model_of(state: RunState) -> str:
    """Return the model that decides for the current agent: the task's choice, else the agent's."""
    return state.created.model or state.snapshot.agents[state.agent_key].model


def model_for(state: RunState, kind: DecisionKind) -> str:
    """Return the model that answers a request of *kind*.

    A background run may have its own for its summary, a goal run for what is judged of its steps and progress.
    """
    if kind in JUDGED and state.created.goal is not None:
        return state.created.goal_settings.judge_model or model_of(state)
    if kind is DecisionKind.SUMMARIZE and state.created.background is not None:
        return state.created.background_settings.summarize_model or model_of(state)
    if kind is DecisionKind.COMPILE_PLAN:
        return state.created.planner_model or model_of(state)
    return model_of(state)


def models_for(state: RunState, kind: DecisionKind) -> tuple[str, ...]:
    """Return the models that may answer a request of *kind*, in the order in which they are asked.

    One that a list names twice has one place: where a list goes on is found by the name of the model that was asked.
    """
    first, agent = model_for(state, kind), state.snapshot.agents[state.agent_key]
    is_the_agents = state.created.model is None and first == agent.model
    return tuple(dict.fromkeys((first, *agent.fallback_models))) if is_the_agents else (first,)


def reads_prompt(model: str) -> bool:
    """Return whether *model* reads the words of its prompt: a script, and an agent in user code, don't."""
    return not model.startswith(("scripted:", "agent:"))


def asked_model(state: RunState, effect: PendingEffect) -> str:
    """Return the model that a pending request asks now."""
    return effect.model or model_for(state, DecisionKind(state.asked))


def settings_of(state: RunState) -> ModelSettings | None:
    """Return what models are asked with: for the current agent, as its task and its network say."""
    return merge_model_settings(state.snapshot.agents[state.agent_key].model_settings, state.created.model_settings)


def message_of(state: RunState, effect: PendingEffect) -> OutgoingEffect:
    """Build the message of a pending effect."""
    match effect.kind:
        case EffectKind.DECIDE:
            return OutgoingEffect(effect=effect, message=_decide(state, effect))
        case EffectKind.TOOL:
            return OutgoingEffect(effect=effect, message=_tool(state, effect))
        case EffectKind.FENCE:
            fence = RaiseFence(
                run_id=state.run_id, project=state.created.project, fence=state.fence, reason=str(state.status)
            )
            return OutgoingEffect(effect=effect, message=fence)
        case EffectKind.CHILD:
            return OutgoingEffect(effect=effect, message=_ask_child(state, effect))
        case EffectKind.OUTCOME:
            return OutgoingEffect(effect=effect, message=_outcome(state, effect))
        case EffectKind.STORE:
            msg = "a text is stored with its transition and never pending"
            raise ValueError(msg)


def store_text(state: RunState, digest: str, text: str, now: datetime) -> OutgoingEffect:
    """Return the effect that stores *text*."""
    effect = PendingEffect(
        effect_id=effect_id(state.run_id, f"text:{digest}"), kind=EffectKind.STORE, attempt=1, resend_at=now
    )
    return OutgoingEffect(effect=effect, message=TextToStore(run_id=state.run_id, digest=digest, text=text))


def _outcome(state: RunState, effect: PendingEffect) -> RecordInternalOutcome:
    """The ledger gets a result that a message can hold, whatever is pending: its row must end."""
    outcome: JsonObject = {**(effect.outcome or {})}
    outcome["result"] = shorten_answer(outcome.get("result"))
    if outcome.get("failure"):
        outcome["failure"] = {
            **outcome["failure"],
            "message": truncate(outcome["failure"]["message"], MAX_FAILURE_CHARS),
        }
    return RecordInternalOutcome.model_validate({"run_id": state.run_id, "project": state.created.project, **outcome})


def _ask_child(state: RunState, effect: PendingEffect) -> AskChildStatus:
    stops = state.is_final or state.status in STOPPING
    unwanted = next((c.stopped for c in state.children if c.child_id == effect.effect_id), "")
    return AskChildStatus(
        run_id=state.run_id,
        child_id=effect.effect_id,
        project=state.created.project,
        cancel=stops or bool(unwanted),
        reason=f"its parent is {state.status}" if stops else unwanted,
    )


def _decide(state: RunState, effect: PendingEffect) -> DecisionRequest:
    task = state.created
    kind = DecisionKind(state.asked)
    model = asked_model(state, effect)
    budget = state.budget
    lean = budget is not None and budget.means is not SpendingRestriction.ALL
    settings = settings_of(state)
    output_tokens = (settings.max_output_tokens if settings is not None else None) or OUTPUT_TOKENS
    script = None
    if model.startswith("scripted:"):
        script = ScriptPosition(digest=task.script_digest, cursors=state.cursors)
    return DecisionRequest.model_construct(
        schema_version=1,
        request_id=effect.effect_id,
        run_id=state.run_id,
        project=task.project,
        attempt=effect.attempt,
        fence=state.fence,
        step=state.step,
        epoch=state.epoch,
        kind=kind,
        model=model,
        context=build_context(state, epoch_turns=reads_prompt(model)),
        response_schema=plan_schema(state) if kind is DecisionKind.COMPILE_PLAN else None,
        max_output_tokens=min(output_tokens, LEAN_OUTPUT_TOKENS) if lean else output_tokens,
        timeout_ms=task.step_timeout_ms,
        lease_ms=task.step_timeout_ms + DECIDE_GRACE_S * 1000,
        script=script,
        debug=task.debug,
        caller=task.caller,
        max_calls=0 if budget is None else 1 if lean else CALLS,
        root_run_id=None if task.parent is None else task.parent.root_id,
        settings=settings,
        trace_id=trace_of(task.traceparent),
    )


def _tool(state: RunState, effect: PendingEffect) -> ToolRequest:
    task = state.created
    opened = next(c for c in state.calls if c.call.execution_id == effect.effect_id)
    call = opened.call
    spec = state.snapshot.all_tools[call.tool]
    cost = total_cost(state)
    return ToolRequest.model_construct(
        schema_version=1,
        execution_id=call.execution_id,
        run_id=state.run_id,
        project=task.project,
        network=task.network,
        snapshot_digest=task.snapshot_digest,
        agent_key=state.agent_key,
        agent_type=state.snapshot.agents[state.agent_key].agent_type,
        caller=task.caller,
        step=state.step,
        call_index=call.call_index,
        tool=call.tool,
        operation=spec.operation,
        toolset=spec.toolset,
        args=call.args,
        fence=effect.fence,
        attempt=effect.attempt,
        deadline=effect.deadline or effect.resend_at,
        grant=task.grant,
        grants=grant_chain(task.grants, task.grant),
        labels=task.labels,
        spent_usd=cost.usd if cost.price_known else None,
        workspace=opened.workspace,
        root_run_id=None if task.parent is None else task.parent.root_id,
        trace_id=trace_of(task.traceparent),
        counts_run_id=task.budget_root,
        system_params=call.system_params,
    )
