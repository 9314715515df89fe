"""Makes the views of runs out of their rows. Of many runs the outcomes are read apart: few at once, with pauses.

An outcome holds the whole answer of a run, which may be tens of thousands of values, and a list or a tree has hundreds
of runs. So no more of them is held than OUTCOME_BYTES, and after each long one others have as much time as it took.
"""

import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.request import Cost, Usage
from towpath_contracts.runs.views import CallCounts, RunView
from towpath_contracts.text import truncate
from towpath_engine.reducers.budget import sum_costs, sum_usages
from towpath_fabric.ports import Database
from towpath_fabric.turns.work_turns import WorkTurns
from towpath_orchestrator.adapters.run_store import LONG_CHARS, QUERIES

MESSAGE_CHARS = 500
"""Of the words of a run's end, in lists too."""

BRIEF_BYTES = 4_096
"""In lists, an answer longer than this is left out; the run itself has it."""

OUTCOME_BYTES = 4_000_000
"""Of outcomes that are read at once for a list or a tree."""

SHORT_BYTES = 64 * 1024
"""Rows whose outcomes have no more together need no turn."""

WAIT_S = 5.0
"""How long a turn is waited for: as long as who asks waits for an answer."""


class ListedRuns:
    """Makes the views of lists and trees; those with long answers one after the other, in turns of their projects."""

    def __init__(self, pool: Database) -> None:
        self._pool = pool
        self._turns = WorkTurns(1, lambda _: 1, WAIT_S)

    async def views(self, project: str, rows: Sequence[Any]) -> list[RunView]:
        """Return the views of *rows*, which have `outcome_bytes` in the place of an outcome, as a list shows them."""
        if sum(row["outcome_bytes"] or 0 for row in rows) <= SHORT_BYTES:
            return await self._views(rows)
        async with self._turns.held(project):
            return await self._views(rows)

    async def _views(self, rows: Sequence[Any]) -> list[RunView]:
        views: list[RunView] = []
        for few in _few(rows):
            found = await self._pool.fetch(QUERIES.outcomes, [row["run_id"] for row in few if row["outcome_bytes"]])
            outcomes: dict[Any, str] = {row["run_id"]: row["outcome"] for row in found}
            for row in few:
                text = outcomes.get(row["run_id"])
                began = time.thread_time()
                views.append(_brief(row, text))
                if len(text or "") > LONG_CHARS:
                    await asyncio.sleep(time.thread_time() - began)
        return views


def _few(rows: Sequence[Any]) -> Iterator[list[Any]]:
    """Give *rows* in order, so many at once as have outcomes of OUTCOME_BYTES together; at least one."""
    few: list[Any] = []
    size = 0
    for row in rows:
        size += row["outcome_bytes"] or 0
        if few and size > OUTCOME_BYTES:
            yield few
            few, size = [], row["outcome_bytes"] or 0
        few.append(row)
    if few:
        yield few


def view(row: Any) -> RunView:
    """Turn a run row into what its reader sees."""
    return _view(row, row["outcome"])


def _brief(row: Any, text: str | None) -> RunView:
    """Turn a run row into a row of a list: without the last output, and without a long answer."""
    return _view(row, text, final_bytes=BRIEF_BYTES).model_copy(update={"last_output": None})


def _view(row: Any, text: str | None, final_bytes: int | None = None) -> RunView:
    """Return the view of a row and the *text* of its outcome, whose values are left out of more than *final_bytes*."""
    outcome: dict[str, Any] = json.loads(text) if text is not None else {}
    spent = spent_by(outcome) if outcome else {}
    is_short = final_bytes is None or len(text or "") <= final_bytes
    return RunView(
        run_id=row["run_id"],
        project=row["project"],
        kind=row["kind"],
        network=row["network"],
        version=row["version"],
        snapshot_digest=row["snapshot_digest"],
        status=row["status"],
        reason=row["reason"],
        message=_message(outcome.get("final")),
        caller=row["caller"],
        agent_key=row["agent_key"],
        user_message=row["user_message"],
        step=row["step"],
        max_steps=row["max_steps"],
        seq=row["seq"],
        labels=json.loads(row["labels"]),
        created_at=row["created_at"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        final=outcome.get("final") if is_short else None,
        last_output=outcome.get("last_output") if is_short else None,
        **spent,
        trace_id=(row["trace_id"] or row["root_run_id"] or row["run_id"]).hex,
        debug=row["debug"],
        parent_run_id=row["parent_run_id"],
        root_run_id=row["root_run_id"],
        depth=row["depth"],
        thread_id=row["thread_id"] or (None if row["depth"] else row["run_id"]),
        previous_run_id=row["continues"],
        calls=CallCounts.model_validate_json(row["calls"]),
        erased_at=row["erased_at"],
    )


def spent_by(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that tell what a run used, by its stored *outcome*: alone, and with every run below it.

    What children used stands there as the log of their parent counts it, so no other row is read for a sum. One price
    that is unknown makes the sum of the tree unknown.
    """
    usage, cost = Usage.model_validate(outcome.get("usage", {})), Cost.model_validate(outcome.get("cost", {}))
    below = Cost.model_validate(outcome["below"]) if "below" in outcome else None
    tree_usage = sum_usages(usage, Usage.model_validate(outcome.get("usage_below", {})))
    return {"usage": usage, "cost": cost, "tree_usage": tree_usage, "tree_cost": sum_costs(cost, below)}


def _message(final: JsonObject | None) -> str:
    """Return why a run did not complete, in words; nothing of one that did, or goes on."""
    if final is None or final.get("status") != "error":
        return ""
    return truncate(str(final.get("message", "")), MESSAGE_CHARS)
