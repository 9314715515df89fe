"""Registers the tools that workers offer; a policy admin decides about the doubtful ones.

A registration is accepted or refused per tool, in one transaction with its audit entries. Every accepted change
increments the registry version, so that no decision uses an outdated definition. Schemas are read and compared in a
thread, before the project is locked: a worker may send a megabyte of them.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from nats import errors as nats_errors
from nats.js.errors import NotFoundError

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.views import ActionDone
from towpath_contracts.streams import exec_consumer
from towpath_contracts.tools.access import SettleToolProposal, no_such_proposal
from towpath_contracts.tools.calls import ToolSpec
from towpath_contracts.tools.workers import RegisterTools, ToolRegistrationResult, ToolsRegistered
from towpath_fabric.nats.bus import Bus
from towpath_fabric.nats.streams import ensure_consumer, ensure_streams
from towpath_fabric.turns.fair_threads import FairThreads
from towpath_tas.adapters.ledger_tables import QUERIES, platform_audit_row
from towpath_tas.app.calls.dispatcher import TicketIssuer
from towpath_tas.app.policy.registration_checks import checked_digests
from towpath_tas.core.call import key_detail
from towpath_tas.core.policy.matrix import Rule
from towpath_tas.core.policy.patterns import opened_by_pattern
from towpath_tas.core.policy.policy_file import rule_from_row
from towpath_tas.core.tools.registry import (
    SpecComparison,
    ToolVersion,
    WorkerTrust,
    compare_specs,
    foreign_toolset,
    has_drifted,
    judge_proposal,
    name_head,
)


@dataclass(slots=True)
class _StoredTool:
    """What is stored of one tool: its current version, its newest number, undecided and refused versions by digest.

    `held_by` is the version that holds the calls of the current one, or 0. `opened_by` is the rule whose pattern alone
    opens a new tool of a known toolset, `name_taken_by` the toolset whose names begin as that of a new one.
    """

    current: ToolVersion | None = None
    newest: int = 0
    held_by: int = 0
    undecided: dict[str, tuple[int, str]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    opened_by: Rule | None = None
    name_taken_by: str = ""

    def is_foreign(self, toolset: str) -> bool:
        """Return whether the tool, or names that begin as its own, are another toolset's."""
        return bool(self.name_taken_by) or (self.current is not None and self.current.spec.toolset != toolset)


MAX_COMPARISONS = 1_024
"""Comparisons of two specs that are remembered: workers propose the same again whenever they connect."""

Compared = tuple[str, str]
"""The digests of the current spec, empty where there is none, and of the proposed one."""


