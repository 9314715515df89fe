"""Two runs side by side: their steps aligned by agent, action and tools, and what differs in those that are aligned.

Aligned is the longest row of steps that both runs have in the same order; all others are of one run alone.
"""

import json
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from towpath_console.api import Api
from towpath_console.page import Asked, Page, PageRoute
from towpath_console.pages.names import is_uuid
from towpath_console.pages.runs.comparable_runs import comparable_runs
from towpath_console.pages.runs.history import (
    HistoryPart,
    Step,
    action_of,
    read_steps,
    require_run_id,
    sum_of,
    tools_of,
    what_of,
)
from towpath_console.pages.runs.run import answer_of
from towpath_console.pages.shared import together

MOST_STEPS = 300
"""Of each run: aligning takes their product, a tenth of a second here."""

MOST_ROWS = 250
NOTHING = object()
"""Stands for an argument that a step does not have, unlike one that is null."""


class ValueChange(NamedTuple):
    """A value that differs: its name, and what it is in each run; None where a run has no such value."""

    name: str
    a: str | None
    b: str | None


async def compare(asked: Asked) -> Page:
    """Make the page of two runs; with one of them what it may be compared with, without any the form that asks."""
    a, b = asked.query.get("a", "").strip(), asked.query.get("b", "").strip()
    if not (a and b):
        return await _choice(asked.api, a, b)
    require_run_id(a)
    require_run_id(b)
    api = asked.api
    found = await together(a=_read(api, a), b=_read(api, b))
    one, other = found["a"]["part"], found["b"]["part"]
    rows = compared_rows(one, other)
    shown = rows if asked.query.get("show") == "all" else [row for row in rows if row["kind"] != "same"]
    sides = [_side(found[side]["run"], found[side]["part"]) for side in ("a", "b")]
    view = {
        "a": a,
        "b": b,
        "sides": sides,
        "same_answer": sides[0]["answer"] == sides[1]["answer"],
        "rows": shown[:MOST_ROWS],
        "more": max(0, len(shown) - MOST_ROWS),
        "equal": sum(row["kind"] == "same" for row in rows),
        "number": len(rows),
        "whole": one.whole and other.whole,
        "most": MOST_STEPS,
    }
    data = {"a": found["a"]["run"], "b": found["b"]["run"], "rows": rows}
    return Page("Compare two runs", "run_compare.html", data, view)


async def _choice(api: Api, a: str, b: str) -> Page:
    """Make the page that asks for what is missing, with runs to choose from where one of the two is known."""
    suggested: list[dict[str, Any]] = []
    run: dict[str, Any] = {}
    if is_uuid(known := a or b):
        run = await api.get(f"/v1/runs/{known}")
        suggested = await comparable_runs(api, run)
    view = {"a": a, "b": b, "rows": None, "known": run, "suggested": suggested}
    return Page("Compare two runs", "run_compare.html", {"a": a, "b": b, "suggested": suggested}, view)


def aligned(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int | None, int | None]]:
    """Return the places of both in their order: pairs of a longest common subsequence, all others alone."""
    longest = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a) - 1, -1, -1):
        row, below = longest[i], longest[i + 1]
        for j in range(len(b) - 1, -1, -1):
            row[j] = below[j + 1] + 1 if a[i] == b[j] else max(below[j], row[j + 1])
    found: list[tuple[int | None, int | None]] = []
    i = j = 0
    while i < len(a) or j < len(b):
        if i < len(a) and j < len(b) and a[i] == b[j]:
            found.append((i, j))
            i, j = i + 1, j + 1
        elif j == len(b) or (i < len(a) and longest[i + 1][j] >= longest[i][j + 1]):
            found.append((i, None))
            i += 1
        else:
            found.append((None, j))
            j += 1
    return found


def compared_rows(one: HistoryPart, other: HistoryPart) -> list[dict[str, Any]]:
    """Return a row for each step of either run, aligned; `kind` is same, unequal, or the run that it is of alone."""
    pairs = aligned([_key(step) for step in one.steps], [_key(step) for step in other.steps])
    return [_row(one, other, i, j) for i, j in pairs]


async def _read(api: Api, run_id: str) -> dict[str, Any]:
    run = await api.get(f"/v1/runs/{run_id}")
    return {"run": run, "part": await read_steps(api, run_id, -1, MOST_STEPS)}


def _key(step: Step) -> tuple[str, str, tuple[str, ...]]:
    return str(step["agent_id"]), action_of(step)[0], tuple(tools_of(step))


def _side(run: Mapping[str, Any], part: HistoryPart) -> dict[str, Any]:
    return {"run": run, "answer": answer_of(run), "tokens": sum_of(part.steps, "tokens_used")}


def _row(one: HistoryPart, other: HistoryPart, i: int | None, j: int | None) -> dict[str, Any]:
    a = _step(one, i) if i is not None else None
    b = _step(other, j) if j is not None else None
    changes: list[ValueChange] = []
    if a and b:
        names = [*a["values"], *(name for name in b["values"] if name not in a["values"])]
        pairs = ((name, a["values"].get(name, NOTHING), b["values"].get(name, NOTHING)) for name in names)
        changes = [
            ValueChange(name, _said(x), _said(y)) for name, x, y in pairs if x is NOTHING or y is NOTHING or x != y
        ]
    kind = "a" if b is None else "b" if a is None else "unequal" if changes else "same"
    both = {
        side: {key: value for key, value in step.items() if key != "values"}
        for side, step in (("a", a), ("b", b))
        if step
    }
    return {"kind": kind, "changes": [change._asdict() for change in changes], **both}


def _step(part: HistoryPart, place: int) -> dict[str, Any]:
    """Return what is compared of a step: arguments and results of its calls, or what it decided."""
    step = part.steps[place]
    calls = [call for call in part.calls if call["step_number"] == step["step_number"]]
    values: dict[str, Any] = {}
    for call in calls:
        prefix = f"{call['tool']} " if len(calls) > 1 else ""
        args = call["args"] if isinstance(call["args"], dict) else {"arguments": call["args"]}
        values |= {f"{prefix}{name}": value for name, value in args.items()}
        values |= {f"{prefix}status": call["status"], f"{prefix}result": call["result"]}
    if not calls:
        values = dict(action_of(step)[1])
    return {
        "number": step["step_number"],
        "agent": step["agent_id"],
        "what": what_of(step),
        "cost_usd": step.get("cost_usd"),
        "tokens": step.get("tokens_used"),
        "duration_ms": step.get("duration_ms"),
        "values": values,
    }


def _said(value: Any) -> str | None:
    return None if value is NOTHING else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


PAGES = (PageRoute("/runs/compare", compare, "/runs"),)
