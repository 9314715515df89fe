"""The list of runs, with filters that live in the address."""

from towpath_console.page import Asked, Page, PageRoute
from towpath_console.pages.shared import chosen, if_allowed, together

LIMIT = 50
REFRESH_S = 2.0
FILTERS = ("status", "network", "label", "kind", "parent_run_id", "root_run_id", "thread_id", "before")
STATUSES = ("accepted", "running", "waiting", "paused", "completed", "failed", "cancelled")


async def runs(asked: Asked) -> Page:
    """Make the list that the query asks for."""
    wanted = chosen(asked.query, *FILTERS)
    depth = None if {"parent_run_id", "root_run_id"} & wanted.keys() else 0
    found = await together(
        runs=asked.api.get("/v1/runs", limit=LIMIT, depth=depth, **wanted),
        networks=if_allowed(asked.api.get("/v1/networks")),
    )
    view = {
        "runs": found["runs"]["runs"],
        "next_before": found["runs"].get("next_before"),
        "networks": [network["name"] for network in found["networks"].get("networks", ())],
        "statuses": STATUSES,
        "filters": {name: value for name, value in wanted.items() if value},
    }
    return Page("Runs", "runs.html", found["runs"], view, None if wanted.get("before") else REFRESH_S)


PAGES = (PageRoute("/runs", runs, "/runs"),)
