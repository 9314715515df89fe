"""Warnings and hints about a policy that is valid but probably not what was meant.

They change nothing, unless the policy is applied with `strict`: then a warning refuses it.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from towpath_contracts.problems.registry import ProblemDetail
from towpath_fabric.turns.fair_threads import FairThreads
from towpath_tas.adapters.ledger_tables import QUERIES
from towpath_tas.adapters.policy_texts import PolicyText
from towpath_tas.app.policy_cache import PolicyCache
from towpath_tas.core.authorization import ProjectAuthorizer
from towpath_tas.core.policy.matrix import CallPrincipal
from towpath_tas.core.policy.policy_checks import (
    HINTS,
    NetworkAgent,
    ProjectToolsAndAgents,
    check,
    doubts_about_question,
)
from towpath_tas.core.policy.policy_file import ParsedPolicy
from towpath_tas.core.teams import agents_of

MAX_SCANNED = 50_000
"""The newest audit entries that are scanned for rules in use."""

MIN_DECISIONS = 100
"""Decisions under the policy in force before a rule can be called unused."""

MAX_NETWORKS = 500

PROJECTS_KEPT = 100
"""Projects whose agents are kept, those that were asked about last."""

AgentsByNetwork = Mapping[str, Sequence[NetworkAgent]]


class PolicyFindings(NamedTuple):
    """Warnings, which `strict` turns into problems, and hints, which never are."""

    warnings: tuple[ProblemDetail, ...]
    hints: tuple[str, ...]


class PublishedAgents:
    """The agents of a project's networks. A spec is read once for each version, however often a policy is checked."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._kept: OrderedDict[str, dict[str, tuple[int, Sequence[NetworkAgent]]]] = OrderedDict()

    async def of(self, project: str, threads: FairThreads) -> AgentsByNetwork:
        """Return the agents of the networks in force, by network; specs are taken apart in a turn of *threads*."""
        rows = await self._pool.fetch(QUERIES.network_versions, project, MAX_NETWORKS)
        versions = {row["network"]: row["version"] for row in rows}
        kept = {name: known for name, known in self._kept.get(project, {}).items() if versions.get(name) == known[0]}
        if unread := [name for name in versions if name not in kept]:
            specs = await self._pool.fetch(QUERIES.network_specs, project, unread)
            kept |= await threads.compute(
                lambda: {row["network"]: (row["version"], agents_of(row["spec"])) for row in specs}
            )
        self._kept[project] = kept
        self._kept.move_to_end(project)
        while len(self._kept) > PROJECTS_KEPT:
            self._kept.popitem(last=False)
        return {name: agents for name, (_, agents) in kept.items()}


class PolicyLinter:
    """Compares a policy with the tools, networks and decisions of its project."""

    def __init__(self, pool: Any, policy_cache: PolicyCache) -> None:
        self._pool = pool
        self._policy_cache = policy_cache
        self._agents = PublishedAgents(pool)

    async def about(self, project: str, written: PolicyText, threads: FairThreads) -> PolicyFindings:
        """Return what is probably wrong with a valid policy, in a turn of *threads*."""
        found = written.read
        bundle = await self._policy_cache.current(self._pool, project)
        networks = await self._agents.of(project, threads)

        def find() -> tuple[ProblemDetail, ...]:
            return check(found.rules, written.line_of, _around(project, bundle, networks))

        findings = await threads.compute(find)
        hints = tuple(finding.detail for finding in findings if finding.code in HINTS)
        unused = await self._unused(project, bundle, found)
        return PolicyFindings(tuple(finding for finding in findings if finding.code not in HINTS), (*hints, *unused))

    async def about_question(
        self, principal: CallPrincipal, tool: str, bundle: ProjectAuthorizer, threads: FairThreads
    ) -> tuple[str, ...]:
        """Return what is probably wrong with a query about *tool*, or with a rule for it: names, and conditions."""
        networks = await self._agents.of(principal.project, threads)
        if len(networks) >= MAX_NETWORKS:
            return ()  # there may be more, and one of them may have the name

        def find() -> tuple[str, ...]:
            return doubts_about_question(
                principal, tool, bundle.matrix.rules, _around(principal.project, bundle, networks)
            )

        return await threads.compute(find)

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


def _around(project: str, bundle: ProjectAuthorizer, networks: AgentsByNetwork) -> ProjectToolsAndAgents:
    return ProjectToolsAndAgents(project=project, tools=bundle.registry.specs(), networks=networks)
