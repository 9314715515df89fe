"""What a model sees in a network run: the `epoch` context policy, a pure function of the state."""

from functools import partial
from typing import Any

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.attachments import StoredAttachment
from towpath_contracts.decisions.earlier_turns import with_attachments
from towpath_contracts.decisions.epoch_turns import EpochTurns
from towpath_contracts.decisions.request import DecisionKind, OfferedRoute, OfferedTool, PromptContext
from towpath_contracts.networks.spec import CompiledAgent, NetworkSnapshot
from towpath_contracts.text import truncate
from towpath_contracts.tools.calls import ToolSpec
from towpath_contracts.tools.grants import Grants, chain_covers, grant_chain
from towpath_contracts.tools.internal_tools import OUTPUT_TOOLS
from towpath_engine.reducers.conversation import CUT, conversation_section
from towpath_engine.reducers.routes import description_of, routes_of
from towpath_engine.requests.background_context import background_section, reflection_section, summary_section
from towpath_engine.requests.goal_context import goal_assessment, goal_section
from towpath_engine.requests.planner import planner_context
from towpath_engine.state.earlier_turns import is_summary_awaited, summary_of, turns_to_summarize
from towpath_engine.state.output_shares import shown_values
from towpath_engine.state.run import ACTION_KINDS, RunState
from towpath_readings.execution_log import INPUT_CHARS


def run_section(state: RunState) -> JsonObject | None:
    """Return what every prompt of the run shows; None for a network run."""
    if state.goal is not None:
        return goal_section(state, state.goal)
    if state.swarm is not None:
        return conversation_section(state)
    return background_section(state)


def assessment_section(state: RunState) -> JsonObject | None:
    """Return what the pending assessment is to judge; None where a decision is asked for."""
    if state.asked in ACTION_KINDS:
        return None
    if is_summary_awaited(state):
        return {"kind": state.asked, "earlier_turns": turns_to_summarize(state)}
    results = shown_values([(c.call.execution_id, c.result) for c in state.calls], state.created.context_limit)
    calls = [
        {"tool": c.call.tool, "arguments": c.shown_args(), "status": c.status, "result": result}
        for c, result in zip(state.calls, results, strict=True)
    ]
    section: JsonObject = {"kind": state.asked, "step": state.step, "calls": calls}
    if state.goal is not None:
        return {**section, **goal_assessment(state, state.goal)}
    if state.background is None:
        return section
    return {**section, **(summary_section(state) if state.asked == "summarize" else reflection_section(state))}


def agent_parameters(spec: ToolSpec) -> JsonObject:
    """Return the tool's schema without the parameters that the system fills in."""
    if not spec.system_params:
        return spec.parameters
    hidden = set(spec.system_params)
    properties: dict[str, Any] = {
        name: schema for name, schema in spec.parameters.get("properties", {}).items() if name not in hidden
    }
    required = [name for name in spec.parameters.get("required", []) if name not in hidden]
    return {**spec.parameters, "properties": properties, "required": required}


def offered_tools(snapshot: NetworkSnapshot, agent: CompiledAgent, grants: Grants = ()) -> tuple[OfferedTool, ...]:
    """Return the agent's tools as its model sees them; those that *grants* leave no way to are not shown."""
    specs = [snapshot.tools[name] for name in agent.equipped_tools]
    if grants:
        specs = [spec for spec in specs if chain_covers(grants, spec.name, spec.operation)]
    return tuple(
        OfferedTool(name=spec.name, description=spec.description, parameters=agent_parameters(spec)) for spec in specs
    )


def _output_tools(state: RunState, agent: CompiledAgent, *, converses: bool) -> tuple[OfferedTool, ...]:
    """Return the tools that read outputs, where something of one is not shown; else a prompt is spared them.

    Who *converses* and has tools is offered them from the beginning: tools that come later would change how its prompts
    begin.
    """
    turns = state.swarm.turns if state.swarm is not None else ()
    shortened = any(call.get(CUT) for turn in turns for call in turn.get("calls", ()))
    early = converses and bool(agent.equipped_tools)
    if not early and not shortened and not state.older_count and all(output.cut is None for output in state.outputs):
        return ()
    return tuple(
        OfferedTool(name=spec.name, description=spec.description, parameters=spec.parameters)
        for spec in OUTPUT_TOOLS.values()
        if spec.name not in agent.equipped_tools
    )


def offered_routes(state: RunState) -> tuple[OfferedRoute, ...]:
    """Return to whom control may be handed."""
    return tuple(OfferedRoute(agent_key=key, description=description_of(state, key)) for key in routes_of(state))


def input_preview(state: RunState) -> str:
    """Return what the execution log shows as the step's input: what is new to the model."""
    if state.handoff is not None:
        return truncate(state.handoff, INPUT_CHARS)
    if state.feedback:
        return truncate(state.feedback[-1], INPUT_CHARS)
    if state.outputs:
        return truncate(f"{state.outputs[0].tool}: {state.outputs[0].text}", INPUT_CHARS)
    return truncate(state.created.user_message, INPUT_CHARS)


def epoch_turns_of(state: RunState) -> EpochTurns | None:
    """Return what the agent was told and decided so far; None where a request is not answered by its next decision."""
    kept = state.epoch_turns
    if kept is None or state.asked not in ACTION_KINDS:
        return None
    return EpochTurns.model_construct(log=kept.log, turns=kept.turns, left_out=kept.left_out)


def _shown_attachments(
    state: RunState, attachments: tuple[StoredAttachment, ...], *, converses: bool
) -> tuple[StoredAttachment, ...]:
    """Return what is shown of *attachments*: to who decides; files only to who *converses*, as scripts read none."""
    if state.asked not in ACTION_KINDS:
        return ()
    return attachments if converses else tuple(one for one in attachments if one.is_text)


def build_context(state: RunState, *, epoch_turns: bool = True) -> PromptContext:
    """Return everything the current agent's prompt is rendered from; the *epoch_turns* only where it is read."""
    if state.asked == DecisionKind.COMPILE_PLAN:
        return planner_context(state)
    task, snapshot = state.created, state.snapshot
    agent = snapshot.agents[state.agent_key]
    kept = epoch_turns_of(state) if epoch_turns else None
    output_tools = _output_tools(state, agent, converses=kept is not None)
    shown = partial(_shown_attachments, state, converses=kept is not None)
    return PromptContext(
        agent_key=agent.key,
        display_name=agent.display_name,
        base_prompt=agent.prompt,
        user_message=task.user_message,
        quoted_inputs=task.quoted_inputs,
        messages=with_attachments(task.messages, shown),
        messages_left_out=0 if task.continues is None else task.continues.turns_left_out,
        messages_summary=summary_of(state),
        handoff=state.handoff,
        handoff_from=state.handoff_from,
        tools=(*offered_tools(snapshot, agent, grant_chain(task.grants, task.grant)), *output_tools),
        routes=offered_routes(state),
        allow_respond=agent.allow_respond,
        respond_schema=task.response_schema or agent.respond_schema,
        respond_guidance=agent.respond_guidance,
        outputs=state.outputs,
        older_outputs=state.older,
        older_count=state.older_count,
        log_summary=state.log_tail,
        feedback=state.feedback,
        notes=(*state.notes, *state.operator_notes.shown(state.requests)),
        steps_left=max(0, task.max_steps - state.step + 1),
        run_kind=task.kind,
        run=run_section(state),
        assessment=assessment_section(state),
        epoch_turns=kept,
        attachments=shown(task.attachments),
    )
