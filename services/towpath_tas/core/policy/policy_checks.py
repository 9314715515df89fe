"""Finds what is probably wrong in a valid matrix: unknown names, rules that never decide.

Warnings only: nothing here changes what a rule means, and a policy may be applied before its tools and networks exist.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from towpath_contracts.files.policy_document import CALLER_KEYS
from towpath_contracts.networks.child_tools import DELEGATE
from towpath_contracts.problems.near_names import suggest_name, suggest_or_list
from towpath_contracts.problems.registry import ProblemDetail
from towpath_contracts.tools.calls import ToolSpec
from towpath_contracts.tools.internal_tools import OUTPUT_TOOLS
from towpath_tas.core.policy.condition_analysis import never_true
from towpath_tas.core.policy.matrix import PATTERN_FIELDS, CallPrincipal, Rule, glob_matches
from towpath_tas.core.policy.patterns import (
    covers,
    has_unclosed_bracket,
    is_pattern,
    matching,
    simplified,
)
from towpath_tas.core.policy.unlike_comparisons import unlike_comparisons

MAX_PAIRS = 1_000_000
"""Pairs of rules that are compared: about a second."""

MAX_NAMED = 5
"""Agents of a network that are named in a doubt."""

MAX_WARNINGS = 200
"""Warnings in one answer."""

_ARGUMENT = re.compile(r"\bargs\.([A-Za-z_]\w*)|\bargs\[['\"]([^'\"]*)['\"]\]")
_LIMITS = (
    *("max_calls_per_run", "rate_calls", "rate_per_s", "max_cost_per_run_usd", "quorum", "on_expiry", "expires_s"),
    "discovered",
)


HINTS = frozenset({"not_equipped"})
"""Kinds of findings that may well be intended."""

_KEYS = {
    "tool_unknown": "tool",
    "operation_unknown": "operation",
    "network_unknown": "network",
    "agent_unknown": "agent",
    "agent_type_unknown": "agent_type",
    "not_equipped": "tool",
    "argument_unknown": "when",
    "never_true": "when",
    "types_unlike": "when",
}
"""The key of a rule that a kind of finding is about. One of spelling begins with its key."""

Finding = tuple[str, str]
"""The kind of a finding, and its text."""


class NetworkAgent(NamedTuple):
    """What rules can match of an agent of a network."""

    key: str
    kind: str = ""
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectToolsAndAgents:
    """The names that a project's rules may use: its tools, and the agents of its networks."""

    project: str = ""
    tools: Mapping[str, ToolSpec] = field(default_factory=dict)
    networks: Mapping[str, Sequence[NetworkAgent]] = field(default_factory=dict)


def check(
    rules: Sequence[Rule], line_of: Callable[[str], int] | None, around: ProjectToolsAndAgents
) -> tuple[ProblemDetail, ...]:
    """Return everything that is probably wrong with *rules*.

    *line_of* says which line of their file a JSON pointer means, or what is around it where nothing stands there. It is
    asked for the key that a finding is about; None where the rules have no file.
    """
    found = []
    for place, (code, detail) in _findings(rules, around):
        pointer = f"/rules/{place}{_key_of(code, detail)}"
        line = f"line {line_of(pointer)}: " if line_of is not None else ""
        name = rules[place].name
        found.append(ProblemDetail(pointer=f"/rules/{place}", code=code, detail=f"{line}rule {name}: {detail}"))
        if len(found) == MAX_WARNINGS:
            break
    return tuple(found)


def _key_of(code: str, detail: str) -> str:
    """Return the pointer, within its rule, of the key that a finding is about; empty for one about the whole rule."""
    key = detail.partition(" ")[0] if code == "spelling" else _KEYS.get(code, "")
    return f"/who/{key}" if key in CALLER_KEYS else f"/{key}" if key else ""


def _findings(rules: Sequence[Rule], around: ProjectToolsAndAgents) -> Iterator[tuple[int, Finding]]:
    for place, rule in enumerate(rules):
        looks = [_spelling(rule)]
        if not around.project or glob_matches(rule.project, around.project):
            looks += [_tools(rule, around), _agents(rule, around), *_conditions(rule, around)]
        yield from ((place, finding) for look in looks for finding in look)
    yield from _names(rules)
    yield from _unreachable(rules)


