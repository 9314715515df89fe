"""Effects: what the outside must do, and the messages that ask for it.

Law: a message is a pure function of the state and a pending effect, so that a resend after a crash says the same again.
"""

from dataclasses import dataclass

from towpath_contracts.access import RaiseFence
from towpath_contracts.deciding import DecisionKind, DecisionRequest, ScriptPosition
from towpath_contracts.grants import chain_of
from towpath_contracts.tools import ToolRequest
from towpath_engine.context import build_context
from towpath_engine.evolve import DECIDE_GRACE_S
from towpath_engine.state import EffectKind, PendingEffect, RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A message to send once the transition is committed; `effect_id:attempt` is its message id (design §4)."""

    effect: PendingEffect
    message: DecisionRequest | ToolRequest | RaiseFence

    @property
    def message_id(self) -> str:
        """The broker's deduplication id."""
        return f"{self.effect.effect_id}:{self.effect.attempt}"


def model_of(state: RunState) -> str:
    """Return the model that decides for the current agent: the task's choice, else the agent's."""
    return state.created.model or state.snapshot.agents[state.agent_key].model


def model_for(state: RunState, kind: DecisionKind) -> str:
    """Return the model that answers a request of *kind*; a background run may have its own for its last words."""
    if kind is DecisionKind.SUMMARIZE and state.created.background is not None:
        return state.created.background_settings.summarize_model or model_of(state)
    return model_of(state)


def message_of(state: RunState, effect: PendingEffect) -> Effect:
    """Build the message of a pending effect."""
    match effect.kind:
        case EffectKind.DECIDE:
            return Effect(effect=effect, message=_decide(state, effect))
        case EffectKind.TOOL:
            return Effect(effect=effect, message=_tool(state, effect))
        case EffectKind.FENCE:
            fence = RaiseFence(
                run_id=state.run_id, project=state.created.project, fence=state.fence, reason=str(state.status)
            )
            return Effect(effect=effect, message=fence)


def _decide(state: RunState, effect: PendingEffect) -> DecisionRequest:
    task = state.created
    kind = DecisionKind(state.asked)
    model = model_for(state, kind)
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
        context=build_context(state),
        response_schema=None,
        max_output_tokens=8_192,
        timeout_ms=task.step_timeout_ms,
        lease_ms=task.step_timeout_ms + DECIDE_GRACE_S * 1000,
        script=script,
        debug=task.debug,
    )


def _tool(state: RunState, effect: PendingEffect) -> ToolRequest:
    task = state.created
    call = next(c.call for c in state.calls if c.call.execution_id == effect.effect_id)
    spec = state.snapshot.tools[call.tool]
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
        grants=chain_of(task.grants, task.grant),
        labels=task.labels,
        spent_usd=state.cost.usd if state.cost.price_known else None,
    )
