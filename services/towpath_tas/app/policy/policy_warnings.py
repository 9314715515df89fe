"""Warnings and hints about a policy that is valid but probably not what was meant.

They change nothing, unless the policy is applied with `strict`: then a warning refuses it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from towpath_contracts.problems.registry import ProblemDetail
from towpath_fabric.turns.fair_threads import FairThreads
from towpath_tas.adapters.ledger_tables import QUERIES
from towpath_tas.app.policy_cache import PolicyCache
from towpath_tas.core.authorization import ProjectAuthorizer
from towpath_tas.core.policy.matrix import CallPrincipal
from towpath_tas.core.policy.policy_checks import HINTS, ProjectToolsAndAgents, check, unknown_agents
from towpath_tas.core.policy.policy_file import ParsedPolicy
from towpath_tas.core.teams import agents_of

MAX_SCANNED = 50_000
"""The newest audit entries that are scanned for rules in use."""

MIN_DECISIONS = 100
"""Decisions under the policy in force before a rule can be called unused."""

MAX_NETWORKS = 500


class PolicyFindings(NamedTuple):
    """Warnings, which `strict` turns into problems, and hints, which never are."""

    warnings: tuple[ProblemDetail, ...]
    hints: tuple[str, ...]


class PolicyLinter:
    """Compares a policy with the tools, networks and decisions of its project."""

    def __init__(self, pool: Any, policy_cache: PolicyCache) -> None:
        self._pool = pool
        self._policy_cache = policy_cache

    async def about(self, project: str, found: ParsedPolicy, threads: FairThreads) -> PolicyFindings:
        """Return what is probably wrong with a valid policy, in a turn of *threads*."""
        bundle = await self._policy_cache.current(self._pool, project)
        specs = await self._network_specs(project)

        def find() -> tuple[ProblemDetail, ...]:
            return check(found.rules, found.lines, _around(project, bundle, specs))

        findings = await threads.compute(find)
        hints = tuple(finding.detail for finding in findings if finding.code in HINTS)
        unused = await self._unused(project, bundle, found)
        return PolicyFindings(tuple(finding for finding in findings if finding.code not in HINTS), (*hints, *unused))

    async def about_question(
        self, principal: CallPrincipal, tool: str, bundle: ProjectAuthorizer, threads: FairThreads
    ) -> tuple[str, ...]:
        """Return which networks and agents do not exist that a query about *tool*, or a rule for it, names."""
        specs = await self._network_specs(principal.project)
        if len(specs) >= MAX_NETWORKS:
            return ()  # there may be more, and one of them may have the name

        def find() -> tuple[str, ...]:
            return unknown_agents(principal, tool, bundle.matrix.rules, _around(principal.project, bundle, specs))

        return await threads.compute(find)

    async def _network_specs(self, project: str) -> Sequence[Any]:
        specs: Sequence[Any] = await self._pool.fetch(QUERIES.network_specs, project, MAX_NETWORKS)
        return specs

    async def _unused(self, project: str, bundle: ProjectAuthorizer, found: ParsedPolicy) -> tuple[str, ...]:
        """Return the rules of the policy in force that allowed nothing lately."""
        rows = await self._pool.fetch(QUERIES.rules_named, project, bundle.matrix.version, MAX_SCANNED)
        decisions = sum(row["calls"] for row in rows)
        if decisions < MIN_DECISIONS:
            return ()
        named = {row["rule"] for row in rows}
        standing = {rule.digest for rule in bundle.matrix.rules}
        return tuple(
            f"line {line}: rule {rule.name}: gave no right in the last {decisions} decisions"
            for rule, line in zip(found.rules, found.lines, strict=True)
            if rule.effect != "deny" and rule.name not in named and rule.digest in standing
        )


def _around(project: str, bundle: ProjectAuthorizer, specs: Sequence[Any]) -> ProjectToolsAndAgents:
    """Read the project's networks: hundreds of specs, so never on the loop."""
    return ProjectToolsAndAgents(
        project=project,
        tools=bundle.registry.specs(),
        networks={row["network"]: agents_of(row["spec"]) for row in specs},
    )
