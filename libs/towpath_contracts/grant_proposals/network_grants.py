"""Grants from a network or a plan: the tools of the agents that may come into control.

Which agents those are follows from the compiled network alone: routes, swarms, delegates, specialists and plans. An
agent that nothing leads to is left out, and so are the tools that only such agents have.
"""

from collections.abc import Iterable, Iterator

from towpath_contracts.grant_proposals.proposals import (
    APPLIED_BY_RUN,
    GrantProposal,
    LeftOutTool,
    ProposedGrantEntry,
    Source,
    operation_of,
    proposal_of,
)
from towpath_contracts.networks.child_tools import DELEGATE, ORCHESTRATE
from towpath_contracts.networks.plan import Plan
from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_contracts.networks.swarm import CompiledSwarm

MAX_NAMED = 4
"""Agents named in a reason."""


def grant_of_network(snapshot: NetworkSnapshot, version: int, agent_key: str | None = None) -> GrantProposal:
    """Return a grant of the tools of every agent that is reachable from where a task begins.

    A task begins with *agent_key*, else with the default agent. Raises LookupError for an agent that is not there.
    """
    return _granted(snapshot, version, "network", reachable_agents(snapshot, _starts(snapshot, agent_key)))


def grant_of_plan(snapshot: NetworkSnapshot, version: int, plan: Plan) -> GrantProposal:
    """Return a grant of the tools of every agent that *plan* names, and of those that they may hand over to.

    Raises LookupError for an agent that is not there.
    """
    named = dict.fromkeys(call.agent_key for step in plan.steps for call in step.calls)
    return _granted(snapshot, version, "plan", reachable_agents(snapshot, named))


def reachable_agents(snapshot: NetworkSnapshot, starts: Iterable[str]) -> tuple[str, ...]:
    """Return the keys of the agents that may come into control in a run which begins with *starts*, in their order.

    A name of a nested swarm stands for its members. Raises LookupError for a name that is neither.
    """
    swarms = {} if snapshot.swarm is None else dict(_swarms(snapshot.swarm))
    reached: set[str] = set()
    frontier = list(starts)
    while frontier:
        name = frontier.pop()
        if name in reached:
            continue
        reached.add(name)
        if name in swarms:
            frontier += swarms[name].members
        elif name in snapshot.agents:
            frontier += _next_agents(snapshot, name)
        else:
            raise LookupError(name)
    return tuple(key for key in snapshot.agents if key in reached)


def _starts(snapshot: NetworkSnapshot, agent_key: str | None) -> list[str]:
    """Return who may come into control without being handed anything: a swarm's members take turns by themselves."""
    found = [agent_key or snapshot.default_agent_key]
    if snapshot.force_respond_agent is not None:
        found.append(snapshot.force_respond_agent)
    if snapshot.swarm is not None:
        found += snapshot.swarm.members
    if snapshot.goal is not None:
        found += snapshot.goal.specialists
    return found


def _next_agents(snapshot: NetworkSnapshot, key: str) -> Iterator[str]:
    agent = snapshot.agents[key]
    yield from agent.allowed_routes
    for tool in agent.equipped_tools:
        if tool == ORCHESTRATE:
            yield from snapshot.agents
        elif tool.startswith(DELEGATE) and snapshot.tools[tool].internal:
            yield tool.removeprefix(DELEGATE)


def _swarms(swarm: CompiledSwarm) -> Iterator[tuple[str, CompiledSwarm]]:
    for name, nested in swarm.swarms.items():
        yield name, nested
        yield from _swarms(nested)


def _granted(snapshot: NetworkSnapshot, version: int, source: Source, keys: tuple[str, ...]) -> GrantProposal:
    holders: dict[str, list[str]] = {}
    for key in keys:
        for tool in snapshot.agents[key].equipped_tools:
            holders.setdefault(tool, []).append(key)
    entries = [_entry(snapshot, tool, tuple(holders[tool])) for tool in sorted(holders)]
    left_out = [
        LeftOutTool(tool=tool, reason="no agent that this task can reach is equipped with it")
        for tool in sorted(snapshot.tools)
        if tool not in holders
    ]
    return proposal_of(snapshot, version, source, entries, left_out=left_out)


def _entry(snapshot: NetworkSnapshot, tool: str, agents: tuple[str, ...]) -> ProposedGrantEntry:
    spec = snapshot.tools[tool]
    more = f" and {len(agents) - MAX_NAMED} more" if len(agents) > MAX_NAMED else ""
    who = f"{'agent' if len(agents) == 1 else 'agents'} {', '.join(agents[:MAX_NAMED])}{more}"
    reason = f"{who} {'is' if len(agents) == 1 else 'are'} equipped with it"
    if spec.internal:
        reason = f"{reason}; {APPLIED_BY_RUN}"
    return ProposedGrantEntry(tool=tool, operation=operation_of(spec), reason=reason, agents=agents)
