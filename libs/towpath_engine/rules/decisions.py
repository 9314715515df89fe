"""Validates a decision: turns it into an instruction, or into feedback for the model.

A refusal changes nothing but the next message to the model, and lists every problem of the decision at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic import ValidationError

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.decision import (
    MAX_CALLS_PER_DECISION,
    Abandon,
    AbandonInstruction,
    AnyDecision,
    AskPersonInstruction,
    CallToolsInstruction,
    FinishInstruction,
    RequestGate,
    Respond,
    RouteToAgent,
    ToolCall,
    ToolCallProposal,
    TransferInstruction,
    UseTool,
    adapter_of,
    arguments_fault,
)
from towpath_contracts.ids import execution_id
from towpath_contracts.json_schema import schema_faults
from towpath_contracts.networks.spec import CompiledAgent
from towpath_contracts.networks.swarm import handoff_name_in
from towpath_contracts.problems.near_names import SUGGESTED, nearest_name, pair_names, suggest_name
from towpath_contracts.tools.calls import ToolSpec
from towpath_contracts.tools.internal_tools import OUTPUT_TOOLS
from towpath_engine.reducers.routes import handoff_of, routes_of
from towpath_engine.state.run import RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRefusal:
    """Why a decision is not carried out; `feedback` is for the model."""

    code: str
    feedback: str


def parse(decision: JsonObject, kind: str = "network") -> AnyDecision | DecisionRefusal:
    """Read a decision of a run of *kind* in wire form; unknown actions and fields are refused."""
    try:
        return cast("AnyDecision", adapter_of(kind).validate_python(decision))
    except ValidationError as error:
        problems = [
            f"{'.'.join(str(part) for part in entry['loc'])}: {entry['msg']}"  # as in the logs that are stored
            for entry in error.errors(include_url=False, include_input=False)
        ]
        return DecisionRefusal(code="decision_invalid", feedback="The decision is not valid. " + "; ".join(problems))


def instruct(
    state: RunState, decision: JsonObject
) -> (
    CallToolsInstruction
    | TransferInstruction
    | FinishInstruction
    | AbandonInstruction
    | AskPersonInstruction
    | DecisionRefusal
):
    """Validate *decision* against what the acting agent may do."""
    parsed = parse(decision, state.created.kind)
    agent = state.snapshot.agents[state.agent_key]
    match parsed:
        case DecisionRefusal():
            return parsed
        case UseTool():
            return _tools(state, agent, parsed.action_details.proposals())
        case RouteToAgent():
            return _route(agent, parsed, routes_of(state))
        case Respond():
            return _respond(state, agent, parsed)
        case Abandon():
            return AbandonInstruction(rationale=parsed.action_details.rationale)
        case RequestGate():
            return AskPersonInstruction(reason=parsed.action_details.reason, detail=parsed.action_details.detail)


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names) if names else "none"


def _either(names: Sequence[str]) -> str:
    """Return *names* as a choice."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


def _may_instead(agent: CompiledAgent) -> str:
    """Return what an agent may do that may not respond, as the end of a sentence.

    Of one with tools and routes it is told as logs have it that were written long ago: their facts still give them.
    """
    tools, routes = agent.equipped_tools, agent.allowed_routes
    if tools and routes:
        return f". Use a tool ({_names(tools)}) or route to ({_names(routes)})"
    if not tools and not routes:
        return "; it has no tools and no routes"
    return f"; it may use {_either(tools)}" if tools else f"; it may route to {_either(routes)}"


def _route(
    agent: CompiledAgent, decision: RouteToAgent, routes: tuple[str, ...]
) -> TransferInstruction | DecisionRefusal:
    target = decision.action_details.target_agent_name
    if target not in routes:
        return DecisionRefusal(
            code="route_not_allowed",
            feedback=f"{agent.key} may not route to {target!r}. Allowed routes: {_names(routes)}.",
        )
    return TransferInstruction(target=target, context=decision.action_details.context)


