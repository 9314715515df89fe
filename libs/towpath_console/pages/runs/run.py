"""One run: its answer, what it waits for, what it may still spend, and its steps on a timeline."""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from towpath_console.drawings.timeline import TimelineRow, timeline
from towpath_console.page import Asked, Page, PageRoute
from towpath_console.pages.runs.history import HistoryPart, Step, error_of, read_steps, what_of
from towpath_console.pages.runs.run_end import end_of
from towpath_console.pages.shared import if_allowed, together
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.text import unwrap_message

STEPS_SHOWN = 100
MOST_STEPS = 1_000
"""As many as a run may take; a filter looks through all of them."""

PAUSED = "run_paused:"
"""How the wait of a pause begins, which also runs have that wait for something else."""

MOVING_S = 0.7
WAITING_S = 2.0
SHOWS = {"": "all steps", "failed": "failed only", "open": "not done"}
ATTEMPTS = {"": "any attempt", "first": "first attempts", "repeated": "repeated ones"}
UNITS = {"usd_micros": "Money", "tokens": "Tokens", "model_calls": "Model calls", "tool_calls": "Tool calls"}


async def run_timeline(asked: Asked) -> Page:
    """Make the page of a run: of a long one the steps around `from`, or its last ones."""
    api, run_id = asked.api, asked.path["run_id"]
    found = await together(
        run=api.get(f"/v1/runs/{run_id}"),
        gates=if_allowed(api.get("/v1/gates", status="pending", run_id=run_id, paused="false")),
        budgets=if_allowed(api.get("/v1/budgets", run_id=run_id)),
    )
    run = found["run"]
    show, attempt = asked.query.get("show", ""), asked.query.get("attempt", "")
    filtered = bool(show or attempt)
    looked_at = 0
    last_start = 0 if filtered else max(0, run["step"] - STEPS_SHOWN)
    start = max(0, _number(asked.query.get("from"), last_start + 1) - 1)
    if filtered:
        whole = await read_steps(api, run_id, -1, MOST_STEPS)
        chosen = [step for step in whole.steps if _is_shown(step, show, attempt)]
        part = whole._replace(steps=chosen[start : start + STEPS_SHOWN])
        number = len(chosen)
        looked_at = 0 if whole.whole else len(whole.steps)
    else:
        part = await read_steps(api, run_id, start or -1, STEPS_SHOWN)
        number = run["step"]
    rows = [_row(step) for step in part.steps]
    view = run_view(run, "timeline") | {
        "gates": (gates := found["gates"].get("gates", ())),
        "waits": [wait for wait in run.get("waits") or () if not gates or wait.startswith(PAUSED)],
        "rows": rows,
        "timeline": timeline(rows),
        "answer": answer_of(run),
        "end": end_of(run, rows),
        "budgets": list(_budgets(found["budgets"].get("accounts") or ())),
        "filtered": filtered,
        "looked_at": looked_at,
        "show": show,
        "attempt": attempt,
        "shows": list(SHOWS.items()),
        "attempts": list(ATTEMPTS.items()),
        "chosen": f"{SHOWS.get(show, show)}, {ATTEMPTS.get(attempt, attempt)}",
        "pager": _pager(start, len(rows), number) if filtered else _pager_of_steps(start, rows, part, number),
    }
    data = {"steps": part.steps, **found}
    return Page(f"Run {run_id[:8]}", "run.html", data, view, refresh_of(run, part.seq))


def run_view(run: Mapping[str, Any], tab: str) -> dict[str, Any]:
    """Return what every page of a run shows around its own part."""
    status = run["status"]
    paused = any(wait.startswith(PAUSED) for wait in run.get("waits") or ())
    state = "ended" if status in FINAL_STATUSES else "paused" if paused else "moving"
    return {"run": run, "tab": tab, "state": state, "copies": copies_of(run)}


def refresh_of(run: Mapping[str, Any], seq: int | None = None) -> float | None:
    """Return how often the page of a run is looked at again; *seq* is how far the history that it shows has come.

    The last steps of a run may reach history after its end.
    """
    if run["status"] in FINAL_STATUSES and (seq is None or seq >= run["seq"]):
        return None
    return WAITING_S if run["status"] == "waiting" else MOVING_S