class ToolRegistrations:
    """Handles registrations of tools and decisions about them."""

    def __init__(
        self, pool: Any, bus: Bus, tickets: TicketIssuer, trust: WorkerTrust, *, max_tools: int, max_chars: int
    ) -> None:
        """One project may have *max_tools*, whose specs have *max_chars* characters in all."""
        self._max_tools = max_tools
        self._max_chars = max_chars
        self._pool = pool
        self._bus = bus
        self._tickets = tickets
        self._trust = trust
        self._threads = FairThreads()
        self._compared: OrderedDict[Compared, SpecComparison] = OrderedDict()

    async def register(self, request: RegisterTools) -> ToolsRegistered:
        """Store what a worker proposes, and make sure that its queue exists; raises ProblemError for an invalid one."""
        digests = await self._threads.run(request.project, lambda: checked_digests(request))
        await self._ensure_queue(request.project, request.toolset)
        before = await _read_stored(self._pool, request.project, list(digests))
        await self._compare(request, digests, before)
        async with self._pool.acquire() as connection, connection.transaction():
            state = await connection.fetchrow(QUERIES.lock_project, request.project)
            known = await _read_stored(connection, request.project, list(digests))
            # Nothing is left to compare, unless another registration was quicker.
            comparisons = await self._compare(request, digests, known, locked=True)
            toolset_known = await connection.fetchval(QUERIES.toolset_known, request.project, request.toolset)
            if any(one.current is None for one in known.values()):
                await _find_names_taken(connection, request, known)
                if toolset_known:
                    await _find_opening_rules(connection, request, known, state["policy_version"])
            standings: list[ToolRegistrationResult] = []
            audits: list[tuple[Any, ...]] = []
            moved = False
            for spec in request.tools:
                one = known[spec.name]
                trusting = self._trust.covers(toolset_known=toolset_known, foreign=one.is_foreign(request.toolset))
                standing = await self._take(
                    connection, request, spec, one, audits, comparisons[spec.name], trusting=trusting
                )
                standings.append(standing)
                held = await self._hold(connection, request, spec, standing, known[spec.name], audits)
                moved = moved or held or standing.status == "accepted"
            if audits:
                await self._check_room(connection, request.project)
            if moved:
                await connection.execute(QUERIES.move_registry, request.project)
            if audits:
                await connection.execute(QUERIES.add_audit, audits)
        return ToolsRegistered(
            standings=tuple(standings), ticket_keys=self._tickets.public_keys(), now=self._tickets.now()
        )

    async def _check_room(self, connection: Any, project: str) -> None:
        """Refuse what was just stored if the project has more now than it may."""
        kept = await connection.fetchrow(QUERIES.tools_kept, project)
        if kept["tools"] > self._max_tools or kept["chars"] > self._max_chars:
            detail = (
                f"{project} would have {kept['tools']} tools with {kept['chars']} characters of definitions; "
                f"at most {self._max_tools} with {self._max_chars} may be registered or wait"
            )
            raise ProblemError(problem("project_tools_full", detail))

    async def decide(self, request: SettleToolProposal) -> ActionDone:
        """Accept or refuse a pending proposal, or withdraw what was accepted."""
        status = "accepted" if request.accept else "refused"
        place = (request.project, request.name, request.version)
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.fetchrow(QUERIES.lock_project, request.project)
            if request.withdraw:
                return await self._move(connection, request, QUERIES.withdraw_tool, "withdrawn")
            if request.accept and await connection.fetchval(QUERIES.tool_withdrawn, *place):
                return await self._move(connection, request, QUERIES.reinstate_tool, "reinstated")
            found = await connection.fetchval(
                QUERIES.decide_tool,
                *(*place, status, request.actor, request.reason),
            )
            if found is None:
                raise ProblemError(no_such_proposal(request.name, request.version))
            if request.accept:
                await connection.execute(QUERIES.release_tool, *place)
                await connection.execute(QUERIES.move_registry, request.project)
            key = key_detail(request.key_prefix, request.key_commitment)
            detail = {"version": request.version, "reason": request.reason, **key}
            entry = platform_audit_row(
                request.project, f"tool.{status}", status, actor=request.actor, tool=request.name, detail=detail
            )
            await connection.execute(QUERIES.add_audit, [entry])
        return ActionDone(detail=f"{request.name} version {request.version}: {status}")

    async def _move(self, connection: Any, request: SettleToolProposal, statement: str, what: str) -> ActionDone:
        """Take a tool out of the project, or in again; a worker that offers a withdrawn one finds it refused."""
        moved = await connection.fetch(statement, request.project, request.name, request.version)
        if not moved:
            raise ProblemError(problem("not_found", f"{request.name} has no version {request.version} in force"))
        await connection.execute(QUERIES.move_registry, request.project)
        detail = {"version": request.version, "versions": sorted(row["version"] for row in moved)}
        entry = platform_audit_row(
            *(request.project, f"tool.{what}", what),
            actor=request.actor,
            tool=request.name,
            detail={**detail, "reason": request.reason, **key_detail(request.key_prefix, request.key_commitment)},
        )
        await connection.execute(QUERIES.add_audit, [entry])
        return ActionDone(detail=f"{request.name} version {request.version}: {what}")

    async def _compare(
        self, request: RegisterTools, digests: dict[str, str], known: dict[str, _StoredTool], *, locked: bool = False
    ) -> dict[str, SpecComparison]:
        """Compare what is proposed with what is stored, as far as that is not remembered; by the names of the tools.

        Who has *locked* the project waits for no other's turn.
        """
        keys = {spec.name: _compared(known[spec.name], digests[spec.name]) for spec in request.tools}
        found = {key: self._compared[key] for key in keys.values() if key in self._compared}
        new = {keys[spec.name]: spec for spec in request.tools if keys[spec.name] not in found}

        def compare() -> dict[Compared, SpecComparison]:
            return {key: compare_specs(spec, known[spec.name].current) for key, spec in new.items()}

        if new:
            found.update(await (asyncio.to_thread(compare) if locked else self._threads.run(request.project, compare)))
        for key, comparison in found.items():
            self._compared[key] = comparison
            self._compared.move_to_end(key)
        while len(self._compared) > MAX_COMPARISONS:
            self._compared.popitem(last=False)
        return {name: found[key] for name, key in keys.items()}

    async def _ensure_queue(self, project: str, toolset: str) -> None:
        """Declare the consumer; a broker that lost its data has no streams either, so then everything is declared."""
        consumer = exec_consumer(project, toolset)
        try:
            try:
                await ensure_consumer(self._bus.nc, consumer)
            except NotFoundError:
                await ensure_streams(self._bus.nc, (consumer,), replicas=self._bus.stream_replicas)
        except (TimeoutError, nats_errors.Error) as error:
            raise ProblemError(problem("unavailable", "the toolset's queue can't be made", retry_after_s=1)) from error

    async def _hold(
        self,
        connection: Any,
        request: RegisterTools,
        spec: ToolSpec,
        standing: ToolRegistrationResult,
        known: _StoredTool,
        audits: list[tuple[Any, ...]],
    ) -> bool:
        """Hold the calls of a tool that is not the accepted one, or release them; return whether that changed.

        Only a worker of the tool's own toolset knows what its server offers.
        """
        foreign = known.current is not None and known.current.spec.toolset != request.toolset
        holds = standing.version if has_drifted(spec, known.current) else 0
        if foreign or holds == known.held_by:
            return False
        await connection.execute(QUERIES.hold_tool, request.project, spec.name, holds)
        phase, verdict = ("tool.drifted", "held") if holds else ("tool.restored", "released")
        detail = {"version": holds or standing.version, "was_held_by": known.held_by, "definition": spec.definition}
        audits.append(
            platform_audit_row(request.project, phase, verdict, actor=request.worker, tool=spec.name, detail=detail)
        )
        return True

    async def _take(
        self,
        connection: Any,
        request: RegisterTools,
        spec: ToolSpec,
        known: _StoredTool,
        audits: list[tuple[Any, ...]],
        comparison: SpecComparison,
        *,
        trusting: bool,
    ) -> ToolRegistrationResult:
        new_digest = comparison.new_digest
        standing = judge_proposal(
            spec,
            request.owner,
            known.current,
            trusting=trusting,
            compared=comparison,
            opened_by=known.opened_by,
            name_taken_by=known.name_taken_by,
            refused=known.undecided[new_digest][1] if new_digest in known.refused else "",
        )
        if standing.status == "unchanged" and known.current is not None:
            return ToolRegistrationResult(
                name=spec.name, version=known.current.version, digest=new_digest, status="unchanged"
            )
        if standing.status == "pending" and new_digest in known.undecided:
            version, reason = known.undecided[new_digest]
            return ToolRegistrationResult(
                name=spec.name, version=version, digest=new_digest, status="pending", reason=reason
            )
        version = known.newest + 1
        await connection.execute(
            QUERIES.add_tool,
            *(
                request.project,
                spec.name,
                version,
                new_digest,
                spec.model_dump_json(),
                standing.status,
                standing.reason,
            ),
            *(spec.toolset, request.owner, request.worker),
        )
        detail = {"version": version, "digest": new_digest, "owner": request.owner, "reason": standing.reason}
        phase = "tool.proposed" if standing.status == "pending" else "tool.registered"
        audits.append(
            platform_audit_row(
                request.project, phase, standing.status, actor=request.worker, tool=spec.name, detail=detail
            )
        )
        return ToolRegistrationResult(
            name=spec.name, version=version, digest=new_digest, status=standing.status, reason=standing.reason
        )


