"""May this call run? Checks the registry, the arguments, the task's grant and the matrix, in this order.

All of them must agree, and every answer that is not a clear yes is a no. The decision depends on the arguments given
here alone, so the same query under the same versions gets the same decision.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from towpath_contracts.files.policy_document import OnExpiry, RuleEffect
from towpath_contracts.schema_bounds.work import TooMuchWorkError
from towpath_contracts.tools.calls import AlternativeTool, Denial, Specialist
from towpath_contracts.tools.internal_tools import OUTPUT_TOOLS
from towpath_contracts.tools.violations import DenialCode
from towpath_tas.core.authorization_query import AuthorizationQuery
from towpath_tas.core.denial_alternatives import (
    HELPED_BY_OTHERS,
    AgentDirectory,
    DenialAlternativesQuery,
    alternatives,
    escalation,
    specialists,
    with_alternatives,
)
from towpath_tas.core.denial_explanations import explain_denial
from towpath_tas.core.denials import (
    allowed_tools,
    denied_arguments,
    denied_by_matrix,
    denied_drifted,
    denied_grant,
    denied_long_check,
    denied_long_conditions,
    denied_poison,
    denied_rules_changed,
    denied_schema,
    denied_too_costly,
    denied_unknown,
)
from towpath_tas.core.policy.conditions import ConditionBudget, ConditionCompiler, ConditionContext, ConditionResult
from towpath_tas.core.policy.grants import granted
from towpath_tas.core.policy.matrix import (
    MAX_CACHED,
    NO_USAGE,
    CallPrincipal,
    LimitCounters,
    Matrix,
    MatrixVerdict,
    RateLimit,
    Rule,
)
from towpath_tas.core.provenance.call_values import CallProvenance
from towpath_tas.core.provenance.provenance import RunProvenance
from towpath_tas.core.provenance.provenance_messages import (
    names_readers,
    needs_knowledge,
    origin_members,
    origin_without_reading,
    with_origin_told,
)
from towpath_tas.core.restored_runs import RestoredRuns
from towpath_tas.core.switches import OpenSwitches
from towpath_tas.core.tools.registry import ProjectToolRegistry, ToolVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationDecision:
    """The decision. `basis` are the deciding rules as (name, digest), which an approval is bound to.

    `needs_origin`: it was made without the origin of the values, and that matters; repeat it with `with_origin`.

    Expiry, quorum and what follows expiry are the strictest of all deciding rules. `rules_digest` is that of all rules
    that were in force, which the audit records; empty where there were none. `explains_in_run`: the log of the run has
    the whole explanation of a denial, too, with conditions and rules of others; the audit has it always.
    """

    effect: RuleEffect
    tool: ToolVersion | None
    policy_version: int
    rule: str | None = None
    reason: str = ""
    basis: tuple[tuple[str, str], ...] = ()
    counted: tuple[str, ...] = ()
    rated: tuple[RateLimit, ...] = ()
    expires_s: int = 0
    origin: CallProvenance | None = None
    needs_origin: bool = False
    quorum: int = 1
    on_expiry: OnExpiry = "deny"
    denial: Denial | None = None
    rules_digest: str = ""
    explains_in_run: bool = False


Authorize = Callable[[AuthorizationQuery], AuthorizationDecision]
GRANT_PREFIX = "grant "
"""Prefix of the names of conditions in grants; names of rules have no space, so they can't collide."""