def _respond(state: RunState, agent: CompiledAgent, decision: Respond) -> FinishInstruction | DecisionRefusal:
    if not agent.allow_respond:
        return DecisionRefusal(
            code="respond_not_allowed",
            feedback=f"{agent.key} may not respond{_may_instead(agent)}.",
        )
    schema, payload = state.created.response_schema, decision.action_details.payload
    hands_over = handoff_of(state) is not None and handoff_name_in(payload, routes_of(state)) is not None
    wrong = () if schema is None or hands_over else schema_faults(schema, payload)
    if wrong:
        faults = "; ".join(wrong)
        return DecisionRefusal(
            code="response_invalid", feedback=f"The payload does not satisfy its JSON Schema. {faults}"
        )
    return FinishInstruction(payload=payload)


def _tool_not_allowed(state: RunState, agent: CompiledAgent, name: str) -> str:
    """Say that the agent has no such tool: which one was meant by a name that nobody has, and else who has it."""
    hint = "."
    if name not in state.snapshot.all_tools:
        hint = suggest_name(name, agent.equipped_tools, otherwise=hint)
    elif routes := [key for key in agent.allowed_routes if name in state.snapshot.agents[key].equipped_tools]:
        hint = f"; it may route to {_either(routes)}, which {'has' if len(routes) == 1 else 'have'} it."
        if not agent.equipped_tools:
            return f"{agent.key} may not use {name!r}{hint}"
    return f"{agent.key} may not use {name!r}{hint} Allowed tools: {_names(agent.equipped_tools)}."


def _tools(
    state: RunState, agent: CompiledAgent, proposals: tuple[ToolCallProposal, ...]
) -> CallToolsInstruction | DecisionRefusal:
    calls: list[ToolCall] = []
    problems: list[str] = []
    code = "arguments_invalid"
    first = 0 if state.goal is None else (state.goal.attempt - 1) * MAX_CALLS_PER_DECISION
    for index, proposal in enumerate(proposals):
        if proposal.tool_name not in agent.equipped_tools and proposal.tool_name not in OUTPUT_TOOLS:
            code = "tool_not_allowed"
            problems.append(_tool_not_allowed(state, agent, proposal.tool_name))
            continue
        spec = state.snapshot.all_tools[proposal.tool_name]
        if isinstance(proposal.tool_params, str):
            fault = arguments_fault(proposal.tool_params)
            problems.append(f"{spec.name}: the arguments can't be read: {fault}. Write tool_params as a JSON object.")
            continue
        merged, wrong = merge_arguments(spec, proposal.tool_params, state.created.system_params)
        problems += wrong
        calls.append(
            ToolCall(
                execution_id=execution_id(state.run_id, state.step, first + index),
                call_index=first + index,
                tool=spec.name,
                args=merged,
                system_params=tuple(name for name in spec.system_params if name in merged),
            )
        )
    if problems:
        return DecisionRefusal(code=code, feedback=" ".join(problems))
    return CallToolsInstruction(calls=tuple(calls))


def merge_arguments(spec: ToolSpec, given: JsonObject, system: JsonObject) -> tuple[JsonObject, list[str]]:
    """Join the model's arguments with the system's; returns the merged ones and every problem found."""
    properties: dict[str, Any] = spec.parameters.get("properties", {})
    required: list[str] = list(spec.parameters.get("required", []))
    owned = set(spec.system_params)
    problems = [
        f"{spec.name}: parameter {name!r} is set by the system; leave it out." for name in given if name in owned
    ]
    meant: set[str | None] = set()
    if spec.parameters.get("additionalProperties") is False:
        known = [name for name in properties if name not in owned]
        absent = {*required}.intersection(known) - given.keys()
        listed = ", ".join(known) or "none"
        unknown = [name for name in given if name not in properties]
        nearest = {name: nearest_name(name, sorted(absent)) for name in unknown[:SUGGESTED]}
        # A model may write any number of them, and each of the few above is compared with every name letter by letter.
        nearest |= pair_names(unknown[SUGGESTED:], sorted(absent.difference(filter(None, nearest.values()))))
        meant.update(nearest.values())
        for name in unknown:
            near = nearest.get(name)
            hint = f"did you mean {near!r}? It takes" if near is not None else "it takes"
            problems.append(f"{spec.name}: there is no parameter {name!r}; {hint}: {listed}.")
    merged = {name: value for name, value in given.items() if name not in owned}
    merged.update({name: system[name] for name in spec.system_params if name in system})
    for name in required:
        if name in merged or name in meant:  # who mends the name has mended both
            continue
        owner = "the system did not provide" if name in owned else "missing"
        problems.append(f"{spec.name}: required parameter {name!r}: {owner}.")
    return merged, problems
