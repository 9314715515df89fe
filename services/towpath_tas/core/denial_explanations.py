"""What people are told of a denial: which rule, where it stands, and what would allow the call.

The cure never gives more than what was refused without saying so: a rule that is added beside one of the tool for
others asks a person until it has the condition and the limits of that one. It is kept apart from what the model is told
(`denials`): a model that is shown the rules of others, or how a policy would have to be changed, learns what to ask
for. It is made of what the denial was found with, without another query; only the conditions of rules that miss the
call are evaluated, on the budget of advice.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any

import yaml

from towpath_contracts.files.policy_document import DEFAULT_EXPIRES_S, RuleEffect
from towpath_contracts.problems.near_names import nearest_name
from towpath_contracts.tools.calls import AlternativeTool, Denial
from towpath_contracts.tools.violations import DenialCode, DenialExplanation
from towpath_tas.core.authorization_query import AuthorizationQuery
from towpath_tas.core.policy.conditions import ConditionResult
from towpath_tas.core.policy.matrix import LimitKind, Matrix, MatrixVerdict, MissedPattern, Rule
from towpath_tas.core.tools.registry import ToolVersion

MAX_NAMED = 5
"""Tools named of those that the agent may call; the denial has more."""

_WHO = frozenset({"project", "network", "agent", "agent_type", "caller"})
"""Patterns of a rule that `towpath new policy --who` writes."""

_IN_FILE = re.compile(r"(?!profile )(.+\.ya?ml):\d+", re.IGNORECASE)
"""Where a rule stands that has the line of a policy file."""

_ONE_LINE = 10_000
"""Columns of YAML that is not to be broken: of names and a condition of MAX_WHEN_CHARS."""

MAX_WHEN_CHARS = 200
"""Of the condition of a rule: `policy rule show` has all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NearRule:
    """A rule that does not allow the call: `why` not, and which of its patterns the call misses."""

    rule: Rule
    why: str
    missed: tuple[MissedPattern, ...] = ()

    @property
    def is_misspelt(self) -> bool:
        """Return whether each value that it misses is much like what it names."""
        return bool(self.missed) and all(_is_near(one) for one in self.missed)


def without_others(denial: Denial) -> Denial:
    """Return *denial* as whoever may read the run is told it: the rule that refused and its place.

    Conditions, and what rules there are for others, are for who may read the policy or the audit.
    """
    told = denial.explanation
    if told is None:
        return denial
    place = f" ({told.rule_at})" if told.rule_at else ""
    kept = DenialExplanation(detail=f"{denial.reason}{place}", rule_at=told.rule_at) if place else None
    return denial.model_copy(update={"explanation": kept})


def explain_denial(
    denial: Denial,
    query: AuthorizationQuery,
    tool: ToolVersion | None,
    matrix: Matrix,
    verdict: MatrixVerdict | None,
    others: Sequence[AlternativeTool],
    context: Mapping[str, Any],
) -> DenialExplanation | None:
    """Return what people are told of *denial*; None where its reason says all that there is to say.

    Conditions are evaluated on *context*, which is one of advice.
    """
    if tool is None:
        return None
    if denial.violation_type == DenialCode.DRIFTED:
        return _drifted(tool)
    if verdict is None:
        return None
    refused = f"{query.principal.agent or 'this agent'} may not call {query.tool}"
    if verdict.rule is not None:
        return _by_rule(refused, denial, query, verdict.rule, limit=verdict.limit)
    near = _nearest(query, tool, matrix, verdict, others, context)
    return _by_no_rule(refused, query, verdict, others, near)


def _by_rule(
    refused: str, denial: Denial, query: AuthorizationQuery, rule: Rule, *, limit: LimitKind | None
) -> DenialExplanation:
    named = f"rule {_placed(rule)}"
    if limit is not None:
        remedy = _raised_limit(rule, limit)
        return DenialExplanation(detail=f"{refused} now: {named}: {denial.reason}.", remedy=remedy, rule_at=rule.at)
    where = f" denies it where {_shortened(rule.when)}" if rule.when else " denies it, whatever the arguments are"
    return DenialExplanation(
        detail=f"{refused}: {named}{where}.", remedy=f"Try what would pass: {_check(query)}", rule_at=rule.at
    )


