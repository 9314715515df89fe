"""The ledger in Postgres: converts rows, and runs the two statements that change it.

A change is stored only if the row still has the revision, and the project the policy version, that it was made with.
Calls that were not stored are missing in the result; that is no error.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from towpath_contracts.tools.calls import CallStatus, EffectClass
from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_fabric.postgres.pool import Queries
from towpath_tas.core.call import (
    Approval,
    ApprovalVote,
    CallAuditEntry,
    LedgerCall,
    LedgerChange,
    StartClaim,
    stored_damage,
)
from towpath_tas.core.policy.matrix import RateLimit

QUERIES = Queries.load("towpath_tas.adapters")

_EDIT = ("asked_digest", "edited_by")
"""Columns of a call that only an edit writes, together with its approval."""

_CALL = tuple(field.name for field in fields(LedgerCall) if field.name not in _EDIT)
_CHANGE = (
    *("run_id", "execution_id", "project", "tool_version", "effect_class", "timeout_ms", "toolset", "status", "fence"),
    *("attempt", "deadline", "policy_version", "rule", "approval_id", "approvals", "claims", "fact", "accepted"),
    *("settled_by", "revision"),
)
_call_values = attrgetter(*_CALL)
_change_values = attrgetter(*_CHANGE)
_CALL_CLAIMS = _CALL.index("claims")
_CHANGE_CLAIMS = _CHANGE.index("claims")
_APPROVAL = tuple(field.name for field in fields(Approval) if field.name != "votes")
_VOTE = ("voter", "vote", "vote_reason", "vote_at", "edits", "args_digest", "voter_key")
_approval_values = attrgetter(*_APPROVAL)


class AuthorizationVersions(NamedTuple):
    """The versions of policy and registry that decisions were made with."""

    project: str
    policy_version: int
    registry_version: int


class LimitUse(NamedTuple):
    """One use of a limited rule by one call: of a run's limit, or of a project's rate if `project` is given.

    `base` is the run's count at the decision; rates (`calls` in `per_s` seconds) are checked when they are counted.
    """

    run_id: UUID
    rule: str
    execution_id: UUID
    base: int
    project: str | None = None
    per_s: int | None = None
    calls: int | None = None


class LedgerWriteResult(NamedTuple):
    """What a write did: which calls were stored, which projects have newer versions, and Postgres's time.

    `postponed` are calls that the quota of their project had no room for, with the time when there may be.
    """

    calls: frozenset[UUID]
    stale: tuple[str, ...]
    at: datetime
    postponed: Mapping[UUID, datetime] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerReadResult:
    """What the database has of a call: its row, its current approval, the fence of its run.

    `damage` says why the row is not what was stored; empty where it may be.
    """

    call: LedgerCall | None
    approval: Approval | None
    fence: int
    at: datetime
    erased: bool = False
    damage: str = ""


async def read_calls(lane: PinnedDatabaseConnection, keys: Sequence[tuple[UUID, UUID]]) -> dict[UUID, LedgerReadResult]:
    """Read calls by (run id, execution id); the result has every key."""
    rows = await lane.fetch(QUERIES.read_calls, [run for run, _ in keys], [execution for _, execution in keys])
    return {row["asked"]: _stored_call(row) for row in rows}


async def read_counts(lane: PinnedDatabaseConnection, keys: Sequence[tuple[UUID, str]]) -> dict[tuple[UUID, str], int]:
    """Read how often runs have used limited rules."""
    rows = await lane.fetch(QUERIES.read_counts, [run for run, _ in keys], [rule for _, rule in keys])
    return {(row["run_id"], row["rule"]): row["used"] for row in rows}


async def read_rates(lane: Any, keys: Sequence[tuple[str, RateLimit]]) -> dict[tuple[str, str], int]:
    """Read how many calls rules with a rate allowed in the current windows, by (project, rule)."""
    rows = await lane.fetch(
        QUERIES.read_rates,
        [project for project, _ in keys],
        [rate.rule for _, rate in keys],
        [rate.per_s for _, rate in keys],
    )
    return {(row["project"], row["rule"]): row["used"] for row in rows}


async def open_calls(
    lane: PinnedDatabaseConnection,
    changes: Sequence[LedgerChange],
    counts: Sequence[LimitUse],
    seen: Sequence[AuthorizationVersions],
) -> LedgerWriteResult:
    """Insert new rows with all that belongs to them, in one commit."""
    calls = sorted(
        (_call_row(change.call) for change in changes if change.call is not None), key=lambda row: (row[0], row[1])
    )
    row = await lane.fetchrow(
        QUERIES.open_calls, calls, _audits(changes), _approvals(changes), list(counts), list(seen)
    )
    postponed = dict(zip(row["postponed"], row["postponed_until"], strict=True))
    return _write_result(row)._replace(postponed=postponed)


async def change_calls(
    lane: Any, changes: Sequence[LedgerChange], seen: Sequence[AuthorizationVersions]
) -> LedgerWriteResult:
    """Change rows, and store audit notes that belong to no change, in one commit. *lane* may be a connection."""
    rows = sorted(
        (_change_row(change) for change in changes if change.call is not None), key=lambda row: (row[0], row[1])
    )  # in key order, so that two replicas that change the same rows can't deadlock
    row = await lane.fetchrow(QUERIES.change_calls, rows, _audits(changes), _approvals(changes), list(seen))
    return _write_result(row)


def call_from_row(row: Mapping[str, Any]) -> LedgerCall:
    values = {name: row[name] for name in _CALL} | {name: row[name] or "" for name in _EDIT}
    values["effect_class"] = EffectClass(values["effect_class"])
    values["status"] = CallStatus(values["status"])
    values["claims"] = _claims_from(values["claims"])
    return LedgerCall(**values)


def audit_row(note: CallAuditEntry) -> tuple[Any, ...]:
    call = note.call
    return (
        note.always,
        call.project,
        call.run_id,
        call.execution_id,
        note.phase,
        note.verdict,
        call.tool,
        call.operation,
        call.network,
        call.agent_key,
        call.caller,
        note.actor,
        call.rule,
        call.policy_version,
        call.args_digest,
        note.detail_text(),
    )


def platform_audit_row(
    project: str,
    phase: str,
    verdict: str,
    *,
    actor: str,
    version: int = 0,
    tool: str = "",
    run_id: UUID | None = None,
    detail: Any = None,
) -> tuple[Any, ...]:
    """Return an audit row that belongs to no call: policies, tools, what people do with runs."""
    text = json.dumps(detail or {}, separators=(",", ":"))
    return (True, project, run_id, None, phase, verdict, tool, "", "", "", "", actor, None, version, "", text)


def _write_result(row: Any) -> LedgerWriteResult:
    return LedgerWriteResult(calls=frozenset(row["written"]), stale=tuple(row["stale"]), at=row["at"])


def _call_row(call: LedgerCall) -> tuple[Any, ...]:
    values = _call_values(call)
    if not call.claims:
        return (*values[:_CALL_CLAIMS], "[]", *values[_CALL_CLAIMS + 1 :])
    return (*values[:_CALL_CLAIMS], _claims_text(call.claims), *values[_CALL_CLAIMS + 1 :])


def _change_row(change: LedgerChange) -> tuple[Any, ...]:
    call = change.call
    values = _change_values(call)
    text = _claims_text(call.claims) if call is not None and call.claims else "[]"
    return (*values[:_CHANGE_CLAIMS], text, *values[_CHANGE_CLAIMS + 1 :], change.policy_bound)


def _audits(changes: Sequence[LedgerChange]) -> list[tuple[Any, ...]]:
    return [audit_row(note) for change in changes for note in change.notes]


def _approvals(changes: Sequence[LedgerChange]) -> list[tuple[Any, ...]]:
    return [
        (*_approval_values(approval), *(_NO_VOTE if approval is not change.approvals[-1] else _vote_columns(change)))
        for change in changes
        for approval in change.approvals
    ]


_NO_VOTE = (None, None, None, None, False, None, None)


def _vote_columns(change: LedgerChange) -> tuple[Any, ...]:
    """Return the vote that the last approval of *change* takes in, and whether its arguments become the call's."""
    vote = change.vote
    columns = (None, None, None, None) if vote is None else (vote.actor, vote.verdict, vote.reason, vote.at)
    args_digest = change.call.args_digest if change.edits and change.call is not None else None
    return (*columns, change.edits, args_digest, None if vote is None else vote.key_prefix)


