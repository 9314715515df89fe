"""What is wrong with a swarm as it is written: its members, flow and nesting.

Every mistake is reported at once, each with its code and place. What an author says of who leads must not contradict
the swarm.
"""

from collections.abc import Iterator

from towpath_contracts.networks.child_tools import DELEGATE
from towpath_contracts.networks.plan_checks import BLOCK_AGENTS
from towpath_contracts.networks.swarm_members import NetworkSwarms, ParsedSwarm
from towpath_contracts.problems.registry import ProblemDetail
from towpath_contracts.run_limits import MAX_DEPTH, PLAN_STEPS

MAX_SWARM_AGENTS = 250
"""Agents of a swarm with all that is nested in it: a snapshot holds every nested swarm where it is a member."""

MAX_CHAIN = 2 * MAX_DEPTH
"""Swarms in swarms that are followed: further down everything is too deep anyway."""

MAX_TOOL_NAME = 128


def swarm_problems(rosters: NetworkSwarms) -> list[ProblemDetail]:
    """Return every reason why the swarms of a network can't be published; none for one without."""
    problems: list[ProblemDetail] = []
    for roster in rosters.all:
        problems += _check_flow(roster)
        problems += _check_members(roster, rosters)
        problems += _check_lead(roster, rosters)
        problems += _check_team(roster, rosters)
    return [*_check_names(rosters), *problems, *_check_handoffs(rosters), *_Nesting(rosters).problems()]


def _problem(pointer: str, code: str, detail: str) -> ProblemDetail:
    return ProblemDetail(pointer=pointer, code=code, detail=detail)


def _check_names(rosters: NetworkSwarms) -> Iterator[ProblemDetail]:
    taken = {agent.key.lower(): f"agent {agent.key}" for agent in rosters.spec.agents}
    for roster in rosters.all[1:]:
        name = roster.name.lower()
        if name in taken:
            yield _problem(roster.pointer, "swarm_name_taken", f"swarm {roster.name} has the name of {taken[name]}")
        taken.setdefault(name, f"swarm {roster.name}")


def _check_flow(roster: ParsedSwarm) -> Iterator[ProblemDetail]:
    pointer = f"{roster.pointer}/flow"
    for fault in roster.faults:
        yield _problem(pointer, fault.code, f"{fault} in {roster.settings.flow!r}")
    if roster.settings.mode == "workflow" and len(roster.stages) > PLAN_STEPS:
        message = f"{len(roster.stages)} stages; a workflow has at most {PLAN_STEPS}"
        yield _problem(roster.listed_at, "flow_too_long", message)
    for stage in roster.stages:
        if len(stage) > BLOCK_AGENTS:
            message = f"{len(stage)} members in one stage; it has at most {BLOCK_AGENTS}"
            yield _problem(roster.listed_at, "flow_too_long", message)


def _check_members(roster: ParsedSwarm, rosters: NetworkSwarms) -> Iterator[ProblemDetail]:
    settings, pointer = roster.settings, roster.pointer
    flowing = {name for stage in roster.stages for name in stage}
    if not roster.members and not roster.faults:
        yield _problem(pointer, "swarm_empty", f"{_called(roster)} has no members")
    for place, name in enumerate(settings.members):
        at = f"{pointer}/members/{place}"
        if name in settings.members[:place]:
            yield _problem(at, "swarm_member_duplicate", f"{name} is named twice")
        elif settings.flow is not None and not roster.faults and name not in flowing:
            yield _problem(at, "swarm_member_unused", f"{name} is a member and stands nowhere in the flow")
        yield from _known(name, at, rosters)
    if settings.flow is None or roster.faults:
        return
    for name in sorted(flowing):
        if not settings.members:
            yield from _known(name, f"{pointer}/flow", rosters)
        elif name not in settings.members:
            yield _problem(f"{pointer}/flow", "swarm_member_unknown", f"{name} is no member of {_called(roster)}")


def _known(name: str, pointer: str, rosters: NetworkSwarms) -> Iterator[ProblemDetail]:
    if name not in rosters.agents and name not in rosters.by_name:
        there = ", ".join((*(agent.key for agent in rosters.spec.agents), *rosters.by_name)) or "none"
        yield _problem(pointer, "swarm_member_unknown", f"there is no agent or swarm {name}; there are {there}")


def _called(roster: ParsedSwarm) -> str:
    return f"swarm {roster.name}" if roster.name else "the swarm"