def doubts_about_question(
    principal: CallPrincipal, tool: str, rules: Sequence[Rule], around: ProjectToolsAndAgents
) -> tuple[str, ...]:
    """Return what is probably wrong with a query about *tool*, or with *rules* for it.

    These are networks and agents that do not exist, a tool that the agent is not equipped with, and conditions that
    can't be met as they are meant.
    """
    problems, network = [], principal.network
    if network not in around.networks:
        problems.append(f"no published network is named {network!r}{suggest_name(network, list(around.networks))}")
    else:
        agents = [agent.key for agent in around.networks[network]]
        if principal.agent not in agents:
            problems.append(f"{network} has no agent {principal.agent!r}{suggest_name(principal.agent, agents)}")
        elif tool in around.tools and tool not in OUTPUT_TOOLS:
            problems += _not_equipped(principal, tool, around.networks[network])
    for rule in rules:
        if glob_matches(rule.project, around.project) and glob_matches(rule.tool, tool):
            findings = [*_agents(rule, around), *(one for look in _conditions(rule, around) for one in look)]
            problems += [f"rule {rule.name}: {detail}" for code, detail in findings if code not in HINTS]
    return tuple(problems[:MAX_WARNINGS])


def _not_equipped(principal: CallPrincipal, tool: str, agents: Sequence[NetworkAgent]) -> Iterator[str]:
    """Say that the agent can't call *tool* whatever a rule says, and which of *agents* can."""
    equipped = [agent.key for agent in agents if tool in agent.tools]
    if principal.agent in equipped:
        return
    others = f", or leave the call to {' or '.join(equipped[:MAX_NAMED])}, which has it" if equipped else ""
    yield (
        f"no rule alone opens it: {principal.agent} of {principal.network} is not equipped with {tool}; add it to "
        f"equipped_tools of {principal.agent} and publish the network{others}"
    )


def _spelling(rule: Rule) -> Iterator[Finding]:
    for part in PATTERN_FIELDS:
        pattern = getattr(rule, part)
        if has_unclosed_bracket(pattern):
            yield "spelling", f"{part} {pattern!r} has a '[' that never closes, so it matches no name"
        elif (plain := simplified(pattern)) != pattern:
            yield "spelling", f"{part} {pattern!r} is spelt {plain!r}"


def _tools(rule: Rule, around: ProjectToolsAndAgents) -> Iterator[Finding]:
    known = matching(rule.tool, around.tools)
    if not known and rule.tool.startswith(DELEGATE):
        return  # the delegates of a team are named after its members
    if not known:
        near = suggest_name(rule.tool, list(around.tools), otherwise="; start the worker that has it")
        yield "tool_unknown", f"no registered tool matches {rule.tool!r}{near}"
        return
    operations = sorted({around.tools[name].operation for name in known})
    if not matching(rule.operation, operations):
        had = ", ".join(operations)
        yield "operation_unknown", f"no tool that matches {rule.tool!r} has operation {rule.operation!r}, only {had}"


def _agents(rule: Rule, around: ProjectToolsAndAgents) -> Iterator[Finding]:
    if rule.network == rule.agent == rule.agent_type == "*":
        return
    networks = matching(rule.network, around.networks)
    if not networks:
        suggestion = suggest_name(rule.network, list(around.networks))
        yield "network_unknown", f"no published network matches {rule.network!r}{suggestion}"
        return
    agents = [agent for name in networks for agent in around.networks[name]]
    named = [agent for agent in agents if glob_matches(rule.agent, agent.key)]
    meant_ones = [agent for agent in named if glob_matches(rule.agent_type, agent.kind)]
    if not named:
        suggestion = suggest_name(rule.agent, [agent.key for agent in agents])
        yield "agent_unknown", f"no agent of {_listed(networks)} matches {rule.agent!r}{suggestion}"
    elif not meant_ones:
        suggestion = suggest_name(rule.agent_type, [agent.kind for agent in named if agent.kind])
        yield "agent_type_unknown", f"no agent that it names is of a type that matches {rule.agent_type!r}{suggestion}"
    elif (
        rule.effect != "deny"
        and (matching(rule.tool, around.tools) or not suggest_name(rule.tool, list(around.tools)))  # else: misspelt
        and not any(matching(rule.tool, agent.tools) for agent in meant_ones)
    ):
        yield "not_equipped", f"no agent that it names is equipped with a tool that matches {rule.tool!r}"


def _conditions(rule: Rule, around: ProjectToolsAndAgents) -> tuple[Iterator[Finding], ...]:
    return (_arguments(rule, around), _never_true(rule, around), _unlike_types(rule, around))


def _arguments(rule: Rule, around: ProjectToolsAndAgents) -> Iterator[Finding]:
    """An argument that no tool has is missing in every call: the condition is then always unclear."""
    tools = [around.tools[name] for name in matching(rule.tool, around.tools)]
    if rule.when is None or not tools or any(_is_open(tool) for tool in tools):
        return
    taken = sorted({name for tool in tools for name in tool.parameters.get("properties", {})})
    for name in dict.fromkeys(first or second for first, second in _ARGUMENT.findall(rule.when)):
        if name not in taken:
            yield (
                "argument_unknown",
                f"no tool that matches {rule.tool!r} takes an argument {name!r}{suggest_or_list(name, taken)}",
            )


