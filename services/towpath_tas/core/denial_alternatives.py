"""What a refused agent can do instead: other tools, other agents, a person who may approve.

Everything that is named is really open, by the rules, the grants and the network as they are. Where arguments or a
limit decide, it is marked `conditional`, since the arguments of a call that was not asked for are unknown. An agent
that is named as a specialist may make the very call that was refused.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from towpath_contracts.base import JsonObject
from towpath_contracts.networks.spec import NetworkSnapshot
from towpath_contracts.tools.calls import AlternativeTool, Denial, DenialEscalation, Specialist, ToolSpec
from towpath_contracts.tools.grants import Grants, covers_operation
from towpath_contracts.tools.violations import DenialCode
from towpath_tas.core.denials import MAX_ALLOWED
from towpath_tas.core.policy.conditions import ConditionCompiler, ConditionContext, ConditionResult
from towpath_tas.core.policy.grants import granted
from towpath_tas.core.policy.matrix import CallPrincipal, LimitCounters, Matrix, MatrixVerdict, Rule, names_discovered

HELPED_BY_OTHERS = frozenset(
    {DenialCode.PERMISSION, DenialCode.TOOL_UNKNOWN, DenialCode.NOT_GRANTED, DenialCode.LIMIT, DenialCode.DRIFTED}
)
"""Violations after which another tool or agent may help; after all others the call itself must change."""

MAX_SPECIALISTS = 5
"""Agents named; the first of them is the one to ask."""

_CALL_BOUND = re.compile(r"\b(?:args|origin)\b")
"""Conditions that use these depend on the call, so they can't be evaluated for another one."""