def answer_of(run: Mapping[str, Any]) -> Any:
    """Return what a run answered: its message where it has one; of a run that failed nothing."""
    final = run.get("final")
    if isinstance(final, dict) and final.get("status") == "error" and run["status"] in FINAL_STATUSES - {"completed"}:
        return None
    return unwrap_message(final)


def copies_of(run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return commands that look at a run, and that start its like, each with what it does."""
    run_id, task = run["run_id"], {"network": run["network"], "user_message": run.get("user_message") or ""}
    auth = '--oauth2-bearer "$TOWPATH_API_KEY"'
    body = shlex.quote(json.dumps(task, ensure_ascii=False))
    return [
        ("Follow it", f"towpath runs watch {run_id}"),
        ("Look at it", f"towpath runs show {run_id}"),
        ("The same over HTTP", f'curl {auth} "$TOWPATH_SERVER/v1/runs/{run_id}"'),
        ("Run its task again", f"towpath run {shlex.quote(run['network'])} {shlex.quote(task['user_message'])}"),
        (
            "The same over HTTP",
            f'curl {auth} --header "Content-Type: application/json" "$TOWPATH_SERVER/v1/runs" --data {body}',
        ),
    ]


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 8 else otherwise


def _is_shown(step: Step, show: str, attempt: str) -> bool:
    if show == "failed" and step["success"] is not False:
        return False
    if show == "open" and step["success"] is True:
        return False
    first = (step.get("attempt_number") or 1) <= 1
    return attempt not in ATTEMPTS or not attempt or (attempt == "first") == first


def _row(step: Step) -> TimelineRow:
    return TimelineRow(
        number=step["step_number"],
        agent=step["agent_id"],
        epoch=step["epoch"],
        what=what_of(step),
        start=step["timestamp"],
        end=step["ended_at"],
        good=step["success"],
        error=error_of(step),
        attempt=step.get("attempt_number") or 1,
    )


def _pager(start: int, shown: int, number: int) -> dict[str, Any] | None:
    """Return where the other steps are; None where all are on the page."""
    if not start and shown >= number:
        return None
    first_of_last = max(0, number - STEPS_SHOWN) + 1
    return {
        "first": start + 1,
        "last": start + shown,
        "number": number,
        "earlier": str(max(1, start + 1 - STEPS_SHOWN)) if start else None,
        "later": str(start + shown + 1) if start + shown < number else None,
        "latest": str(first_of_last) if start + shown < number else None,
    }


def _pager_of_steps(start: int, rows: Sequence[TimelineRow], part: HistoryPart, number: int) -> dict[str, Any] | None:
    """Return where the other steps are; a fork has none of its own before the first, and the last may not be told."""
    if not start and part.whole:
        return None
    pager = _pager(start, len(rows), number)
    if pager is None or not rows:
        return pager
    later = None if part.whole else str(rows[-1].number + 1)
    return pager | {
        "first": rows[0].number,
        "last": rows[-1].number,
        "later": later,
        "latest": later and pager["latest"],
    }


def _budgets(accounts: Iterable[Mapping[str, Any]]) -> Iterable[dict[str, Any]]:
    """Yield what is limited: whose, how much of it is spent and reserved, and how much that is of the limit."""
    for account in accounts:
        for balance in account["units"]:
            if balance["limit"] is None:
                continue
            used = balance["spent"] + balance["reserved"]
            share = used / balance["limit"] if balance["limit"] else 1.0
            money = balance["unit"] == "usd_micros"
            yield {
                "scope": account["scope"],
                "key": "" if account["scope"] == "run" else account["key"],
                "name": UNITS.get(balance["unit"], balance["unit"]),
                "used": f"${used / 1e6:,.4f}" if money else f"{used:,}",
                "limit": f"${balance['limit'] / 1e6:,.2f}" if money else f"{balance['limit']:,}",
                "share": min(1.0, share),
                "tone": "bad" if share >= 1 else "warn" if share >= account["soft"] else "good",
                "word": "used up" if share >= 1 else "nearly used up" if share >= account["soft"] else "left",
            }


PAGES = (PageRoute("/runs/{run_id}", run_timeline, "/runs"),)
