"""What another matrix decides: about recorded calls (`policy diff`), and beside live decisions (the shadow policy).

Only decisions of the matrix are compared: a call that was refused before the matrix was asked stays refused whatever
its rules. Limits are not replayed: a call that a limit stopped is left out and counted, and the limits of the other
matrix are ignored, because what is used up of them depends on calls that it would have allowed. A shadow policy is
never obeyed: it adds an audit entry to the first decision of a call where it differs, and changes nothing else.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

from towpath_contracts.files.policy_document import RuleEffect
from towpath_contracts.tools.calls import ToolSpec
from towpath_contracts.tools.policy import MAX_EXAMPLES, MAX_EXAMPLES_AT_ONCE, Change, DiffExample, DiffGroup
from towpath_contracts.tools.policy import Verdict as Word
from towpath_contracts.tools.violations import DenialCode
from towpath_tas.core.authorization import ProjectAuthorizer
from towpath_tas.core.authorization_query import AuthorizationQuery, query_of_call
from towpath_tas.core.call import CallAuditEntry, LedgerCall, LedgerChange
from towpath_tas.core.policy.conditions import MAX_ASIDE_WORK, ConditionBudget, ConditionCompiler
from towpath_tas.core.policy.matrix import Matrix, MatrixVerdict, Rule
from towpath_tas.core.provenance.provenance_messages import (
    answers,
    needs_knowledge,
    origin_members,
    origin_without_reading,
)

CHANGES: dict[RuleEffect, Change] = {
    "deny": "newly_denied",
    "allow": "newly_allowed",
    "require_approval": "newly_gated",
}
"""The kind of a difference, by the new verdict."""

FORGOTTEN = "forgotten"
"""The ledger no longer has the call, or its run was erased: its arguments are gone."""

EDITED = "edited"
"""A person edited the arguments, so the first decision was about others."""

ORIGIN_UNREAD = "origin_unread"
"""The matrix needs the origin of values, which was not looked up when the call was decided."""

_Key = tuple[str, str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAuthorization:
    """A recorded first decision about *call*; None if the ledger no longer has it."""

    call: LedgerCall | None
    at: datetime
    verdict: str
    rule: str | None
    policy_version: int


def without_limits(rules: Iterable[Rule], compiler: ConditionCompiler, version: int = 0) -> Matrix:
    """Return the matrix of *rules* without their limits."""
    without = [
        replace(rule, max_calls_per_run=None, rate_calls=None, rate_per_s=None, max_cost_per_run_usd=None)
        for rule in rules
    ]
    return Matrix(without, compiler, version)


class PolicyDiffBuilder:
    """Evaluates recorded decisions with one matrix and counts differences. Its memory grows with groups, not calls."""

    def __init__(self, matrix: Matrix, specs: Mapping[str, ToolSpec], examples: int = MAX_EXAMPLES) -> None:
        """*specs* are the registered tools."""
        self._matrix = matrix
        self._specs = specs
        self._examples = examples
        self._groups: dict[_Key, list[DiffExample]] = {}
        self._counts: Counter[_Key] = Counter()
        self._example_count = 0
        self.left_out: Counter[str] = Counter()
        self.calls = 0

    def add(self, recorded: RecordedAuthorization) -> None:
        """Evaluate one decision again."""
        why = _not_comparable(recorded)
        call = recorded.call
        if why is not None or call is None:
            self.left_out[why or FORGOTTEN] += 1
            return
        query = with_known_origin(self._matrix, query_of_call(call), call.operation, self._specs.get(call.tool))
        if query is None:
            self.left_out[ORIGIN_UNREAD] += 1
            return
        self.calls += 1
        verdict = decide_again(self._matrix, query, call.operation, self._specs.get(call.tool))
        if verdict.effect == recorded.verdict:
            return
        key = (CHANGES[verdict.effect], recorded.verdict, call.network, call.agent_key, call.tool)
        self._counts[key] += 1
        examples = self._groups.setdefault(key, [])
        if len(examples) < self._examples and self._example_count < MAX_EXAMPLES_AT_ONCE:
            self._example_count += 1
            examples.append(_example(call, recorded, verdict.rule.name if verdict.rule else None))

    def groups(self) -> tuple[DiffGroup, ...]:
        """Return what differs, in no particular order."""
        return tuple(
            DiffGroup(
                change=cast("Change", change),
                was=cast("Word", was),
                network=network,
                agent_key=agent,
                tool=tool,
                calls=self._counts[change, was, network, agent, tool],
                examples=tuple(examples),
            )
            for (change, was, network, agent, tool), examples in self._groups.items()
        )


def decide_again(
    matrix: Matrix,
    query: AuthorizationQuery,
    operation: str,
    spec: ToolSpec | None,
    budget: ConditionBudget | None = None,
) -> MatrixVerdict:
    if spec is not None and matrix.frees(query.principal, spec):
        return MatrixVerdict(effect="allow", rule=None)
    found = spec is not None and spec.discovered
    return matrix.decide(query.principal, query.tool, operation, query.condition_context(budget), discovered=found)


def with_known_origin(
    matrix: Matrix, query: AuthorizationQuery, operation: str, spec: ToolSpec | None
) -> AuthorizationQuery | None:
    """Return *query* with the recorded origin of its values; None if *matrix* would have to know more.

    The origin is only looked up for calls where a rule or a person needs it, so most records don't have it.
    """
    if not matrix.names_origin:
        return query
    near = matrix.candidates(query.principal, query.tool, operation)
    naming = [rule.when for rule in near if rule.when is not None and origin_members(rule.when)]
    if not naming or (query.origin is not None and answers(query.origin, naming)):
        return query
    if spec is None or needs_knowledge(naming, spec):
        return None
    return replace(query, origin=origin_without_reading(spec))


def _not_comparable(recorded: RecordedAuthorization) -> str | None:
    """Return why another matrix could not have changed *recorded*; None if it could."""
    call = recorded.call
    if call is None:
        return FORGOTTEN
    if call.edited_by:
        return EDITED
    if recorded.verdict != "deny":
        return None
    violation = _violation(call)
    return None if violation == DenialCode.PERMISSION else violation


def _violation(call: LedgerCall) -> str:
    """Return why a call was denied at once: the ledger has the fact that was sent to the run."""
    denial = json.loads(call.fact or "{}").get("denial") or {}
    return str(denial.get("violation_type") or DenialCode.PERMISSION)


def _example(call: LedgerCall, recorded: RecordedAuthorization, rule_now: str | None) -> DiffExample:
    return DiffExample(
        run_id=call.run_id,
        execution_id=call.execution_id,
        at=recorded.at,
        version_then=recorded.policy_version,
        rule_then=recorded.rule,
        rule_now=rule_now,
    )


SHADOW_PHASE = "shadow"
"""The phase of the audit entry about a divergence; its verdict is `decided->of the shadow`: `allow->deny`."""


def with_shadow_note(
    change: LedgerChange, query: AuthorizationQuery, bundle: ProjectAuthorizer, budget: ConditionBudget
) -> LedgerChange:
    """Return *change*, the first decision about *query*, with an audit note where the shadow policy differs.

    What would take more than the share of *budget* that the shadow policy has is not compared.
    """
    decided = next((note for note in change.notes if note.phase == "decision"), None)
    tool = bundle.registry.tools.get(query.tool)
    if bundle.shadow is None or decided is None or tool is None or not _by_matrix(decided):
        return change
    with_origin = replace(query, origin=json.loads(decided.call.context).get("origin"))
    known = with_known_origin(bundle.shadow, with_origin, tool.spec.operation, tool.spec)
    if known is None:
        return change  # decided without the origin of its values
    share = budget.share("shadow", MAX_ASIDE_WORK)
    verdict = decide_again(bundle.shadow, known, tool.spec.operation, tool.spec, share)
    if share.spent or verdict.effect == decided.verdict:
        return change
    note = CallAuditEntry(
        phase=SHADOW_PHASE,
        verdict=f"{decided.verdict}->{verdict.effect}",
        call=decided.call,
        detail={"rule": verdict.rule.name if verdict.rule else None},
    )
    return replace(change, notes=(*change.notes, note))


def _by_matrix(decided: CallAuditEntry) -> bool:
    return decided.verdict != "deny" or (decided.detail or {}).get("violation_type") == DenialCode.PERMISSION
