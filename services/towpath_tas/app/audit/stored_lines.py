"""What the platform's own tables say of things that the log recorded, for a bundle to compare.

What the platform reads (arguments in the ledger, the text of a policy, who approved) lies beside the log and is not
hashed by it. Digests are made anew from the stored texts here: a digest that is stored beside its text proves nothing.
"""

import json
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from towpath_audit import bundle
from towpath_audit.notes import write_time
from towpath_audit.sealed_rules import POLICY_APPLIED
from towpath_contracts.canonical import digest, digest_text
from towpath_contracts.tools.calls import ToolSpec
from towpath_tas.app.audit.export_piece import ExportPiece
from towpath_tas.app.audit.sealer import QUERIES
from towpath_tas.core.policy.policy_file import rules_digest
from towpath_tas.core.tools.registry import spec_digest

CALL_PHASES = frozenset({"decision", "outcome", "settled"})
"""Entries of calls that are compared, beside those of approvals."""

TOOL_PHASES = frozenset({"tool.registered", "tool.proposed", "tool.accepted", "tool.refused"})

MAX_BLOB_BYTES = 32_000_000
"""Of large results whose bytes are read for one piece; others are not compared."""

_LATEST_VERSION = 2**31 - 1  # of a tool, as its table counts

Found = dict[str, Any]
BlobDigests = dict[tuple[str, str], str]


async def add_stored(
    connection: Any, shown: Sequence[Any], piece: ExportPiece, size: int, until: datetime | None
) -> None:
    """Add a line for each of the entries *shown* that recorded something which a table keeps.

    The bundle goes to leaf *size* and the time *until*: it has the last entry of a call whose entries all lie before.
    """
    entries = [(row, detail_of(row)) for row in shown if row["entry_id"] is not None]
    calls = await _calls(connection, [row for row, _ in entries if _is_of_call(row)], size, until)
    approvals = await _approvals(connection, {_approval_id(detail) for _, detail in entries} - {None})
    for row, detail in entries:
        if row["phase"] == POLICY_APPLIED:
            piece.add(bundle.stored(row["leaf_index"], await _policy(connection, row)))
        elif row["phase"] in TOOL_PHASES and "version" in detail:
            piece.add(bundle.stored(row["leaf_index"], await _tool(connection, row, detail["version"])))
        elif _is_of_call(row):
            found = calls.get(row["execution_id"])
            if found is None and row["phase"] in {"outcome", "settled"}:
                continue  # the decision of the call tells that its row is gone
            if found is not None and "approval_id" in detail and "erased" not in found:
                found = _with_approval(found, row, approvals.get(_approval_id(detail)))
            piece.add(bundle.stored(row["leaf_index"], found))


def is_whole(row: Any, size: int, until: datetime | None) -> bool:
    """Return whether the bundle has the last entry of the call, so that the status of its row can be compared."""
    if row["last_at"] is None:
        return True
    whole: bool = row["last_leaf"] < size and (until is None or row["last_at"] <= until)
    return whole


def _is_of_call(row: Any) -> bool:
    if row["execution_id"] is None:
        return False
    return row["phase"] in CALL_PHASES or row["phase"].startswith("approval.")


async def _calls(connection: Any, rows: Sequence[Any], size: int, until: datetime | None) -> dict[UUID, Found]:
    if not rows:
        return {}
    stored = await connection.fetch(
        QUERIES.stored_calls, [row["run_id"] for row in rows], [row["execution_id"] for row in rows]
    )
    ended = {row["execution_id"] for row in rows if row["phase"] == "outcome"}
    made = await _blobs(connection, [row for row in stored if row["execution_id"] in ended])
    found = {}
    for row in stored:
        if row["erased_at"] is not None:
            found[row["execution_id"]] = _erased(row)
        else:
            found[row["execution_id"]] = {**_call(row, made), "last_entry": is_whole(row, size, until)}
    return found


async def _blobs(connection: Any, calls: Sequence[Any]) -> BlobDigests:
    """Return the digests of the stored bytes of large results, by project and name, as far as they can be read."""
    named = [(row["project"], name) for row in calls if (name := _blob_name(_read_fact(row["fact"])))]
    named = [(project, name) for project, name in named if "\0" not in name]  # nothing can be stored under that
    if not named:
        return {}
    rows = await connection.fetch(
        QUERIES.stored_blobs, [project for project, _ in named], [name for _, name in named], MAX_BLOB_BYTES
    )
    return {(row["project"], row["digest"]): row["made"] for row in rows}


def _erased(row: Any) -> Found:
    """Return what a row that was erased with its run still says."""
    left = ("project", "network", "agent_key", "caller", "tool", "operation", "rule", "policy_version", "status")
    return {"erased": True} | {name: row[name] for name in left}


