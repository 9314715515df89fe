"""What a child reports to its parent, and when: its end, that it waits for people, that it goes on.

A report may be lost: a parent asks again, and the answer is made from the child's row.
"""

import json
from collections.abc import Mapping
from typing import Any

from towpath_contracts.decisions.request import Cost, Usage
from towpath_contracts.events import log as ev
from towpath_contracts.facts import CancelRequestedFact, ChildReportedFact
from towpath_contracts.runs.children import AskChildStatus
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_engine.handlers.children import UNREADABLE, is_over
from towpath_engine.reducers.references import inline_or_reference
from towpath_engine.state.run import Status
from towpath_orchestrator.core.transitions import Transition

CANCELLING = "cancelling"
GONE_SEQ = 2**31 - 1
REPORTED_STATUSES = frozenset({Status.RUNNING, Status.WAITING})


def has_news_for_parent(transition: Transition) -> bool:
    """Return whether a child has something to report: it has ended, or it waits for people, or goes on."""
    before, state = transition.before, transition.state
    if state.created.parent is None or before is None:
        return False
    if state.is_final:
        return any(isinstance(entry.event, ev.RunFinished) for entry in transition.entries)
    if state.status is Status.QUARANTINED:
        return before.status is not Status.QUARANTINED
    return before.status is not state.status and {before.status, state.status} <= REPORTED_STATUSES


def answer_parent(
    request: AskChildStatus, row: Mapping[str, Any] | None
) -> list[ChildReportedFact | CancelRequestedFact]:
    """Return the facts, to the child and to the parent, that answer a parent's question from the child's *row*."""
    if row is None:  # it was created in the transition that made its parent ask: somebody has deleted it
        return [_gone(request)]
    facts: list[ChildReportedFact | CancelRequestedFact] = []
    if request.cancel and row["status"] not in FINAL_STATUSES and row["status"] != CANCELLING:
        by = f"run {request.run_id}"
        facts.append(CancelRequestedFact(run_id=request.child_id, by=by, reason=request.reason, in_answer=True))
    stoppable = row["status"] == Status.QUARANTINED and row["reason"] != UNREADABLE
    if not (request.cancel and stoppable):  # else the report of its own end, which the cancel brings, is what counts
        facts.append(_report(request, row))
    return facts


def _gone(request: AskChildStatus) -> ChildReportedFact:
    return ChildReportedFact(
        run_id=request.run_id,
        child_id=request.child_id,
        child_seq=GONE_SEQ,
        status=str(Status.FAILED),
        ended=True,
        reason="child_gone",
    )


def _report(request: AskChildStatus, row: Mapping[str, Any]) -> ChildReportedFact:
    outcome = json.loads(row["outcome"]) if row["outcome"] else {}
    return ChildReportedFact(
        run_id=request.run_id,
        fact_id=f"{request.child_id}:{row['seq']}",
        child_id=request.child_id,
        child_seq=row["seq"],
        status=row["status"],
        ended=is_over(row["status"]),
        reason=row["reason"],
        final=inline_or_reference(outcome.get("final")),
        usage=Usage.model_validate(outcome.get("usage") or {}),
        cost=Cost.model_validate(outcome.get("cost") or {}),
        below=Cost.model_validate(outcome["below"]) if "below" in outcome else None,
        usage_below=Usage.model_validate(outcome["usage_below"]) if "usage_below" in outcome else None,
        cursors=outcome.get("cursors") or {},
        worked=tuple(outcome.get("worked") or ()),
    )