Opening = Literal["allow", "require_approval"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDirectoryEntry:
    """What other agents have to know of an agent of the network."""

    key: str
    agent_type: str
    tools: frozenset[str]
    routes: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DenialAlternativesQuery:
    """What alternatives to a denied call are looked up with: who was refused, under which grants, and the call."""

    principal: CallPrincipal
    grants: Grants
    context: ConditionContext


AgentDirectory = Mapping[str, AgentDirectoryEntry]
"""The agents of one snapshot by key; empty if unknown."""


def directory_of(snapshot: NetworkSnapshot) -> AgentDirectory:
    return {
        key: AgentDirectoryEntry(
            key=key,
            agent_type=agent.agent_type,
            tools=frozenset(agent.equipped_tools),
            routes=frozenset(agent.allowed_routes),
        )
        for key, agent in snapshot.agents.items()
    }


def alternatives(
    refused: DenialAlternativesQuery,
    specs: Iterable[ToolSpec],
    matrix: Matrix,
    compiler: ConditionCompiler,
    directory: AgentDirectory,
) -> tuple[AlternativeTool, ...]:
    """Return which of *specs*, nearest first, the refused agent may use instead; only tools of its network."""
    own = directory.get(refused.principal.agent)
    context = refused.context.with_values({"args": {}, "origin": {}})
    found: list[AlternativeTool] = []
    for spec in specs:
        if own is not None and spec.name not in own.tools:
            continue
        standing = _alternative(refused, spec, matrix, compiler, context)
        if standing is not None:
            found.append(standing)
        if len(found) == MAX_ALLOWED:
            break
    return tuple(found)


def specialists(
    refused: DenialAlternativesQuery,
    spec: ToolSpec,
    matrix: Matrix,
    compiler: ConditionCompiler,
    directory: AgentDirectory,
    used: LimitCounters,
) -> tuple[Specialist, ...]:
    """Return the agents of the network that may make this very call, first those that a route leads to.

    None are named any more once the share of the budget is spent: what is not evaluated may be allowed or not.
    """
    own = directory.get(refused.principal.agent)
    routes = own.routes if own is not None else frozenset[str]()
    found = []
    for other in directory.values():
        if other.key == refused.principal.agent or spec.name not in other.tools:
            continue
        principal = replace(refused.principal, agent=other.key, agent_type=other.agent_type)
        agent = {"key": other.key, "type": other.agent_type}
        context = refused.context.with_values({"agent": agent})
        if not granted(refused.grants, spec.name, spec.operation, context, compiler):
            if context.too_costly:
                break
            continue
        verdict = matrix.decide(principal, spec.name, spec.operation, context, used, discovered=spec.discovered)
        if context.too_costly:
            break
        if verdict.effect != "deny" and verdict.rule is not None:
            found.append(_specialist(other.key, verdict.effect, verdict.rule, reachable=other.key in routes))
    found.sort(key=lambda one: (not one.reachable, one.verdict, one.agent_key))
    return tuple(found[:MAX_SPECIALISTS])


def escalation(violation: str, verdict: MatrixVerdict | None) -> DenialEscalation:
    """Return which person could allow what was refused, if any."""
    match violation:
        case DenialCode.PERMISSION if verdict is not None:
            return _by_rules(verdict)
        case DenialCode.LIMIT:
            return DenialEscalation(role="policy_admin", rule=_limited_rule_name(verdict), why="a limit is used up")
        case DenialCode.APPROVAL_EXPIRED:
            return DenialEscalation(role="approver", why="nobody answered in time; asking again asks again")
        case DenialCode.APPROVAL_DENIED:
            return DenialEscalation(why="a person has denied it")
        case DenialCode.NOT_GRANTED:
            return DenialEscalation(why="the task was submitted with fewer rights, and only another task can have more")
        case DenialCode.TOO_COSTLY:
            return DenialEscalation(why="nobody can permit a call that takes too long to be checked")
        case DenialCode.POISON:
            return DenialEscalation(why="an operator has to find out why its authorization ends the service")
        case DenialCode.SCHEMA:
            return DenialEscalation(why="the tool's owner has to mend its schema")
        case DenialCode.ARGUMENTS | DenialCode.TOOL_UNKNOWN | DenialCode.OPERATION_UNKNOWN:
            return DenialEscalation(why="nobody can permit a call that can't be made")
        case _:
            return DenialEscalation(role="policy_admin", why="a policy admin has to look at it")


def with_alternatives(
    denial: Denial, others: tuple[AlternativeTool, ...], agents: tuple[Specialist, ...], person: DenialEscalation
) -> Denial:
    """Return *denial* with alternatives, specialists and escalation, and with text about them for the model."""
    sentences = [denial.suggestion] if denial.suggestion else []
    if agents:
        sentences.append(_describe_specialist(agents[0]))
    if person.role == "approver" and person.rule is not None:
        sentences.append(f"A person may approve it: {person.why}.")
    changes = {
        "alternatives": others,
        "allowed_tools": denial.allowed_tools or tuple(one.tool for one in others),
        "specialists": agents,
        "escalation": person,
        "suggestion": " ".join(sentences),
    }
    return denial.model_copy(update=changes)


def _alternative(
    refused: DenialAlternativesQuery,
    spec: ToolSpec,
    matrix: Matrix,
    compiler: ConditionCompiler,
    context: ConditionContext,
) -> AlternativeTool | None:
    """Return whether the agent may use *spec*, whatever the arguments; None if it may not."""
    lets = _granted(refused.grants, spec, compiler, context)
    rules = matrix.candidates(refused.principal, spec.name, spec.operation, discovered=spec.discovered)
    sure = [rule for rule in rules if not _depends_on_call(rule.when) and matrix.applies(rule, context)]
    maybe = [rule for rule in rules if _depends_on_call(rule.when)]
    opening = [rule for rule in (*sure, *maybe) if rule.effect != "deny"]
    if spec.discovered and not any(map(names_discovered, opening)):
        return None
    if lets is ConditionResult.NO or not opening or any(rule.effect == "deny" for rule in sure):
        return None
    asks = [rule for rule in sure if rule.effect == "require_approval"]
    allows = [rule for rule in opening if rule.effect == "allow"]
    rule = (asks or allows or opening)[0]
    bound = _depends_on_call(rule.when) or any(one.effect != rule.effect for one in maybe) or _limited(sure)
    if spec.discovered and not any(map(names_discovered, sure)):
        bound = True
    return AlternativeTool(
        tool=spec.name,
        operation=spec.operation,
        verdict="allow" if rule.effect == "allow" else "require_approval",
        conditional=bound or lets is ConditionResult.UNCLEAR,
        why=_why(rule),
    )


def _granted(
    grants: Sequence[Sequence[JsonObject]], spec: ToolSpec, compiler: ConditionCompiler, context: ConditionContext
) -> ConditionResult:
    """Return whether the grants allow some call of *spec*: certainly, perhaps, or never."""
    worst = ConditionResult.YES
    for grant in grants:
        entries = [entry for entry in grant if covers_operation(entry, spec.name, spec.operation)]
        certain = [entry for entry in entries if not _depends_on_call(entry.get("when"))]
        if granted((tuple(certain),), spec.name, spec.operation, context, compiler):
            continue
        if len(certain) == len(entries):
            return ConditionResult.NO
        worst = ConditionResult.UNCLEAR
    return worst


def _depends_on_call(when: object) -> bool:
    return when is not None and _CALL_BOUND.search(str(when)) is not None


def _limited(rules: Iterable[Rule]) -> bool:
    limits = ((rule.max_calls_per_run, rule.rate_calls, rule.max_cost_per_run_usd) for rule in rules)
    return any(limit is not None for each in limits for limit in each)


def _why(rule: Rule) -> str:
    opens = "allows it" if rule.effect == "allow" else "lets a person approve it"
    return f"rule {rule.name} {opens}" + (f" where {rule.when}" if rule.when else "")


def _specialist(key: str, effect: str, rule: Rule, *, reachable: bool) -> Specialist:
    verdict: Opening = "allow" if effect == "allow" else "require_approval"
    return Specialist(agent_key=key, verdict=verdict, reachable=reachable, why=_why(rule))


def _describe_specialist(one: Specialist) -> str:
    may = "may do it" if one.verdict == "allow" else "may do it once a person approves"
    return f"Agent {one.agent_key} {may}: hand over to it." if one.reachable else f"Agent {one.agent_key} {may}."


def _by_rules(verdict: MatrixVerdict) -> DenialEscalation:
    near = next((rule for rule in verdict.unmet if rule.effect == "require_approval"), None)
    if verdict.rule is None and near is not None:
        return DenialEscalation(role="approver", rule=near.name, why=_why(near))
    if verdict.rule is not None:
        return DenialEscalation(role="policy_admin", rule=verdict.rule.name, why="this rule stands against it")
    return DenialEscalation(role="policy_admin", why="no rule opens it")


def _limited_rule_name(verdict: MatrixVerdict | None) -> str | None:
    return None if verdict is None or verdict.limited is None else verdict.limited.name
