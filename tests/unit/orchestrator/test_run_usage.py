"""What a run's reader gets of its usage: the sum once it has ended, and no number before."""

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from towpath_contracts.decisions.request import Cost, Usage
from towpath_contracts.runs.tree import tree_of
from towpath_orchestrator.app.api.run_views import view

RUN = UUID("01930000-0000-7000-8000-000000000001")
TEXTS = ("project", "kind", "network", "snapshot_digest", "status", "reason", "caller", "agent_key", "user_message")


def _row(outcome: Any) -> dict[str, Any]:
    numbers = dict.fromkeys(("version", "step", "max_steps", "seq", "depth"), 1)
    ids = ("parent_run_id", "root_run_id", "trace_id", "continues", "thread_id")
    empty = dict.fromkeys(("started_at", "ended_at", "erased_at", *ids))
    at = datetime(2026, 1, 1, tzinfo=UTC)
    fields = {"run_id": RUN, "labels": "{}", "created_at": at, "debug": False, "outcome": outcome, "calls": "{}"}
    return {**dict.fromkeys(TEXTS, "x"), **numbers, **empty, **fields}


def test_the_usage_of_an_unfinished_run_is_no_zero() -> None:
    live = view(_row(None))
    assert (live.usage, live.cost) == (None, None)
    node = tree_of([live])
    assert (node.usage, node.cost) == (None, None)


def test_the_usage_of_a_run_that_has_ended_is_reported() -> None:
    spent, cost = Usage(model_calls=2, total_tokens=7), Cost(usd=0.5)
    fields = {"usage": spent.model_dump(mode="json"), "cost": cost.model_dump(mode="json")}
    ended = view(_row(json.dumps(fields)))
    assert (ended.usage, ended.cost) == (spent, cost) == (tree_of([ended]).usage, tree_of([ended]).cost)