def _check_lead(roster: ParsedSwarm, rosters: NetworkSwarms) -> Iterator[ProblemDetail]:
    """A workflow may begin with anything; elsewhere one agent begins."""
    if roster.settings.mode == "workflow" or not roster.members:
        return
    if roster.lead in rosters.by_name:
        message = f"{roster.lead} is a swarm; an agent begins a {roster.settings.mode}"
        yield _problem(roster.listed_at, "swarm_lead_invalid", message)
    if roster.stages and len(roster.stages[0]) > 1:
        message = f"{', '.join(roster.stages[0])} begin together; one agent begins a {roster.settings.mode}"
        yield _problem(f"{roster.pointer}/flow", "swarm_lead_invalid", message)


def _check_team(roster: ParsedSwarm, rosters: NetworkSwarms) -> Iterator[ProblemDetail]:
    if roster.settings.mode != "team" or not roster.members:
        return
    at, lead = roster.listed_at, roster.lead
    if len(set(roster.members)) < 2:
        yield _problem(at, "team_too_small", f"{_called(roster)} has one member, {lead}")
    others = [f"of {_called(other)}" for other in rosters.of(lead) if other is not roster]
    if lead in rosters.agents and others:
        yield _problem(at, "team_lead_shared", f"{lead} leads {_called(roster)} and is a member {others[0]} too")
    own = next((agent.equipped_tools for agent in rosters.spec.agents if agent.key == lead), ())
    for name in sorted(set(roster.members) - {lead}):
        tool = DELEGATE + name
        if tool in own:
            yield _problem(at, "delegate_name_invalid", f"{lead} is equipped with a tool that is called {tool} already")
        elif len(tool) > MAX_TOOL_NAME:
            yield _problem(at, "delegate_name_invalid", f"{tool} is longer than {MAX_TOOL_NAME} characters")


def _check_handoffs(rosters: NetworkSwarms) -> Iterator[ProblemDetail]:
    """An agent of a handoff may hand over only to members of its own swarms."""
    for index, agent in enumerate(rosters.spec.agents):
        found = rosters.of(agent.key)
        if all(roster.settings.mode != "handoff" for roster in found):
            continue
        beside = {member for roster in found for member in roster.members}
        for route in agent.allowed_routes:
            if route in rosters.agents and route not in beside:
                message = f"{agent.key} may hand over to {route}, which is no member of its swarm"
                yield _problem(f"/agents/{index}/allowed_routes", "handoff_unknown", message)


class _Nesting:
    """How deep and how large swarms are with all that is nested in them, and which of them hold themselves."""

    def __init__(self, rosters: NetworkSwarms) -> None:
        self._rosters = rosters
        self._known: dict[str, tuple[int, int]] = {}
        self._cycles: dict[str, ProblemDetail] = {}

    def problems(self) -> Iterator[ProblemDetail]:
        """Yield what is nested wrongly; a swarm that no other one contains is looked at too."""
        measured = [(roster, *self._measure(roster, ())) for roster in self._rosters.all]
        yield from self._cycles.values()
        if self._cycles:
            return
        for roster, depth, agents in measured[:1]:
            if depth > MAX_DEPTH:
                message = f"its runs would stand {depth} deep; the limit is {MAX_DEPTH}"
                yield _problem(roster.pointer, "swarm_too_deep", message)
            elif agents > MAX_SWARM_AGENTS:
                message = f"{agents} agents take part; the limit is {MAX_SWARM_AGENTS}"
                yield _problem(roster.pointer, "swarm_too_large", message)

    def _measure(self, roster: ParsedSwarm, above: tuple[str, ...]) -> tuple[int, int]:
        """Return how deep the runs below one of *roster* stand, and how many agents it has."""
        if roster.name in self._known:
            return self._known[roster.name]
        path, by_name = (*above, roster.name), self._rosters.by_name
        depth, agents = 0, 0
        if len(path) > MAX_CHAIN:
            return MAX_CHAIN, 0
        for member in roster.members:
            nested = by_name.get(member)
            if nested is None:
                agents += 1
                depth = max(depth, int(_is_child(roster, member)))
            elif member in path:
                around = " in ".join(reversed((*path[path.index(member) :], member)))
                self._cycles.setdefault(member, _problem(nested.listed_at, "swarm_cycle", f"{around}: a circle"))
            else:
                below, more = self._measure(nested, path)
                agents += more
                depth = max(depth, 1 + below)
        self._known[roster.name] = depth, agents
        return depth, agents


def _is_child(roster: ParsedSwarm, agent_key: str) -> bool:
    """Return whether an agent acts in a child run: all of a workflow, all but the lead of a team, none of a handoff."""
    mode = roster.settings.mode
    return mode == "workflow" or (mode == "team" and agent_key != roster.lead)
