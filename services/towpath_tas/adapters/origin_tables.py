"""What the service can read of a run by itself: the task as it was submitted, and what earlier calls have returned.

Law: nothing here is told by a model or a worker about where a value comes from; it is compared with what the ledger
and the run's own log say. What can't be read is left out, and counts as not seen.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from towpath_fabric.db import Queries
from towpath_fabric.lane import Lane

QUERIES = Queries.load("towpath_tas.adapters", "origins.sql")

PAGE = 500
"""Calls of one run that are read at once."""

MAX_BLOB_BYTES = 1_048_576
"""Of a larger result only the beginning is looked at."""

Reader = Lane | Any
"""A lane or a pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What the caller of a run said: the text, and inputs by name. `parent` is the run that it is a fork of."""

    project: str
    text: str
    inputs: Mapping[str, Any]
    parent: tuple[UUID, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What one ended call has told its run, as the fact that was sent."""

    run_id: UUID
    execution_id: UUID
    project: str
    tool: str
    tool_version: int
    step: int
    fact: Mapping[str, Any]


async def read_tasks(source: Reader, runs: Collection[UUID]) -> dict[UUID, Task]:
    """Read the tasks of *runs*; a run that is not there is left out."""
    rows = await source.fetch(QUERIES.read_tasks, list(runs))
    return {row["run_id"]: _task(json.loads(row["created"])) for row in rows}


async def read_outputs(source: Reader, runs: Collection[UUID], known: Collection[UUID]) -> list[Output]:
    """Read what ended calls of *runs* have told, but those *known*; at most `PAGE` of each run."""
    rows = await source.fetch(QUERIES.read_outputs, list(runs), list(known), PAGE)
    return [_output(row) for row in rows]


async def read_spec(source: Reader, project: str, tool: str, version: int) -> Mapping[str, Any]:
    """Read the definition of a tool as it was for a call; empty where it is not known."""
    row = await source.fetchrow(QUERIES.spec_of, project, tool, version)
    found: Mapping[str, Any] = json.loads(row["spec"]) if row is not None else {}
    return found


async def read_blob(source: Reader, project: str, digest: str) -> tuple[bytes, bool]:
    """Read the beginning of a large result, and whether that is all of it."""
    row = await source.fetchrow(QUERIES.head_of_blob, project, digest, MAX_BLOB_BYTES)
    if row is None:
        return b"", False
    return bytes(row["head"]), row["size"] <= MAX_BLOB_BYTES


def _task(created: Mapping[str, Any]) -> Task:
    forked = created.get("forked_from")
    inputs = {**(created.get("labels") or {}), **(created.get("system_params") or {})}
    parent = (UUID(forked["run_id"]), int(forked["step"])) if forked else None
    return Task(
        project=str(created.get("project", "")), text=str(created.get("user_message", "")), inputs=inputs, parent=parent
    )


def _output(row: Mapping[str, Any]) -> Output:
    return Output(
        run_id=row["run_id"],
        execution_id=row["execution_id"],
        project=row["project"],
        tool=row["tool"],
        tool_version=row["tool_version"],
        step=row["step"],
        fact=json.loads(row["fact"]) if row["fact"] else {},
    )


def unread(outputs: Sequence[Output]) -> bool:
    """Say whether a page was full, so that there may be more."""
    return len(outputs) >= PAGE
