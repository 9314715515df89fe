"""Publishes a network: checks its graph and compiles the snapshot.

What can be told without a platform is told by `towpath_contracts.network_checks`; here is added what the registered
tools decide. Every problem is reported at once, each with its code. A network with a problem is not compiled.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType

from towpath_contracts.base import JsonObject
from towpath_contracts.network_checks.network_agents import PLACEHOLDERS, graph_problems
from towpath_contracts.network_checks.swarms import swarm_problems
from towpath_contracts.networks.child_tools import BUILT_IN_TOOLS
from towpath_contracts.networks.spec import MAX_STEPS, AgentSpec, CompiledAgent, NetworkSnapshot, NetworkSpec
from towpath_contracts.networks.swarm import CompiledSwarm
from towpath_contracts.networks.swarm_members import (
    NetworkSwarms,
    ParsedSwarm,
    delegates_of,
    members_by_swarm,
    with_swarm_defaults,
)
from towpath_contracts.problems.near_names import SUGGESTED, nearest_name
from towpath_contracts.problems.registry import ProblemDetail
from towpath_contracts.tools.calls import ToolSpec
from towpath_engine.state.limits import json_bytes

_PLACEHOLDER = re.compile(r"(?<!\{)\{(" + "|".join(PLACEHOLDERS) + r")\}(?!\})")


MAX_SWARM_BYTES = 64 * 1024
"""Of a compiled swarm as JSON: the first event of its every run holds it, and a message has at most 1 MiB."""


REGISTER = "start the worker that has it, or take one of towpath tools list"
"""What is said of a tool that nobody registered, where none that is there has a name like it."""


def check(
    spec: NetworkSpec,
    tools: Mapping[str, ToolSpec],
    others: Sequence[str] = (),
    *,
    waiting: Mapping[str, int] = MappingProxyType({}),
    register: str = REGISTER,
) -> list[ProblemDetail]:
    """Return every reason why *spec* can't be published; *tools* and *others* are the registered ones.

    *tools* has at least those that the spec names; of those *waiting* a worker has offered this version, and nobody has
    accepted any. *register* says how a tool is registered here; where that is
    something else than REGISTER it is said before a name that is near, too; where it is empty, the caller says it.
    """
    rosters = members_by_swarm(spec)
    swarm = swarm_problems(rosters) or list(size_problems(rosters))
    return graph_problems(rosters) + _check_tools(spec, tools, [*tools, *others], waiting, register) + swarm


def _check_tools(
    spec: NetworkSpec,
    tools: Mapping[str, ToolSpec],
    known: Sequence[str],
    waiting: Mapping[str, int],
    register: str,
) -> list[ProblemDetail]:
    problems: list[ProblemDetail] = []
    for index, agent in enumerate(spec.agents):
        for name in agent.equipped_tools:
            if name not in tools:
                pointer = f"/agents/{index}/equipped_tools"
                why = _why_unknown(name, known, waiting, register, suggest=len(problems) < SUGGESTED)
                detail = f"{agent.key} is equipped with {name}{why}"
                problems.append(ProblemDetail(pointer=pointer, code="tool_unknown", detail=detail))
    return problems


def _why_unknown(name: str, known: Sequence[str], waiting: Mapping[str, int], register: str, *, suggest: bool) -> str:
    """Say why *name* is no tool that an agent can have, and what to do, as the end of a sentence."""
    if any(sign in name for sign in "*?["):
        return f": patterns are not taken{_named_instead(name, known)}"
    if name in waiting:
        accept = f"towpath tools accept {name} --version {waiting[name]}"
        wait = "which waits until somebody accepts it: look at it, towpath tools proposals, and have it accepted"
        return f", {wait}: {accept}"
    is_off = name in BUILT_IN_TOOLS
    why = "is switched off on this platform" if is_off else "nobody registered"
    near = _near_tool(name, known)
    mend = "" if is_off or not register or (near and register == REGISTER) else f": {register}"
    meant = f"; did you mean {near!r}?" if near else ""
    return f", which {why}{f'{mend}{meant}' if suggest else ''}"


def _named_instead(pattern: str, known: Sequence[str]) -> str:
    """Say what is written in the place of *pattern*: the names of the tools that it may mean."""
    meant = [repr(name) for name in sorted(set(known)) if fnmatchcase(name, pattern)]
    more = ", …" if len(meant) > SUGGESTED else ""
    return f"; write {', '.join(meant[:SUGGESTED])}{more}" if meant else "; write the name of each tool"


def _near_tool(name: str, known: Sequence[str]) -> str | None:
    """Return which tool may have been meant; two of one toolset have to be alike in what stands behind it."""
    near = nearest_name(name, known)
    toolset, dot, own = name.rpartition(".")
    if near is not None and dot and near.startswith(f"{toolset}."):
        return near if nearest_name(own, [near.removeprefix(f"{toolset}.")]) else None
    return near


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


def size_problems(rosters: NetworkSwarms) -> Iterator[ProblemDetail]:
    """Yield why a swarm is too large for messages; only one without other mistakes can be compiled, and so measured."""
    swarm = compile_swarm(rosters)
    size = 0 if swarm is None else json_bytes(swarm.model_dump(mode="json"))
    if size > MAX_SWARM_BYTES:
        message = f"members and handoffs have {size} bytes together; the limit is {MAX_SWARM_BYTES}"
        yield ProblemDetail(pointer="/swarm", code="swarm_too_large", detail=message)


def compile_swarm(rosters: NetworkSwarms) -> CompiledSwarm | None:
    """Compile the swarm of a checked network; None for one that is none."""
    return _compiled(rosters, rosters.all[0]) if rosters.all else None


def _compiled(rosters: NetworkSwarms, roster: ParsedSwarm) -> CompiledSwarm:
    settings, by_name = roster.settings, rosters.by_name
    agents = {agent.key: agent for agent in rosters.spec.agents}
    nested = [name for name in roster.members if name in by_name]
    workflow, team, handoff = (settings.mode == mode for mode in ("workflow", "team", "handoff"))
    swarm = CompiledSwarm(
        mode=settings.mode,
        members=roster.members,
        stages=roster.stages if workflow else ((roster.lead,),),
        delegates=tuple(name for name in roster.members if name != roster.lead) if team else (),
        handoffs={name: _handoffs(agents[name], roster) for name in roster.members if handoff and name in agents},
        max_handoffs=settings.max_handoffs,
        max_parallel=settings.max_parallel,
        agent_steps=settings.agent_steps,
        swarms={name: _compiled(rosters, by_name[name]) for name in nested},
        description=settings.description,
    )
    needed = swarm.needed_steps
    return swarm if needed == swarm.max_steps else swarm.model_copy(update={"steps": needed})


def _handoffs(agent: AgentSpec, roster: ParsedSwarm) -> tuple[str, ...]:
    return tuple(name for name in agent.allowed_routes if name in roster.members)
