"""What people are told of a denial: which rule, where it stands, and what would allow the call.

It is kept apart from what the model is told (`denials`): a model that is shown the rules of others, or how a policy
would have to be changed, learns what to ask for. It is made of what the denial was found with, without another query.
"""

import re
from collections.abc import Sequence

from towpath_contracts.tools.calls import AlternativeTool, Denial
from towpath_contracts.tools.violations import DenialCode, DenialExplanation
from towpath_tas.core.authorization_query import AuthorizationQuery
from towpath_tas.core.policy.matrix import Matrix, MatrixVerdict, Rule
from towpath_tas.core.tools.registry import ToolVersion

MAX_NAMED = 5
"""Tools named of those that the agent may call; the denial has more."""

MAX_WHEN_CHARS = 200
"""Of the condition of a rule: `policy rule show` has all of it."""


def explain_denial(
    denial: Denial,
    query: AuthorizationQuery,
    tool: ToolVersion | None,
    matrix: Matrix,
    verdict: MatrixVerdict | None,
    others: Sequence[AlternativeTool],
) -> DenialExplanation | None:
    """Return what people are told of *denial*; None where its reason says all that there is to say."""
    if tool is None:
        return None
    if denial.violation_type == DenialCode.DRIFTED:
        return _drifted(tool)
    if verdict is None:
        return None
    refused = f"{query.principal.agent or 'this agent'} may not call {query.tool}"
    if verdict.rule is not None:
        return _by_rule(refused, denial, query, verdict.rule, is_limit=verdict.limited is not None)
    return _by_no_rule(refused, query, tool, matrix, verdict, others)


def _by_rule(
    refused: str, denial: Denial, query: AuthorizationQuery, rule: Rule, *, is_limit: bool
) -> DenialExplanation:
    named = f"rule {_placed(rule)}"
    if is_limit:
        remedy = f"Ask again later or in another run, or raise the limit of {rule.name}."
        return DenialExplanation(detail=f"{refused} now: {named}: {denial.reason}.", remedy=remedy, rule_at=rule.at)
    where = f" denies it where {_shortened(rule.when)}" if rule.when else " denies it, whatever the arguments are"
    return DenialExplanation(
        detail=f"{refused}: {named}{where}.", remedy=f"Try what would pass: {_check(query)}", rule_at=rule.at
    )


def _by_no_rule(
    refused: str,
    query: AuthorizationQuery,
    tool: ToolVersion,
    matrix: Matrix,
    verdict: MatrixVerdict,
    others: Sequence[AlternativeTool],
) -> DenialExplanation:
    opened = [one.tool for one in others[:MAX_NAMED]]
    may = f"It may call {', '.join(opened)}." if opened else "Nothing is open to it."
    near, why = _nearest(query, tool, matrix, verdict, opened)
    nearest = "" if near is None else f" Nearest rule: {_placed(near)}: {why}."
    name = re.sub(r"[^A-Za-z0-9_-]", "-", f"{query.principal.agent}-{query.tool}").strip("-")[:64]
    remedy = (
        f"To allow it: towpath new policy {name} --tool {query.tool} --effect allow --who agent={query.principal.agent}"
    )
    return DenialExplanation(
        detail=f"{refused}: no rule allows it. {may}{nearest}",
        remedy=f"Try what would pass: {_check(query)}" if verdict.unmet else remedy,
        nearest="" if near is None else near.name,
        nearest_at="" if near is None else near.at,
    )


def _nearest(
    query: AuthorizationQuery, tool: ToolVersion, matrix: Matrix, verdict: MatrixVerdict, opened: Sequence[str]
) -> tuple[Rule | None, str]:
    """Return the rule that comes nearest to allowing the call, as `DenialExplanation` says, and what is missing."""
    if verdict.unmet:
        rule = verdict.unmet[0]
        return rule, f"it opens it where {_shortened(rule.when or 'true')}"
    for rule, misses in matrix.missing(query.principal, query.tool, tool.spec.operation):
        if rule.effect != "deny":
            return rule, misses or "the tool was discovered, and the rule does not name it"
    for name in opened[:1]:
        for rule in matrix.candidates(query.principal, name, "call"):
            if rule.effect != "deny":
                return rule, f"it is for {rule.tool}"
    return None, ""


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
        f"towpath policy check --network {query.principal.network} --agent {query.principal.agent} "
        f"--tool {query.tool} --args '{{…}}'"
    )
