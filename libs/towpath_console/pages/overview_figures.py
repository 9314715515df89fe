"""What the first page counts: runs by status, what waits, what is spent, what was refused, and what lies in queues.

Each figure leads to the list that it counts. Runs are counted in the newest page of their list, so that no table is
read for it; where that does not reach back a day, the page says how far it does.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

from towpath_console.text import STATUS_SIGNS, STATUS_TONES, as_time, count

DAY = timedelta(days=1)
STATUSES = ("running", "waiting", "completed", "failed")
RARE = ("queued", "cancelling", "quarantined", "timed_out", "escalated", "abandoned", "cancelled")
"""Statuses that are shown where there is a run of them."""

MICROS = 1_000_000


class Figure(NamedTuple):
    """One number: what it counts, its value as it is shown, a word beside it, and the list that it leads to."""

    name: str
    value: str
    beside: str
    page: str
    sign: str = ""
    tone: str = ""


class RunFigures(NamedTuple):
    """Runs of the last day by status; `since` is how far back they reach where that is less."""

    figures: list[Figure]
    since: str | None


def run_figures(runs: Sequence[Mapping[str, Any]], now: datetime, *, has_older: bool) -> RunFigures:
    """Count the *runs* of the last day, which are the newest ones."""
    recent = [run for run in runs if (at := as_time(run["created_at"])) is not None and now - at < DAY]
    by_status = Counter(str(run["status"]) for run in recent)
    shown = [word for word in (*STATUSES, *RARE) if word in STATUSES or by_status[word]]
    figures = [
        Figure(
            word.replace("_", " ").capitalize(), count(by_status[word]), "", f"/runs?{urlencode({'status': word})}",
            STATUS_SIGNS.get(word, "·"), STATUS_TONES.get(word, "mute") if by_status[word] else "mute",
        )
        for word in shown
    ]  # fmt: skip
    is_cut = has_older and len(recent) == len(runs)
    return RunFigures(figures, str(runs[-1]["created_at"]) if is_cut else None)


def platform_figures(found: Mapping[str, Mapping[str, Any]], waiting: str) -> list[Figure]:
    """Return the figures beside runs; what the caller may not read, and what is zero where zero is normal, is left out.

    *found* is what the API said: gates, costs, budgets, statistics, letters and samples; *waiting* how many wait.
    """
    figures = []
    if found["gates"]:
        figures.append(Figure("Waits for people", waiting, "", "/approvals", tone="warn" if waiting != "0" else "mute"))
    if found["costs"]:
        figures.append(_spent(found["costs"], found["budgets"].get("accounts") or ()))
    total = found["statistics"].get("total")
    if total:
        refused = total["denied"] + total["refused"]
        beside = f"by policy {count(total['denied'])}, by people {count(total['refused'])}" if refused else ""
        page = "/audit?verdict=deny" if total["denied"] or not refused else "/approvals?status=denied"
        figures += [
            Figure("Refused calls", count(refused), beside, page, tone="warn" if refused else "mute"),
            Figure("Failed calls", count(total["failed"]), f"of {count(total['allowed'])} allowed", "/tools"),
        ]
    letters = found["letters"].get("letters") or ()
    if letters:
        value = f"{len(letters)}{'+' if found['letters'].get('next_before') else ''}"
        figures.append(Figure("Dead letters", value, "could not be handled", "/queues", "✕", "bad"))
    samples = found["samples"].get("samples") or ()
    waits = samples[-1]["waits"] if samples else 0
    if waits:
        figures.append(Figure("Calls in queues", count(waits), "wait for a worker", "/queues", tone="warn"))
    return figures


def _spent(costs: Mapping[str, Any], accounts: Sequence[Mapping[str, Any]]) -> Figure:
    """Return what was spent today (UTC), beside the project's limit of a day where there is one."""
    usd = sum(day["usd"] for day in costs["days"])
    limit = next((found for account in accounts if (found := _limit_of(account))), None)
    share = usd * MICROS / limit if limit else 0.0
    beside = f"of ${limit / MICROS:,.2f}" if limit else "no daily limit"
    tone = "bad" if share >= 1 else "warn" if share >= 0.8 else ""
    return Figure(
        "Spent today", f"${usd:,.2f}" if usd >= 1 or not usd else f"${usd:.4f}", beside, "/costs?since=1d", tone=tone
    )


def _limit_of(account: Mapping[str, Any]) -> int | None:
    if account["scope"] != "day" or account["key"].split("/")[1:2] != ["project"]:
        return None
    limits = [unit["limit"] for unit in account["units"] if unit["unit"] == "usd_micros"]
    return limits[0] if limits else None