def _call(row: Any, blobs: BlobDigests) -> Found:
    asked = row["asked_made"] or row["args_made"]
    call = {name: row[name] for name in ("project", "network", "agent_key", "caller", "tool", "operation")}
    call |= {name: row[name] for name in ("rule", "policy_version", "tool_version", "status", "settled_by")}
    call["args_fit"] = row["args_made"] == row["args_digest"] and row["asked_made"] == row["asked_digest"]
    call["args_fit"] &= bool(row["asked_digest"]) == bool(row["edited_by"])
    call |= {"args_digest": row["args_made"], "edited_by": row["edited_by"] or ""}
    if not row["edited_by"]:
        call["decided_args"] = asked  # of a call that was edited, each approval has the arguments of its time
    fact = _read_fact(row["fact"])
    call["result_digest"] = _result_digest(fact, row["project"], blobs)
    call["told_digest"] = None if row["fact"] is None else digest_text(row["fact"])
    return call | _told(fact)


def _told(fact: Found) -> Found:
    """Return what a run is told of its call, as far as that is told: the same may be told again at any time."""
    told: Found = {"told_status": fact["status"]} if "status" in fact else {}
    if fact.get("type") == "tool.denied":
        told["told_status"] = "denied"
    if "failure" in fact:
        failure = fact["failure"]
        told["told_code"] = failure.get("code") if isinstance(failure, dict) else None
    return told


def _read_fact(text: str | None) -> Found:
    try:
        fact = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {"blob": True}  # nothing that anybody recorded: it has no digest
    return fact if isinstance(fact, dict) else {"blob": True}


def _blob_name(fact: Found) -> str | None:
    """Return the name of the blob that has the result; None where the fact has it, or both, or neither."""
    name = fact.get("result_digest")
    return name if fact.get("blob") and fact.get("result") is None and isinstance(name, str) else None


def _result_digest(fact: Found, project: str, blobs: BlobDigests) -> str | None:
    """Return the digest of the result: of the bytes in the blob store, else the name that they had there."""
    if fact.get("blob"):
        name = _blob_name(fact)
        return None if name is None else blobs.get((project, name), name)
    try:
        return digest(fact.get("result"))
    except (ValueError, RecursionError):
        return None


async def _approvals(connection: Any, ids: Collection[UUID | None]) -> dict[UUID | None, Any]:
    if not ids:
        return {}
    return {row["approval_id"]: row for row in await connection.fetch(QUERIES.stored_approvals, list(ids))}


def _approval_id(detail: Found) -> UUID | None:
    """Return the approval that an entry names; None where it names none, or what can be none."""
    try:
        return UUID(str(detail.get("approval_id")))
    except ValueError:
        return None


def _with_approval(call: Found, entry: Any, row: Any) -> Found | None:
    if row is None:
        return None
    found = dict(call)
    found |= {"approval_run": str(row["run_id"]), "approval_call": str(row["execution_id"])}
    found |= {"approval_project": row["project"], "requested_by": row["requested_by"], "approval_digest": row["digest"]}
    found |= {"bound_digest": _bound_digest(row["bound"]), "role": row["role"], "quorum": row["quorum"]}
    found |= {"revisions": row["revisions"], "approval_status": row["status"], "decided_by": row["decided_by"]}
    found |= {"decided_reason": row["decided_reason"], "approval_edited_by": row["edited_by"]}
    found["approval_args"] = row["args_made"]
    voted = json.loads(row["votes"] or "[]")
    found["votes"] = [[actor, verdict, write_time(datetime.fromisoformat(at))] for actor, verdict, *_, at in voted]
    votes = {(actor, verdict): more for actor, verdict, *more, _ in voted}
    vote = votes.get((entry["actor"], entry["verdict"]))
    found["vote"] = None if vote is None else [entry["verdict"], *vote]
    return found


def _bound_digest(text: str) -> str | None:
    try:
        return digest(json.loads(text))
    except (ValueError, RecursionError):
        return None


async def _policy(connection: Any, entry: Any) -> Found | None:
    row = await connection.fetchrow(QUERIES.stored_policy, entry["project"], entry["policy_version"])
    if row is None:
        return None
    rules = await connection.fetch(QUERIES.stored_rules, entry["project"], entry["policy_version"])
    found = {name: row[name] for name in ("digest", "text_digest", "source", "note", "applied_by")}
    listed = [(*columns, json.loads(rule)) for *columns, rule in (tuple(one.values()) for one in rules)]
    made = rules_digest(listed)
    found["rules_digest"] = made if (row["rules"], row["rules_digest"]) == (len(rules), made) else None
    return found


async def _tool(connection: Any, entry: Any, version: object) -> Found | None:
    if type(version) is not int or not 0 < version <= _LATEST_VERSION:
        return None
    row = await connection.fetchrow(QUERIES.stored_tool, entry["project"], entry["tool"], version)
    if row is None:
        return None
    found = {name: row[name] for name in ("digest", "status", "reason", "owner", "worker", "decided_by")}
    found["decided_at"] = None if row["decided_at"] is None else write_time(row["decided_at"])
    try:
        spec = ToolSpec.model_validate_json(row["spec"])
    except ValidationError:
        return {**found, "spec_digest": None, "toolset_fits": False}
    return {**found, "spec_digest": spec_digest(spec), "toolset_fits": spec.toolset == row["toolset"]}


def detail_of(row: Any) -> Found:
    """Return the details of an entry; none where they are erased, or are no details: who changed them is told."""
    try:
        found = json.loads(row["detail"] or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