def _compared(known: _StoredTool, new_digest: str) -> Compared:
    return "" if known.current is None else known.current.digest, new_digest


async def _read_stored(connection: Any, project: str, names: Sequence[str]) -> dict[str, _StoredTool]:
    known = {name: _StoredTool() for name in names}
    for row in await connection.fetch(QUERIES.tool_versions, project, list(names)):
        one = known[row["name"]]
        one.newest = max(one.newest, row["version"])
        if row["spec"] is not None:
            spec = ToolSpec.model_validate_json(row["spec"])
            one.current = ToolVersion(spec=spec, version=row["version"], digest=row["digest"], owner=row["owner"])
        elif row["status"] != "accepted":
            reason = row["reason"] if row["status"] == "pending" else f"refused: {row['reason']}"
            one.undecided[row["digest"]] = (row["version"], reason)
            if row["status"] == "refused":
                one.refused.add(row["digest"])
        one.held_by = row["version"] if row["held"] else one.held_by
    return known


async def _find_names_taken(connection: Any, request: RegisterTools, known: dict[str, _StoredTool]) -> None:
    """Note which new tools have names that begin as those of another toolset."""
    heads = sorted({name_head(spec.name) for spec in request.tools if known[spec.name].current is None} - {""})
    toolsets: dict[str, set[str]] = {}
    for row in await connection.fetch(QUERIES.names_taken, request.project, heads):
        toolsets.setdefault(row["head"], set()).add(row["toolset"])
    for spec in request.tools:
        if known[spec.name].current is None:
            known[spec.name].name_taken_by = foreign_toolset(spec, toolsets)


async def _find_opening_rules(
    connection: Any, request: RegisterTools, known: dict[str, _StoredTool], policy_version: int
) -> None:
    """Note which new tools only a pattern of the policy in force opens."""
    stored = await connection.fetch(QUERIES.rules, request.project, policy_version)
    new = [spec for spec in request.tools if known[spec.name].current is None]

    def find() -> None:  # hundreds of tools by thousands of rules
        rules = [rule_from_row(json.loads(row["rule"])) for row in stored]
        for spec in new:
            known[spec.name].opened_by = opened_by_pattern(rules, request.project, spec)

    await asyncio.to_thread(find)
