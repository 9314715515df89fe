"""What another matrix would have said to recorded calls (design §7, policy diff; the shadow).

Law: only what the matrix decided is weighed again; a call that was refused before the matrix was asked stays refused
whatever its rules. Limits are not replayed: a call that a limit stopped is left out and counted, and the limits of the
other matrix are looked through, because what was used up of them depends on calls that it would have let through.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

from towpath_contracts.policies import MAX_EXAMPLES, Change, DiffExample, DiffGroup, Verdict
from towpath_tas.core.authorization import asked_again
from towpath_tas.core.call import Call
from towpath_tas.core.conditions import Compiler
from towpath_tas.core.denial import Violation
from towpath_tas.core.matrix import Effect, Matrix, Rule

CHANGES: dict[Effect, Change] = {
    "deny": "newly_denied",
    "allow": "newly_allowed",
    "require_approval": "newly_gated",
}
"""What a difference is called, by what would be said now."""

FORGOTTEN = "forgotten"
"""The ledger no longer has the call: its arguments are gone."""

EDITED = "edited"
"""A person changed the arguments, so what was decided first was about others."""

_Key = tuple[str, str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A recorded first decision about *call*; `args_digest` is that of the arguments it was about."""

    call: Call | None
    at: datetime
    verdict: str
    rule: str | None
    policy_version: int
    args_digest: str


def unlimited(rules: Iterable[Rule], compiler: Compiler, version: int = 0) -> Matrix:
    """Return the matrix of *rules* without their limits."""
    without = [
        replace(rule, max_calls_per_run=None, rate_calls=None, rate_per_s=None, max_cost_per_run_usd=None)
        for rule in rules
    ]
    return Matrix(without, compiler, version)


class Weighing:
    """Weighs recorded decisions by one matrix and counts what differs. Its memory grows with groups, not calls."""

    def __init__(self, matrix: Matrix, discovered: Collection[str] = (), examples: int = MAX_EXAMPLES) -> None:
        """Take the *matrix*, and the names of the tools that a server offered by itself."""
        self._matrix = matrix
        self._discovered = frozenset(discovered)
        self._examples = examples
        self._groups: dict[_Key, list[DiffExample]] = {}
        self._counts: Counter[_Key] = Counter()
        self.left_out: Counter[str] = Counter()
        self.calls = 0

    def add(self, recorded: Recorded) -> None:
        """Weigh one decision again."""
        why = _not_weighed(recorded)
        call = recorded.call
        if why is not None or call is None:
            self.left_out[why or FORGOTTEN] += 1
            return
        self.calls += 1
        asked = asked_again(call)
        found = asked.tool in self._discovered
        verdict = self._matrix.decide(asked.who, asked.tool, call.operation, asked.context(), discovered=found)
        if verdict.effect == recorded.verdict:
            return
        key = (CHANGES[verdict.effect], recorded.verdict, call.network, call.agent_key, call.tool)
        self._counts[key] += 1
        examples = self._groups.setdefault(key, [])
        if len(examples) < self._examples:
            examples.append(_example(call, recorded, verdict.rule.name if verdict.rule else None))

    def groups(self) -> tuple[DiffGroup, ...]:
        """Return what differs, in no particular order."""
        return tuple(
            DiffGroup(
                change=cast("Change", change),
                was=cast("Verdict", was),
                network=network,
                agent_key=agent,
                tool=tool,
                calls=self._counts[change, was, network, agent, tool],
                examples=tuple(examples),
            )
            for (change, was, network, agent, tool), examples in self._groups.items()
        )


def _not_weighed(recorded: Recorded) -> str | None:
    """Return why another matrix could not have changed *recorded*; None where it could."""
    call = recorded.call
    if call is None:
        return FORGOTTEN
    if recorded.args_digest != call.args_digest:
        return EDITED
    if recorded.verdict != "deny":
        return None
    violation = _violation(call)
    return None if violation == Violation.PERMISSION else violation


def _violation(call: Call) -> str:
    """Why the first decision was a denial. Whoever asked a person first was denied by the matrix later, if at all."""
    if call.approvals or not call.fact:
        return Violation.PERMISSION
    denial = json.loads(call.fact).get("denial") or {}
    return str(denial.get("violation_type") or Violation.PERMISSION)


def _example(call: Call, recorded: Recorded, rule_now: str | None) -> DiffExample:
    return DiffExample(
        run_id=call.run_id,
        execution_id=call.execution_id,
        at=recorded.at,
        version_then=recorded.policy_version,
        rule_then=recorded.rule,
        rule_now=rule_now,
    )
