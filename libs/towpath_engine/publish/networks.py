"""Publishes a network: checks its graph and compiles the snapshot.

What can be told without a platform is `towpath_contracts.network_checks.agents`; here is added what the registered
tools decide. Every problem is reported at once, each with its code. A network with a problem is not compiled.
"""

import re
from collections.abc import Mapping, Sequence

from towpath_contracts.base import JsonObject
from towpath_contracts.network_checks.agents import PLACEHOLDERS, graph_problems
from towpath_contracts.network_checks.swarms import swarm_problems
from towpath_contracts.networks.child_tools import BUILT_IN_TOOLS
from towpath_contracts.networks.spec import MAX_STEPS, AgentSpec, CompiledAgent, NetworkSnapshot, NetworkSpec
from towpath_contracts.networks.swarm_members import NetworkSwarms, delegates_of, members_by_swarm, with_swarm_defaults
from towpath_contracts.problems.registry import ProblemDetail
from towpath_contracts.tools.calls import ToolSpec
from towpath_engine.publish.swarms import compile_swarm, size_problems

_PLACEHOLDER = re.compile(r"(?<!\{)\{(" + "|".join(PLACEHOLDERS) + r")\}(?!\})")


def check(spec: NetworkSpec, tools: Mapping[str, ToolSpec]) -> list[ProblemDetail]:
    """Return every reason why *spec* can't be published; *tools* are the registered ones."""
    rosters = members_by_swarm(spec)
    swarm = swarm_problems(rosters) or list(size_problems(rosters))
    return graph_problems(rosters) + _check_tools(spec, tools) + swarm


def _check_tools(spec: NetworkSpec, tools: Mapping[str, ToolSpec]) -> list[ProblemDetail]:
    problems = []
    for index, agent in enumerate(spec.agents):
        for name in agent.equipped_tools:
            if name not in tools:
                pointer = f"/agents/{index}/equipped_tools"
                why = "is switched off on this platform" if name in BUILT_IN_TOOLS else "nobody registered"
                detail = f"{agent.key} is equipped with {name}, which {why}"
                problems.append(ProblemDetail(pointer=pointer, code="tool_unknown", detail=detail))
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