class ProjectAuthorizer:
    """Everything that decides in one project at one moment: matrix, registry, switches, shadow policy."""

    def __init__(self, matrix: Matrix, registry: ProjectToolRegistry, compile_grant: ConditionCompiler) -> None:
        self.matrix = matrix
        self.registry = registry
        self.compile_grant = compile_grant
        self.switches = OpenSwitches()
        """What is paused; it decides only when a call is sent."""
        self.restored = RestoredRuns()
        """Runs of which a backup may not know all; it decides only whether a person is asked first."""
        self.rules_digest = ""
        """Of the rules as they were read."""
        self.rules_changed = False
        """Whether these are not those of the policy version; then every call is denied."""
        self.explains_in_runs = False
        """Whether whoever may read a run may read the policy: then its log explains denials in full."""
        self.shadow: Matrix | None = None
        self.directories: Mapping[str, AgentDirectory] = {}
        """The agents of snapshots by digest, as far as loaded; denials name them."""
        self._alternatives: dict[tuple[CallPrincipal, str, str, bool], tuple[AlternativeTool, ...]] = {}

    def asks_readers(self, query: AuthorizationQuery) -> bool:
        """Return whether a rule or grant asks who may know what the call carries."""
        tool = self.registry.tools.get(query.tool)
        return tool is not None and names_readers(self._naming_origin(query, tool.spec.operation).values())

    def with_origin(self, query: AuthorizationQuery, known: RunProvenance) -> AuthorizationQuery:
        """Return *query* with the origin of its values, by what is *known* of its run."""
        tool = self.registry.tools.get(query.tool)
        if tool is None:
            return query
        naming = self._naming_origin(query, tool.spec.operation)
        found = known.origin(tool.spec, query.args, readers=names_readers(naming.values()))
        return dataclasses.replace(query, origin=found.context(), call_origin=found)

    def authorize(
        self,
        query: AuthorizationQuery,
        used: Mapping[str, int] | None = None,
        rates: Mapping[str, int] | None = None,
        budget: ConditionBudget | None = None,
    ) -> AuthorizationDecision:
        """Decide *query*; *used* counts the run's calls by limited rule, *rates* those of the current windows.

        *budget* is one for all decisions about the same call.
        """
        budget = ConditionBudget() if budget is None else budget
        tool = self.registry.tools.get(query.tool)
        if tool is not None and self._frees(query, tool):
            return self._own_output(query, tool, budget)
        naming = {} if tool is None else self._naming_origin(query, tool.spec.operation)
        stated = query.origin is not None
        if tool is not None and naming and not stated:
            query = dataclasses.replace(query, origin=origin_without_reading(tool.spec))
        decision = self._rule(query, used, rates, budget)
        if tool is None:
            return decision
        if query.call_origin is None:
            wanted = decision.effect == "require_approval" or needs_knowledge(naming.values(), tool.spec)
            if wanted and decision.effect != "require_approval" and not stated:
                context = query.condition_context(budget)
                wanted = any(self._reads(name, when, context) for name, when in naming.items())
            return dataclasses.replace(decision, needs_origin=True) if wanted else decision
        denial = decision.denial
        if denial is not None and (denial.rule in naming or (denial.rule is None and naming)):
            asked = naming.values() if denial.rule is None else (naming[denial.rule],)
            denial = with_origin_told(denial, asked, query.call_origin, tool.spec.system_params)
        return dataclasses.replace(decision, origin=query.call_origin, denial=denial)

    def _frees(self, query: AuthorizationQuery, tool: ToolVersion) -> bool:
        """Return whether a call needs no rule. Without a policy, or with rules that are not its own, nothing is free.

        A permission in the audit names the version that it was given under.
        """
        valid = self.matrix.version and not self.rules_changed
        return bool(valid) and self.matrix.frees(query.principal, tool.spec)

    def _own_output(
        self, query: AuthorizationQuery, tool: ToolVersion, budget: ConditionBudget
    ) -> AuthorizationDecision:
        """Allow a run to read what its own calls have returned: it was given that already, and may know it.

        Neither grant nor matrix is asked, but where a rule names the tool. Arguments are checked as always.
        """
        refused = self._refused_before(query, tool)
        if refused is not None:
            return self._no(query, refused, tool, budget=budget)
        return AuthorizationDecision(
            effect="allow",
            tool=tool,
            policy_version=self.matrix.version,
            reason="the run was given this output already",
            rules_digest=self.rules_digest,
        )

    def _reads(self, name: str, when: str, context: ConditionContext) -> bool:
        """Return whether a condition needs the origin: `origin.writes && …` does not, for a tool that only reads."""
        return name.startswith(GRANT_PREFIX) or self.matrix.met(when, context) is ConditionResult.UNCLEAR

    def _naming_origin(self, query: AuthorizationQuery, operation: str) -> dict[str, str]:
        """Return the conditions that use the origin, by the names of their rules; those of grants by their position."""
        found = {}
        for matrix in (self.matrix,) if self.shadow is None else (self.matrix, self.shadow):
            if matrix.names_origin:
                near = matrix.candidates(query.principal, query.tool, operation)
                found.update(
                    {rule.name: rule.when for rule in near if rule.when is not None and origin_members(rule.when)}
                )
        for place, grant in enumerate(query.grants):
            conditions = [str(entry["when"]) for entry in grant if entry.get("when") is not None]
            found.update(
                {f"{GRANT_PREFIX}{place}.{row}": when for row, when in enumerate(conditions) if origin_members(when)}
            )
        return found

    def _rule(
        self,
        query: AuthorizationQuery,
        used: Mapping[str, int] | None,
        rates: Mapping[str, int] | None,
        budget: ConditionBudget,
    ) -> AuthorizationDecision:
        tool = self.registry.tools.get(query.tool)
        if self.rules_changed:
            return self._no(query, denied_rules_changed(query.tool, self.matrix.version), tool, budget=budget)
        if tool is None:
            return self._unknown(query, budget)
        refused = self._refused_before(query, tool)
        if refused is not None:
            return self._no(query, refused, tool, budget=budget)
        if query.call_origin is not None and query.call_origin.too_costly:
            return self._no(query, denied_too_costly(query.tool, len(query.call_origin.values)), tool, budget=budget)
        context = query.condition_context(budget)
        own = query.tool in OUTPUT_TOOLS
        if not own and not granted(query.grants, query.tool, tool.spec.operation, context, self.compile_grant):
            too_long = context.too_costly
            missing = denied_grant(query.tool, tool.spec.operation, query.grants)
            denial = denied_long_conditions(query.tool) if too_long else missing
            return self._no(query, denial, tool, budget=budget)
        drawn = _limit_usage(query, used, rates)
        found = tool.spec.discovered
        verdict = self.matrix.decide(query.principal, query.tool, tool.spec.operation, context, drawn, discovered=found)
        if context.too_costly:
            return self._no(query, denied_long_conditions(query.tool), tool, budget=budget)
        if verdict.effect == "deny":
            return self._no_by_rule(query, tool, verdict, drawn, budget)
        named = verdict.rule
        return AuthorizationDecision(
            effect=verdict.effect,
            tool=tool,
            policy_version=self.matrix.version,
            rule=named.name if named else None,
            reason=named.note if named else "",
            basis=tuple((rule.name, rule.digest) for rule in verdict.deciding),
            counted=tuple(rule.name for rule in verdict.counted),
            rated=verdict.rated,
            rules_digest=self.rules_digest,
            **_strictest(verdict.deciding),
        )

    def _refused_before(self, query: AuthorizationQuery, tool: ToolVersion) -> Denial | None:
        if tool.held_by:
            return denied_drifted(query.tool, tool.held_by)
        if query.operation not in {"call", tool.spec.operation}:
            return Denial(
                violation_type=DenialCode.OPERATION_UNKNOWN,
                reason=f"{query.tool} has no operation {query.operation}; it has {tool.spec.operation}",
            )
        try:
            check = self.registry.arguments(tool)
        except ValueError as error:
            return denied_schema(query.tool, str(error))
        try:
            problems = check.problems(query.args, query.args_text, tool.spec.system_params)
        except TooMuchWorkError:
            return denied_long_check(query.tool)
        return denied_arguments(query.tool, problems) if problems else None

    def deny_poison(self, query: AuthorizationQuery) -> AuthorizationDecision:
        """Deny a call whose authorization has ended processes, without looking at its arguments or at any condition."""
        return self._no(query, denied_poison(query.tool), self.registry.tools.get(query.tool), budget=ConditionBudget())

    def _unknown(self, query: AuthorizationQuery, budget: ConditionBudget) -> AuthorizationDecision:
        others = self._others(query, budget)
        allowed = tuple(one.tool for one in others)
        denial = denied_unknown(query.tool, tuple(self.registry.tools), allowed)
        return self._no(query, denial, None, budget=budget, others=others)

    def _no_by_rule(
        self,
        query: AuthorizationQuery,
        tool: ToolVersion,
        verdict: MatrixVerdict,
        used: LimitCounters,
        budget: ConditionBudget,
    ) -> AuthorizationDecision:
        others = self._others(query, budget)
        denial = denied_by_matrix(verdict, query.tool, tool.spec.operation, tuple(one.tool for one in others))
        return self._no(query, denial, tool, verdict, used, budget=budget, others=others)

    def _others(self, query: AuthorizationQuery, budget: ConditionBudget) -> tuple[AlternativeTool, ...]:
        """Return what the agent may do instead, nearest first. Cached: a denied agent is often denied again."""
        directory = self._directory(query)
        key = (query.principal, query.tool, query.snapshot_digest, bool(directory))
        kept = not query.grants and not self.matrix.names_run
        found = self._alternatives.get(key) if kept else None
        if found is None:
            refused = self._refused(query, budget)
            found = self._find_others(query, refused, directory)
            if kept and not refused.context.with_values({}).too_costly:
                if len(self._alternatives) >= MAX_CACHED:
                    self._alternatives.clear()
                self._alternatives[key] = found
        return found

    def _find_others(
        self, query: AuthorizationQuery, refused: DenialAlternativesQuery, directory: AgentDirectory
    ) -> tuple[AlternativeTool, ...]:
        own = directory.get(query.principal.agent)
        known = self.registry.tools
        names = known if own is None else sorted(own.tools)
        near = [tool.spec for name in names if (tool := known.get(name)) is not None]
        open_ones = [spec for spec in near if not known[spec.name].held_by]
        ranked = allowed_tools(self.matrix, query.principal, open_ones, query.grants, query.tool)
        specs = [known[name].spec for name in ranked]
        return alternatives(refused, specs, self.matrix, self.compile_grant, directory)

    def _directory(self, query: AuthorizationQuery) -> AgentDirectory:
        return self.directories.get(query.snapshot_digest, {})

    @staticmethod
    def _refused(query: AuthorizationQuery, budget: ConditionBudget) -> DenialAlternativesQuery:
        return DenialAlternativesQuery(
            principal=query.principal, grants=query.grants, context=query.condition_context(budget)
        )

    def _no(
        self,
        query: AuthorizationQuery,
        denial: Denial,
        tool: ToolVersion | None,
        verdict: MatrixVerdict | None = None,
        used: LimitCounters = NO_USAGE,
        *,
        budget: ConditionBudget,
        others: tuple[AlternativeTool, ...] | None = None,
    ) -> AuthorizationDecision:
        """Deny, with agents and people who may help; *others* if they were computed already."""
        agents: tuple[Specialist, ...] = ()
        if denial.violation_type not in HELPED_BY_OTHERS:
            others = ()
        else:
            others, directory = self._others(query, budget) if others is None else others, self._directory(query)
            if tool is not None and directory and not tool.held_by:
                refused = self._refused(query, budget)
                agents = specialists(refused, tool.spec, self.matrix, self.compile_grant, directory, used)
        denial = with_alternatives(denial, others, agents, escalation(denial.violation_type, verdict))
        advice = query.condition_context(budget).with_values({})
        explained = explain_denial(denial, query, tool, self.matrix, verdict, others, advice)
        denial = denial.model_copy(update={"explanation": explained})
        return AuthorizationDecision(
            effect="deny",
            tool=tool,
            policy_version=self.matrix.version,
            rule=denial.rule,
            reason=denial.reason,
            counted=() if verdict is None else tuple(rule.name for rule in verdict.counted),
            denial=denial,
            rules_digest=self.rules_digest,
            explains_in_run=self.explains_in_runs,
        )


def _limit_usage(
    query: AuthorizationQuery, calls: Mapping[str, int] | None, rates: Mapping[str, int] | None
) -> LimitCounters:
    return LimitCounters(calls=calls or {}, rates=rates or {}, spent_usd=query.spent_usd)


def _strictest(deciding: Sequence[Rule]) -> dict[str, Any]:
    return {
        "expires_s": min((rule.expires_s for rule in deciding), default=0),
        "quorum": max((rule.quorum for rule in deciding), default=1),
        "on_expiry": "escalate" if deciding and all(rule.on_expiry == "escalate" for rule in deciding) else "deny",
    }