def _raised_limit(rule: Rule, limit: LimitKind) -> str:
    """Return how a call passes the *limit* that is used up: what is counted for a run begins anew in another one."""
    if limit == "rate":
        return f"Ask again in {rule.rate_per_s} s, or raise the rate of {rule.name}, which is {rule.rate_calls} calls."
    if limit == "cost":
        most = f"raise max_cost_per_run_usd of {rule.name}, which is {rule.max_cost_per_run_usd:g}"
        return f"Start another run, or {most}; where its model has no price, give it one: TOWPATH_MODEL_PRICES_FILE."
    return f"Start another run, or raise max_calls_per_run of {rule.name}, which is {rule.max_calls_per_run}."


def _by_no_rule(
    refused: str,
    query: AuthorizationQuery,
    verdict: MatrixVerdict,
    others: Sequence[AlternativeTool],
    near: NearRule | None,
) -> DenialExplanation:
    opened = [one.tool for one in others[:MAX_NAMED]]
    may = f"It may call {', '.join(opened)}." if opened else "Nothing is open to it."
    nearest = "" if near is None else f" Nearest rule: {_placed(near.rule)}: {near.why}."
    return DenialExplanation(
        detail=f"{refused}: no rule allows it. {may}{nearest}",
        remedy=_remedy(query, verdict, near),
        nearest="" if near is None else near.rule.name,
        nearest_at="" if near is None else near.rule.at,
    )


def _remedy(query: AuthorizationQuery, verdict: MatrixVerdict, near: NearRule | None) -> str:
    """Return what to correct in the nearest rule, or how one is added: beside a rule for others with its condition."""
    if near is not None and (near.is_misspelt or (near.missed and near.rule.tool != "*")):
        wrong = " and ".join(f"its {one.field} is {one.pattern!r}, the call's {one.value!r}" for one in near.missed)
        if near.is_misspelt:
            return f"Probably misspelt: correct rule {_placed(near.rule)}: {wrong}."
        if all(one.field in _WHO for one in near.missed):
            return _rule_beside(query, near)
        return f"If rule {_placed(near.rule)} is to cover this call, change it there: {wrong}."
    if verdict.unmet:
        return f"Try what would pass: {_check(query)}"
    to_allow = f"To allow every call of {query.tool} to {query.principal.agent}, whatever its arguments are"
    who = {"agent": query.principal.agent}
    if near is not None and (file := _file_of(near.rule)):
        return f"{to_allow}, add to {file}, below rules: {_written_rule(query, 'allow', who, {})}"
    return f"{to_allow}: {_new_rule(query, 'allow', who)}"


def _rule_beside(query: AuthorizationQuery, near: NearRule) -> str:
    """Return how a rule of its own is added for what the rule that comes near is for, with its condition and limits.

    Where the policy stands in a file, the rule is written out for it. One that the command makes is in force as soon as
    it is written: until it has what is to be added, a person is asked.
    """
    rule = near.rule
    kept = {field: getattr(rule, field) for field in _WHO if getattr(rule, field) != "*"}
    missed = {one.field: one.value for one in near.missed}
    who = {"agent": query.principal.agent} | {field: kept[field] for field in sorted(kept.keys() - {"agent"})} | missed
    limits = _limits_of(rule)
    is_plain = rule.when is None and not limits
    add = f"Add a rule for such calls{', whatever their arguments are' if is_plain else ''}"
    if (file := _file_of(rule)) and len(rule.when or "") <= MAX_WHEN_CHARS:
        further = ({} if rule.when is None else {"when": rule.when}) | limits
        return f"{add}, in {file} below rules: {_written_rule(query, rule.effect, who, further)}"
    if is_plain:
        return f"{add}: {_new_rule(query, rule.effect, who)}"
    change = f"change effect to {rule.effect}, and " if rule.effect != "require_approval" else ""
    lines = [f"{key}: {_in_yaml(value)}" for key, value in limits.items()]
    if rule.when is not None:
        is_short = len(rule.when) <= MAX_WHEN_CHARS
        lines.insert(0, f"when: {rule.when}" if is_short else f"the condition (when) of {_placed(rule)}, whole")
    return f"{add}: {_new_rule(query, 'require_approval', who)}; then, in that rule, {change}add {' and '.join(lines)}"


