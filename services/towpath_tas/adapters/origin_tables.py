"""Reads what a run has seen: its task as it was submitted, and what its earlier calls returned.

This comes from the ledger and the run's own log, never from claims of a model or a worker about where a value is from.
What can't be read is left out and counts as not seen.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from towpath_contracts.decisions.attachments import is_text_type
from towpath_contracts.tools.calls import CallStatus, EffectClass
from towpath_contracts.tools.internal_tools import PLATFORM_TOOLSET
from towpath_fabric.postgres.pinned_connection import PinnedDatabaseConnection
from towpath_fabric.postgres.pool import Queries

QUERIES = Queries.load("towpath_tas.adapters", "origins.sql")

PAGE_SIZE = 500
"""Calls of one run that are read at once."""

SUMMARY = "summary"
"""Stands for the run of an answer that is made of several."""

AFTER_ALL = 2**31 - 1
"""A step behind all of a run: one that continues it may know everything of it."""

MAX_BLOB_BYTES = 1_048_576
"""Only the beginning of a larger result is read."""

QuerySource = PinnedDatabaseConnection | Any
"""A connection or a pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInputs:
    """What a run begins with: texts, inputs by name, and texts that the caller quotes.

    No caller wrote the task of a `born` run (a child), but what is quoted, what was `answered` earlier in the
    conversation, and what is attached, is the same in all runs below it. What users said there stands among the texts.
    Of what is attached `documents` are the texts, by digest; `unreadable`: an image or a PDF is shown too.

    `parent` is the run that it is a child or fork of, or `continues`, with the first step of that run which it does not
    know. A `composed` run (a plan or workflow) passes earlier answers on to its children.
    """

    project: str
    texts: tuple[str, ...]
    inputs: Mapping[str, Any]
    quoted: tuple[str, ...] = ()
    answered: tuple[tuple[str, str], ...] = ()
    documents: tuple[str, ...] = ()
    unreadable: bool = False
    parent: tuple[UUID, int] | None = None
    born: bool = False
    continues: bool = False
    composed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutput:
    """One call: the arguments that its model gave, as JSON, and where it has `ended` the fact that its run received.

    `ran_args` are those that it ran with: a person may have edited them. `chars` is the length of that fact. What an
    `internal` call returns is read from the run's log, as its row may have it later.
    """

    run_id: UUID
    execution_id: UUID
    project: str
    tool: str
    tool_version: int
    step: int
    args: str
    ran_args: str
    reads: bool
    internal: bool
    ended: bool
    fact: Mapping[str, Any]
    chars: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEvent:
    """One event of a run's log about an answer; `chars` is its length."""

    run_id: UUID
    seq: int
    event: Mapping[str, Any]
    chars: int


class RunOutputs(NamedTuple):
    """What is new of some runs: calls, and events about answers in the order of each log."""

    calls: list[CallOutput]
    logged: list[LoggedEvent]

    @property
    def is_full(self) -> bool:
        """Whether a page is full, so that there may be more."""
        return max(len(self.calls), len(self.logged)) >= PAGE_SIZE


async def read_tasks(source: QuerySource, runs: Collection[UUID]) -> dict[UUID, RunInputs]:
    """Read the tasks of *runs*; unknown runs are left out."""
    rows = await source.fetch(QUERIES.read_tasks, list(runs))
    return {row["run_id"]: _task(json.loads(row["created"])) for row in rows}


async def read_outputs(source: QuerySource, runs: Mapping[UUID, int | None], known: Collection[UUID]) -> RunOutputs:
    """Read the calls of *runs* that were let through, or denied, except those *known*; at most `PAGE_SIZE` per run.

    With them the events about answers behind the given place of each log, as many; of a run without a place none.
    """
    rows = await source.fetch(QUERIES.read_outputs, list(runs), list(known), PAGE_SIZE, list(runs.values()))
    return RunOutputs(
        calls=[_output(row) for row in rows if row["seq"] is None],
        logged=[_logged(row) for row in rows if row["seq"] is not None],
    )


async def read_spec(source: QuerySource, project: str, tool: str, version: int) -> Mapping[str, Any]:
    """Read the definition of a tool in the version of a call; empty if unknown."""
    row = await source.fetchrow(QUERIES.spec_of, project, tool, version)
    found: Mapping[str, Any] = json.loads(row["spec"]) if row is not None else {}
    return found