def _claims_text(claims: Sequence[StartClaim]) -> str:
    rows = [
        [
            str(claim.claim_id),
            claim.attempt,
            claim.worker,
            _written_time(claim.until),
            _written_time(claim.at),
            claim.probe,
        ]
        for claim in claims
    ]
    return json.dumps(rows, separators=(",", ":"))


def _written_time(at: datetime | None) -> str | None:
    return at.isoformat() if at else None


def _read_time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _claims_from(text: str) -> tuple[StartClaim, ...]:
    if text == "[]":
        return ()
    return tuple(
        StartClaim(
            claim_id=UUID(claim_id),
            attempt=attempt,
            worker=worker,
            granted=True,
            until=_read_time(until),
            at=_read_time(more[0]) if more else None,
            probe=more[1] if more else "",
        )
        for claim_id, attempt, worker, until, *more in json.loads(text)  # rows of earlier releases end with `until`
    )


def _votes_from(text: str | None) -> tuple[ApprovalVote, ...]:
    votes = json.loads(text) if text else []
    return tuple(
        ApprovalVote(actor=actor, verdict=verdict, reason=reason, at=datetime.fromisoformat(at), key_prefix=key_prefix)
        for actor, verdict, reason, at, key_prefix in votes
    )


def _stored_call(row: Mapping[str, Any]) -> LedgerReadResult:
    erased = row["erased_at"] is not None
    if row["execution_id"] is None:
        return LedgerReadResult(call=None, approval=None, fence=row["stored_fence"], at=row["read_at"], erased=erased)
    call = call_from_row(row)
    approval = None
    if call.approval_id is not None and row["approval_status"] is not None:
        approval = Approval(
            approval_id=call.approval_id,
            run_id=call.run_id,
            execution_id=call.execution_id,
            project=call.project,
            status=row["approval_status"],
            digest=row["approval_digest"],
            bound=row["bound"],
            rule=row["approval_rule"],
            reason=row["approval_reason"],
            requested_by=row["requested_by"],
            expires_at=row["expires_at"],
            decided_by=row["decided_by"],
            decided_at=row["decided_at"],
            decided_reason=row["decided_reason"],
            args=row["approval_args"],
            gate_type=row["gate_type"],
            role=row["role"],
            quorum=row["quorum"],
            on_expiry=row["on_expiry"],
            revisions=row["revisions"],
            edited_by=row["approval_edited_by"],
            votes=_votes_from(row["votes"]),
        )
    return LedgerReadResult(
        call=call,
        approval=approval,
        fence=row["stored_fence"],
        at=row["read_at"],
        erased=erased,
        damage="" if erased else stored_damage(call, approval),
    )
