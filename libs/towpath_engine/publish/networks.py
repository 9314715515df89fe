"""Publishes a network: checks its graph and compiles the snapshot.

Every problem is reported at once, each with its code. A network with a problem is not compiled.
"""

import re
from collections.abc import Mapping, Sequence

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.model_strings import model_fault
from towpath_contracts.json_schema import sub_schemas, unusable_schema
from towpath_contracts.networks.child_tools import BUILT_IN_TOOLS
from towpath_contracts.networks.spec import MAX_STEPS, AgentSpec, CompiledAgent, NetworkSnapshot, NetworkSpec
from towpath_contracts.networks.swarm_members import NetworkSwarms, delegates_of, members_by_swarm
from towpath_contracts.problems.registry import ProblemDetail
from towpath_contracts.tools.calls import ToolSpec
from towpath_engine.publish.swarms import compile_swarm, swarm_problems, with_swarm_defaults

_PLACEHOLDER = re.compile(r"(?<!\{)\{(tools|routes|agent_key|tool_history)\}(?!\})")

MAX_NETWORK_SUB_SCHEMAS = 4_000
"""Sub-schemas of the answers of all its agents together: half a second of checking whether they are schemas."""


def _problem(pointer: str, code: str, detail: str) -> ProblemDetail:
    return ProblemDetail(pointer=pointer, code=code, detail=detail)


def check(spec: NetworkSpec, tools: Mapping[str, ToolSpec]) -> list[ProblemDetail]:
    """Return every reason why *spec* can't be published; *tools* are the registered ones."""
    rosters = members_by_swarm(spec)
    spec = with_swarm_defaults(rosters)
    problems = _check_keys(spec) + _check_defaults(spec) + _check_edges(spec, tools, rosters) + _check_respond(spec)
    return problems + _check_models(spec) + _check_answers(spec) + swarm_problems(rosters)


def _check_answers(spec: NetworkSpec) -> list[ProblemDetail]:
    """Answers are held against these schemas, so they must be some; none is looked at where they are too many."""
    left = MAX_NETWORK_SUB_SCHEMAS
    for agent in spec.agents:
        left -= sub_schemas(agent.respond_schema or {}, left)
        if left < 0:
            detail = f"the answer schemas of its agents have more than {MAX_NETWORK_SUB_SCHEMAS} sub-schemas together"
            return [_problem("/agents", "network_too_large", detail)]
    return [
        _problem(f"/agents/{index}/respond_schema", "response_schema_invalid", fault)
        for index, agent in enumerate(spec.agents)
        if agent.respond_schema is not None and (fault := unusable_schema(agent.respond_schema))
    ]


def _check_keys(spec: NetworkSpec) -> list[ProblemDetail]:
    seen: set[str] = set()
    problems = []
    for index, agent in enumerate(spec.agents):
        key = agent.key.lower()
        if key in seen:
            problems.append(_problem(f"/agents/{index}/key", "agent_duplicate", f"{agent.key} is declared twice"))
        seen.add(key)
    return problems


def _check_defaults(spec: NetworkSpec) -> list[ProblemDetail]:
    defaults = [agent.key for agent in spec.agents if agent.is_default]
    if not defaults:
        return [_problem("/agents", "default_agent_missing", "no agent has is_default")]
    if len(defaults) > 1:
        return [
            _problem("/agents", "default_agent_ambiguous", f"{len(defaults)} default agents: {', '.join(defaults)}")
        ]
    return []


def _check_edges(spec: NetworkSpec, tools: Mapping[str, ToolSpec], rosters: NetworkSwarms) -> list[ProblemDetail]:
    problems = []
    for index, agent in enumerate(spec.agents):
        keys = rosters.agents | rosters.targets(agent.key)
        for route in agent.allowed_routes:
            pointer = f"/agents/{index}/allowed_routes"
            if route == agent.key:
                problems.append(_problem(pointer, "route_to_self", f"{agent.key} routes to itself"))
            elif route not in keys:
                problems.append(_problem(pointer, "route_unknown", f"{agent.key} routes to {route}, which is no agent"))
        for name in agent.equipped_tools:
            if name not in tools:
                pointer = f"/agents/{index}/equipped_tools"
                why = "is switched off on this platform" if name in BUILT_IN_TOOLS else "nobody registered"
                problems.append(_problem(pointer, "tool_unknown", f"{agent.key} is equipped with {name}, which {why}"))
    return problems


