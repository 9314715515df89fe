"""The list of runs: filters that live in the address, views of it that a browser keeps, and cancelling many at once.

What is cancelled is what the confirmation listed, run by run: none that began to match in the meantime.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from towpath_console.api import VIEWS_COOKIE, Api, ApiRefusalError
from towpath_console.page import ActionRoute, Asked, Done, Page, PageRoute
from towpath_console.pages.names import list_of_runs
from towpath_console.pages.runs.history import require_run_id
from towpath_console.pages.runs.saved_views import read_views, with_view, without_view
from towpath_console.pages.shared import chosen, if_allowed, together

LIMIT = 50
REFRESH_S = 2.0
FILTERS = ("status", "network", "label", "kind", "parent_run_id", "root_run_id", "thread_id", "before")
STATUSES = (
    *("queued", "running", "waiting", "cancelling", "quarantined"),
    *("completed", "failed", "escalated", "timed_out", "abandoned", "cancelled"),
)
KINDS = ("network", "swarm", "goal", "background", "plan")
LIVE = ("queued", "running", "waiting", "quarantined")
"""Statuses of runs that can be cancelled."""

MOST_CANCELLED = 500
PAGE = 200
AT_ONCE = 8


async def runs(asked: Asked) -> Page:
    """Make the list that the query asks for."""
    wanted = chosen(asked.query, *FILTERS)
    found = await together(
        runs=asked.api.get("/v1/runs", limit=LIMIT, depth=_depth(wanted), **wanted),
        networks=if_allowed(asked.api.get("/v1/networks")),
    )
    filters = {name: value for name, value in wanted.items() if value and name != "before"}
    view = {
        "runs": found["runs"]["runs"],
        "next_before": found["runs"].get("next_before"),
        "networks": [network["name"] for network in found["networks"].get("networks", ())],
        "statuses": STATUSES,
        "kinds": KINDS,
        "filters": filters,
        "others": {
            name: value for name, value in filters.items() if name not in ("status", "network", "label", "kind")
        },
        "views": [(name, urlencode(kept)) for name, kept in read_views(asked.api, FILTERS).items()],
        "here": urlencode(filters),
        "cancellable": not filters.get("status") or filters["status"] in LIVE,
    }
    return Page("Runs", "runs.html", found["runs"], view, None if wanted.get("before") else REFRESH_S)


async def keep_view(asked: Asked, form: Mapping[str, str]) -> Done:
    """Keep the filters of a list in this browser, or forget them, under a name."""
    kept = {name: form[name] for name in FILTERS if form.get(name) and name != "before"}
    name = form.get("name", "").strip()
    if form.get("forget"):
        return Done(
            "/runs", "The view was forgotten.", {VIEWS_COOKIE: without_view(asked.api, FILTERS, form["forget"])}
        )
    cookie = with_view(asked.api, FILTERS, name, kept)
    return Done(f"/runs?{urlencode(kept)}", f"The view {name} is kept in this browser.", {VIEWS_COOKIE: cookie})


async def confirm_cancel(asked: Asked) -> Page:
    """Make the page that counts and lists what would be cancelled; nothing is changed by it."""
    wanted = chosen(asked.query, *FILTERS)
    listed, whole = await _live_runs(asked.api, wanted)
    filters = {name: value for name, value in wanted.items() if value}
    data = {"filters": filters, "count": len(listed), "whole": whole, "runs": [run["run_id"] for run in listed]}
    view = {
        "filters": filters,
        "runs": listed[:20],
        "count": len(listed),
        "whole": whole,
        "most": MOST_CANCELLED,
        "ids": ",".join(run["run_id"] for run in listed),
        "counts": sorted(Counter(run["status"] for run in listed).items()),
        "back": f"/runs?{urlencode(filters)}",
    }
    return Page("Cancel runs", "runs_cancel.html", data, view)


async def cancel_many(asked: Asked, form: Mapping[str, str]) -> Done:
    """Cancel the runs that were confirmed, a few at a time, and say what became of it."""
    ids = [one for one in form.get("ids", "").split(",") if one][:MOST_CANCELLED]
    body = {"reason": form["reason"]} if form.get("reason") else None
    gate = asyncio.Semaphore(AT_ONCE)

    async def cancel(run_id: str) -> str:
        async with gate:
            try:
                await asked.api.post(f"/v1/runs/{run_id}/cancel", body)
            except ApiRefusalError as error:
                if error.status in (401, 403):
                    raise
                return str(error.problem.get("code") or error.status)
        return ""

    for one in ids:
        require_run_id(one)
    codes = Counter(await asyncio.gather(*map(cancel, ids)))
    done = codes.pop("", 0)
    ended = codes.pop("run_finished", 0)
    said = [f"{done} of {len(ids)} runs are being cancelled."]
    said += [f"{ended} had ended already."] if ended else []
    said += [f"{number} refused: {code}." for code, number in sorted(codes.items())]
    return Done(list_of_runs(form.get("back", "")), " ".join(said))


def _depth(wanted: Mapping[str, str | None]) -> int | None:
    return None if {"parent_run_id", "root_run_id"} & wanted.keys() else 0


async def _live_runs(api: Api, wanted: Mapping[str, str | None]) -> tuple[list[dict[str, Any]], bool]:
    """Return the runs of a list that have not ended, at most MOST_CANCELLED, and whether these are all."""
    status = wanted.get("status")
    listed: list[dict[str, Any]] = []
    for one in (status,) if status else LIVE:
        before = wanted.get("before")
        while one in LIVE:
            room = min(PAGE, MOST_CANCELLED - len(listed))
            if room == 0:
                return listed, False
            asked = {**wanted, "status": one, "before": before}
            found = await api.get("/v1/runs", limit=room, depth=_depth(wanted), **asked)
            listed += found["runs"]
            before = found.get("next_before")
            if before is None:
                break
    return listed, True


PAGES = (
    PageRoute("/runs", runs, "/runs"),
    PageRoute("/runs/cancel", confirm_cancel, "/runs"),
)
ACTIONS = (
    ActionRoute("/runs/cancel", cancel_many, "runs:write"),
    ActionRoute("/runs/views", keep_view, ""),
)
