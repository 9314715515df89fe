"""Warnings and hints about a policy that is valid but probably not what was meant.

They change nothing, unless the policy is applied with `strict`: then a warning refuses it.
"""

import asyncio
import json
from typing import Any, NamedTuple

from towpath_contracts.problems.registry import ProblemDetail
from towpath_tas.adapters.ledger_tables import QUERIES
from towpath_tas.app.policy.policy_cache import PolicyCache
from towpath_tas.core.authorization import PolicyBundle
from towpath_tas.core.policy.matrix import Principal
from towpath_tas.core.policy.policy_checks import HINTS, ProjectNames, check, unknown_agents
from towpath_tas.core.policy.policy_file import ParsedPolicy, rule_from_row
from towpath_tas.core.teams import agents_of

MAX_SCANNED = 50_000
"""The newest audit entries that are looked at for rules in use: a bounded part of however many there are."""

MIN_DECISIONS = 100
"""Decisions under the matrix in force before one can say that a rule is not used."""

MAX_NETWORKS = 500


class PolicyFindings(NamedTuple):
    """Warnings, which strictness turns into problems, and hints, which nothing does."""

    warnings: tuple[ProblemDetail, ...]
    hints: tuple[str, ...]


class PolicyWarnings:
    """Looks at a matrix beside the tools, networks and decisions of its project."""

    def __init__(self, pool: Any, policy_cache: PolicyCache) -> None:
        self._pool = pool
        self._policy_cache = policy_cache

    async def about(self, project: str, found: ParsedPolicy) -> PolicyFindings:
        """Say what is probably wrong with a policy that can be read."""
        bundle = await self._policy_cache.current(self._pool, project)
        around = await self._around(project, bundle)
        doubts = await asyncio.to_thread(check, found.rules, found.lines, around)
        hints = tuple(doubt.detail for doubt in doubts if doubt.code in HINTS)
        unused = await self._unused(project, bundle.matrix.version, found)
        return PolicyFindings(tuple(doubt for doubt in doubts if doubt.code not in HINTS), (*hints, *unused))

    async def about_question(self, who: Principal, tool: str, bundle: PolicyBundle) -> tuple[str, ...]:
        """Say which networks and agents a question about *tool*, and the rules that speak of it, name in vain."""
        around = await self._around(who.project, bundle)
        if len(around.networks) >= MAX_NETWORKS:
            return ()  # there may be more, and one of them may have the name
        return await asyncio.to_thread(unknown_agents, who, tool, bundle.matrix.rules, around)

    async def _around(self, project: str, bundle: PolicyBundle) -> ProjectNames:
        networks = await self._pool.fetch(QUERIES.network_specs, project, MAX_NETWORKS)
        return ProjectNames(
            project=project,
            tools=bundle.registry.specs(),
            networks={row["network"]: agents_of(row["spec"]) for row in networks},
        )

    async def _unused(self, project: str, version: int, found: ParsedPolicy) -> tuple[str, ...]:
        """Name the rules that the matrix in force has too and that gave no right to anything lately."""
        rows = await self._pool.fetch(QUERIES.rules_named, project, version, MAX_SCANNED)
        decisions = sum(row["calls"] for row in rows)
        if decisions < MIN_DECISIONS:
            return ()
        named = {row["rule"] for row in rows}
        stored = await self._pool.fetch(QUERIES.rules, project, version)
        standing = {rule.digest for rule in map(rule_from_row, (json.loads(row["rule"]) for row in stored))}
        return tuple(
            f"line {line}: rule {rule.name}: gave no right in the last {decisions} decisions"
            for rule, line in zip(found.rules, found.lines, strict=True)
            if rule.effect != "deny" and rule.name not in named and rule.digest in standing
        )