def _limits_of(rule: Rule) -> dict[str, Any]:
    """Return what limits the calls that *rule* lets pass, and how they are approved, as a policy has it."""
    written = {
        "max_calls_per_run": rule.max_calls_per_run,
        "rate": None if rule.rate_calls is None else {"calls": rule.rate_calls, "per_s": rule.rate_per_s},
        "max_cost_per_run_usd": rule.max_cost_per_run_usd,
        "quorum": None if rule.quorum == 1 else rule.quorum,
        "expires_s": None if rule.expires_s == DEFAULT_EXPIRES_S else rule.expires_s,
        "on_expiry": None if rule.on_expiry == "deny" else rule.on_expiry,
    }
    return {key: value for key, value in written.items() if value is not None}


def _file_of(rule: Rule) -> str:
    """Return the file of the user's that *rule* stands in; empty where that is a program, a profile, or not known."""
    found = _IN_FILE.fullmatch(rule.at)
    return found[1] if found is not None else ""


def _written_rule(
    query: AuthorizationQuery, effect: RuleEffect, who: Mapping[str, str], more: Mapping[str, Any]
) -> str:
    """Return a rule for the call as an entry of `rules`, in one line."""
    rule = {"name": _rule_name(query), "who": dict(who), "tool": query.tool, "effect": effect, **more}
    return f"- {_in_yaml(rule)}"


def _in_yaml(value: Any) -> str:
    written: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=_ONE_LINE)
    return written.removesuffix("\n...\n").strip()


def _new_rule(query: AuthorizationQuery, effect: RuleEffect, who: Mapping[str, str]) -> str:
    named = " ".join(f"--who {quote(f'{field}={value}')}" for field, value in who.items())
    return f"towpath new policy {_rule_name(query)} --tool {quote(query.tool)} --effect {effect} {named}"


def _rule_name(query: AuthorizationQuery) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", f"{query.principal.agent}-{query.tool}").strip("-")[:64]


def _nearest(
    query: AuthorizationQuery,
    tool: ToolVersion,
    matrix: Matrix,
    verdict: MatrixVerdict,
    others: Sequence[AlternativeTool],
    context: Mapping[str, Any],
) -> NearRule | None:
    """Return the rule that comes nearest to allowing the call, as `DenialExplanation` says, and what is missing.

    A rule whose condition fits the arguments, and that only misspells who calls, was meant for this very call.
    """
    unmet = [NearRule(rule=rule, why=f"it opens it where {_shortened(rule.when or 'true')}") for rule in verdict.unmet]
    missing = [
        NearRule(rule=rule, why="; ".join(map(str, missed)) or _NOT_NAMED, missed=missed)
        for rule, missed in matrix.missing(query.principal, query.tool, tool.spec.operation)
        if rule.effect != "deny" and rule not in verdict.unmet
    ]
    fitting = {one.rule.name for one in missing if _fits(one.rule, matrix, context)}
    missing.sort(key=lambda one: (one.rule.tool == "*", not one.missed, one.rule.name not in fitting, len(one.missed)))
    meant = [one for one in missing if one.is_misspelt and one.rule.name in fitting]
    if ranked := [*meant, *unmet, *missing]:
        return ranked[0]
    for other in others[:1]:
        for rule in matrix.candidates(query.principal, other.tool, "call"):
            if rule.effect != "deny":
                return NearRule(rule=rule, why=f"it is for {rule.tool}")
    return None


_NOT_NAMED = "the tool was discovered, and the rule does not name it"


def _fits(rule: Rule, matrix: Matrix, context: Mapping[str, Any]) -> bool:
    return rule.when is None or matrix.met(rule.when, context) is ConditionResult.YES


def _is_near(missed: MissedPattern) -> bool:
    return nearest_name(missed.value, [missed.pattern]) is not None


def _drifted(tool: ToolVersion) -> DenialExplanation:
    name, version = tool.spec.name, tool.held_by
    return DenialExplanation(
        detail=f"{name} changed since it was accepted (digest {tool.digest}). Calls are held.",
        remedy=f"Review: towpath tools diff {name} --version {version}, then towpath tools accept or refuse.",
    )


def _placed(rule: Rule) -> str:
    return f"{rule.name} ({rule.at})" if rule.at else rule.name


def _shortened(when: str) -> str:
    return when if len(when) <= MAX_WHEN_CHARS else f"{when[:MAX_WHEN_CHARS]}…"


def _check(query: AuthorizationQuery) -> str:
    """Return the command that weighs such a call; its arguments are those of a person who may have been given them."""
    return (
        f"towpath policy check --network {quote(query.principal.network)} --agent {quote(query.principal.agent)} "
        f"--tool {quote(query.tool)} --args '{{…}}'"
    )
