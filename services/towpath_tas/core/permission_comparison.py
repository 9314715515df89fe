"""What an agent may do with a tool, and where another matrix says something else of it.

A cell is what rules say of all calls of one tool by one agent, whatever their arguments: nothing is decided by it.
"""

from collections.abc import Iterable, Iterator

from towpath_contracts.tools.access import ToolPermission
from towpath_contracts.tools.calls import ToolSpec
from towpath_contracts.tools.policy import PermissionChange
from towpath_tas.core.policy.matrix import CallPrincipal, Matrix, Rule


def permission_of(tool: str, operation: str, rules: tuple[Rule, ...], doubt: str) -> ToolPermission:
    """Return the strictest effect that holds without conditions, else the one that conditions may give."""
    certain = {rule.effect for rule in rules if rule.when is None}
    possible = {rule.effect for rule in rules}
    verdict = "deny"
    if "deny" not in certain:
        verdict = "require_approval" if "require_approval" in certain else "allow" if "allow" in possible else verdict
        if verdict == "deny" and "require_approval" in possible:
            verdict = "require_approval"
    conditional = any(rule.when is not None for rule in rules) and "deny" not in certain
    names = tuple(rule.name for rule in rules)
    if verdict == "deny":
        doubt = ""  # nobody can use it
    return ToolPermission(
        tool=tool, operation=operation, verdict=verdict, conditional=conditional, rules=names, doubt=doubt
    )


def permission_changes(
    principal: CallPrincipal, tools: Iterable[ToolSpec], then: Matrix, now: Matrix
) -> Iterator[PermissionChange]:
    """Yield the cells of *principal* that *now* says something else of than *then*, or says by other rules."""
    for spec in tools:
        found = [_rules_of(matrix, principal, spec) for matrix in (then, now)]
        if {rule.digest for rule in found[0]} == {rule.digest for rule in found[1]}:
            continue
        before, after = (permission_of(spec.name, spec.operation, rules, "") for rules in found)
        yield PermissionChange(
            network=principal.network,
            agent_key=principal.agent,
            tool=spec.name,
            was=_verdicts(before, found[0]),
            becomes=_verdicts(after, found[1]),
            rules_then=before.rules[:MAX_RULES],
            rules_now=after.rules[:MAX_RULES],
            more_then=len(before.rules[MAX_RULES:]),
            more_now=len(after.rules[MAX_RULES:]),
        )


ORDER = ("allow", "require_approval", "deny")

MAX_RULES = 10
"""Rules named on either side of a cell, the others are counted: they are looked at in the matrix itself."""


def _verdicts(permission: ToolPermission, rules: Iterable[Rule]) -> tuple[str, ...]:
    """Return every verdict that a call may get."""
    possible = {rule.effect for rule in rules} if permission.conditional else set()
    return tuple(word for word in ORDER if word == permission.verdict or word in possible)


def _rules_of(matrix: Matrix, principal: CallPrincipal, spec: ToolSpec) -> tuple[Rule, ...]:
    return matrix.candidates(principal, spec.name, spec.operation, discovered=spec.discovered)