def _never_true(rule: Rule, around: ProjectToolsAndAgents) -> Iterator[Finding]:
    """A part that is no boolean is never true: an allowing rule then never applies, any other rule always."""
    tools = [around.tools[name] for name in matching(rule.tool, around.tools)]
    if rule.when is None:
        return
    for part, kind in never_true(rule.when, [tool.parameters for tool in tools]):
        then = "never applies" if rule.effect == "allow" else "applies whatever the arguments are"
        yield "never_true", f"{part} is {kind}, never the boolean true, so the rule {then}; compare it with something"


def _unlike_types(rule: Rule, around: ProjectToolsAndAgents) -> Iterator[Finding]:
    """A text that stands beside a number compares as nothing: `== '5'` is never true, and `> '5'` is unclear."""
    tools = [around.tools[name] for name in matching(rule.tool, around.tools)]
    for one in unlike_comparisons(rule.when, [tool.parameters for tool in tools]) if rule.when is not None else ():
        result = rule.effect != "allow" if one.result is None else one.result
        if one.is_whole:
            then = "the rule applies whatever the arguments are" if result else "the rule never applies"
        else:
            then = "that part is " + {None: "unclear", True: "always true", False: "never true"}[one.result]
        cure = f"write {one.meant}" if one.meant else "compare it with what it is"
        yield "types_unlike", f"{one.written} compares {one.sides}, so {then}; {cure}"


def _is_open(tool: ToolSpec) -> bool:
    schema = tool.parameters
    closed = schema.get("additionalProperties") is False and isinstance(schema.get("properties"), dict)
    return not closed or any(word in schema for word in ("patternProperties", "allOf", "anyOf", "oneOf", "$ref"))


def _names(rules: Sequence[Rule]) -> Iterator[tuple[int, Finding]]:
    """Names that differ in spelling only."""
    seen: dict[tuple[str, str], str] = {}
    for place, rule in enumerate(rules):
        for part in ("name", *PATTERN_FIELDS):
            word = getattr(rule, part)
            if is_pattern(word):
                continue
            first = seen.setdefault((part, re.sub(r"[-_]", "", word).casefold()), word)
            if first != word:
                detail = f"{part} {word!r} and, above, {first!r} differ in their spelling only"
                yield place, ("spelling", detail)


def _unreachable(rules: Sequence[Rule]) -> Iterator[tuple[int, Finding]]:
    wild = [rule for rule in rules if is_pattern(rule.tool)]
    exact: dict[str, list[Rule]] = {}
    for rule in rules:
        if not is_pattern(rule.tool):
            exact.setdefault(rule.tool, []).append(rule)
    places = {id(rule): place for place, rule in enumerate(rules)}
    left = MAX_PAIRS
    for place, rule in enumerate(rules):
        others = [*exact.get(rule.tool, ()), *wild]
        left -= len(others)
        if left < 0:
            yield place, ("unchecked", "from here on no rule was looked at for being unreachable: there are too many")
            return
        for other in others:
            finding = _superseded_finding(rule, other, above=places[id(other)] < place) if other is not rule else None
            if finding is not None:
                yield place, finding
                break


def _superseded_finding(rule: Rule, other: Rule, *, above: bool) -> Finding | None:
    """Return why *rule* never decides because of *other*; of two equal rules the lower one is reported."""
    if other.when not in {None, rule.when} or not all(
        covers(getattr(other, p), getattr(rule, p)) for p in PATTERN_FIELDS
    ):
        return None
    same = rule.when == other.when and all(getattr(rule, part) == getattr(other, part) for part in PATTERN_FIELDS)
    if rule.effect == other.effect:
        if same and above and all(getattr(rule, name) == getattr(other, name) for name in _LIMITS):
            return "duplicate_rule", f"it says the same as {other.name!r}"
        wider = rule.effect == "deny" and not same
        return ("unreachable", f"it adds nothing to {other.name!r}, which denies more") if wider else None
    if other.effect == "deny":
        reason = f"{other.name!r} denies"
    elif rule.effect == "allow" and other.effect == "require_approval" and not _matters_beside(rule, other):
        reason = f"{other.name!r} asks a person"
    else:
        return None
    if same:
        return "contradiction", f"{reason} the same calls, so it never decides"
    return "unreachable", f"it never decides: {reason} wherever it applies"


def _matters_beside(rule: Rule, other: Rule) -> bool:
    """Return whether an allowing rule matters beside one that asks: by its limits, or for a discovered tool."""
    limited = any(
        getattr(rule, name) is not None for name in ("max_calls_per_run", "rate_calls", "max_cost_per_run_usd")
    )
    names = rule.discovered or (not is_pattern(rule.tool) and is_pattern(other.tool))
    return limited or names


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