async def read_blob(source: QuerySource, project: str, digest: str) -> tuple[bytes, bool]:
    """Read the beginning of a large result, and whether that is all of it."""
    if "\0" in digest:  # no text of Postgres has that, and the calls of others are read in the same pass
        return b"", False
    row = await source.fetchrow(QUERIES.head_of_blob, project, digest, MAX_BLOB_BYTES)
    if row is None:
        return b"", False
    return bytes(row["head"]), row["size"] <= MAX_BLOB_BYTES


def _answers(turns: Sequence[Mapping[str, Any]], otherwise: str) -> list[tuple[str, str]]:
    """Return what was not said by users, each with the run that said it; *otherwise* stands where a turn names none."""
    return [(str(turn.get("run_id") or otherwise), str(turn["content"])) for turn in turns if turn["role"] != "user"]


def _task(created: Mapping[str, Any]) -> RunInputs:
    inputs = {**(created.get("labels") or {}), **(created.get("system_params") or {})}
    goal, background = created.get("goal") or {}, created.get("background") or {}
    continued = created.get("continues") or {}
    left_out = continued.get("to_summarize") or ()
    turns = [*(created.get("messages") or ()), *left_out]
    summary = [(SUMMARY, str(continued["summary"]))] if continued.get("summary") else []
    said = [turn["content"] for turn in turns if turn["role"] == "user"]
    attached = _attached(created)
    texts = (created.get("user_message"), goal.get("goal"), background.get("objective"), *_strings(created.get("plan")))
    texts += tuple(said)
    return RunInputs(
        project=str(created.get("project", "")),
        texts=tuple(dict.fromkeys(str(text) for text in texts if text)),
        inputs=inputs,
        quoted=tuple(map(str, (created.get("quoted_inputs") or {}).values())),
        answered=(*_answers(created.get("messages") or (), ""), *_answers(left_out, SUMMARY), *summary),
        documents=tuple(dict.fromkeys(str(one.get("digest")) for one in attached if _is_text(one))),
        unreadable=not all(map(_is_text, attached)),
        parent=_parent_of(created),
        born=bool(created.get("parent")),
        continues=bool(created.get("continues")) and not (created.get("parent") or created.get("forked_from")),
        composed=_is_composed(created),
    )


def _attached(created: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what is shown of the files of the task and of its earlier turns."""
    turns = [turn.get("attachments") or () for turn in created.get("messages") or ()]
    every = (created.get("attachments") or (), *turns)
    return [one for attached in every for one in attached if one.get("shown", True)]


def _is_text(attached: Mapping[str, Any]) -> bool:
    return is_text_type(str(attached.get("media_type")))


def _is_composed(created: Mapping[str, Any]) -> bool:
    within = (created.get("swarm") or {}).get("swarm") or {}
    return created.get("kind") == "plan" or within.get("mode") == "workflow"


def _strings(written: Any) -> Iterator[str]:
    """Return every text of a plan: its caller wrote all of it, as prompts of its steps or values for them."""
    waiting = [written]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += reversed(list(value.values()))
        elif isinstance(value, list):
            waiting += reversed(value)


def _parent_of(created: Mapping[str, Any]) -> tuple[UUID, int] | None:
    forked, born = created.get("forked_from"), created.get("parent")
    if forked:
        return UUID(forked["run_id"]), int(forked["step"])
    # A child is created after the calls of its parent's step have ended: it may know their results.
    if born:
        return UUID(born["run_id"]), int(born["step"]) + 1
    continued = created.get("continues")
    return (UUID(continued["run_id"]), AFTER_ALL) if continued else None


def _output(row: Mapping[str, Any]) -> CallOutput:
    return CallOutput(
        run_id=row["run_id"],
        execution_id=row["execution_id"],
        project=row["project"],
        tool=row["tool"],
        tool_version=row["tool_version"],
        step=row["step"],
        args=row["args"],
        ran_args=row["edited_args"] or row["args"],
        reads=row["effect_class"] == EffectClass.PURE,
        internal=row["toolset"] == PLATFORM_TOOLSET,
        ended=row["status"] in {CallStatus.SUCCEEDED, CallStatus.FAILED, CallStatus.DENIED},
        fact=json.loads(row["fact"]) if row["fact"] else {},
        chars=len(row["fact"] or ""),
    )


def _logged(row: Mapping[str, Any]) -> LoggedEvent:
    text = row["fact"]
    return LoggedEvent(run_id=row["run_id"], seq=row["seq"], event=json.loads(text), chars=len(text))