def _check_respond(spec: NetworkSpec) -> list[ProblemDetail]:
    responders = {agent.key for agent in spec.agents if agent.allow_respond}
    problems = []
    if not responders:
        problems.append(_problem("/agents", "respond_agent_missing", "no agent has allow_respond"))
    else:
        problems += _check_reach(spec, responders)
    forced = spec.force_respond_agent
    if spec.force_respond and forced is not None and forced not in responders:
        problems.append(
            _problem("/force_respond_agent", "force_respond_invalid", f"{forced} is no agent that may respond")
        )
    return problems


def _check_reach(spec: NetworkSpec, responders: set[str]) -> list[ProblemDetail]:
    routes = {agent.key: agent.allowed_routes for agent in spec.agents}
    problems = []
    for start in (agent.key for agent in spec.agents if agent.is_default):
        reached, frontier = {start}, [start]
        while frontier:
            for target in routes.get(frontier.pop(), ()):
                if target not in reached:
                    reached.add(target)
                    frontier.append(target)
        if not reached & responders:
            detail = f"from {start} no path reaches an agent that may respond ({', '.join(sorted(responders))})"
            problems.append(_problem("/agents", "respond_unreachable", detail))
    return problems


def _check_models(spec: NetworkSpec) -> list[ProblemDetail]:
    problems = []
    models = [("/model", spec.model)]
    models += [(f"/fallback_models/{i}", model) for i, model in enumerate(spec.fallback_models)]
    models += [(f"/agents/{i}/model", a.model) for i, a in enumerate(spec.agents) if a.model is not None]
    models += [
        (f"/agents/{i}/fallback_models/{place}", model)
        for i, agent in enumerate(spec.agents)
        for place, model in enumerate(agent.fallback_models)
    ]
    if spec.goal is not None and spec.goal.judge_model is not None:
        models.append(("/goal/judge_model", spec.goal.judge_model))
    for pointer, model in models:
        if fault := model_fault(model):
            problems.append(_problem(pointer, "model_unknown", fault))
    return problems


def compile_prompt(template: str) -> str:
    """Turn placeholders such as `{tools}` into template variables; `{{ … }}` is left as it is."""
    return _PLACEHOLDER.sub(r"{{ \1 }}", template)


def _compile_agent(
    spec: NetworkSpec, agent: AgentSpec, rosters: NetworkSwarms, delegates: Sequence[ToolSpec]
) -> CompiledAgent:
    return CompiledAgent(
        key=agent.key,
        display_name=agent.display_name,
        description=agent.description,
        agent_type=agent.agent_type,
        prompt=compile_prompt(agent.prompt_template),
        model=agent.model or spec.model,
        equipped_tools=(*agent.equipped_tools, *(tool.name for tool in delegates)),
        allowed_routes=tuple(key for key in agent.allowed_routes if key in rosters.agents),
        allow_respond=agent.allow_respond,
        respond_schema=agent.respond_schema,
        respond_guidance=agent.respond_guidance,
        budget=agent.budget,
        model_settings=agent.model_settings,
        fallback_models=agent.fallback_models if agent.model is not None else spec.fallback_models,
    )


def compile_snapshot(spec: NetworkSpec, tools: Mapping[str, ToolSpec]) -> NetworkSnapshot:
    """Compile a checked network. Tool specs are pinned: a run keeps the schema it was published with."""
    rosters = members_by_swarm(spec)
    spec, delegates = with_swarm_defaults(rosters), delegates_of(rosters)
    swarm = compile_swarm(rosters)
    own = {tool.name: tool for equipped in delegates.values() for tool in equipped}
    used = {name for agent in spec.agents for name in agent.equipped_tools}
    return NetworkSnapshot(
        network=spec.name,
        description=spec.description,
        default_agent_key=next(agent.key for agent in spec.agents if agent.is_default),
        agents={agent.key: _compile_agent(spec, agent, rosters, delegates.get(agent.key, ())) for agent in spec.agents},
        tools={name: own.get(name) or tools[name] for name in sorted({*used, *own})},
        max_steps=swarm.max_steps if swarm is not None and spec.max_steps == MAX_STEPS else spec.max_steps,
        max_tool_errors=spec.max_tool_errors,
        timeout_ms=spec.timeout_ms,
        step_timeout_ms=spec.step_timeout_ms,
        force_respond=spec.force_respond,
        force_respond_agent=spec.force_respond_agent,
        context_limit=spec.context_limit,
        goal=spec.goal,
        background=spec.background,
        on_loop=spec.on_loop,
        swarm=swarm,
    )


def snapshot_body(snapshot: NetworkSnapshot) -> JsonObject:
    """Return the JSON that a snapshot's digest is computed over."""
    return snapshot.model_dump(mode="json")
