"""The first page: what runs, what waits for a person and why, what it cost, what was denied; and a box to try it."""

from collections.abc import Mapping
from typing import Any

from towpath_console.page import ActionRoute, Asked, Done, Page, PageRoute
from towpath_console.pages.shared import if_allowed, together

RECENT = 8
REFRESH_S = 2.0
STATUSES = ("running", "waiting", "failed", "completed")


async def overview(asked: Asked) -> Page:
    """Make the first page."""
    api = asked.api
    found = await together(
        runs=api.get("/v1/runs", limit=RECENT, depth=0),
        gates=if_allowed(api.get("/v1/gates", status="pending", limit=RECENT)),
        statistics=if_allowed(api.get("/v1/statistics")),
        networks=if_allowed(api.get("/v1/networks")),
        budgets=if_allowed(api.get("/v1/budgets", limit=RECENT)),
    )
    networks = [network["name"] for network in found["networks"].get("networks", ())]
    view = {
        "runs": found["runs"]["runs"],
        "gates": found["gates"].get("gates", ()),
        "total": found["statistics"].get("total"),
        "tools": found["statistics"].get("rows", ())[:RECENT],
        "networks": networks,
        "accounts": found["budgets"].get("accounts", ()),
        "samples": SAMPLES,
    }
    return Page("Overview", "overview.html", found, view, REFRESH_S)


SAMPLES: Mapping[str, str] = {"support": "Refund order 8812"}
"""What the box says at first, for networks that come with the platform."""


async def start_run(asked: Asked, form: Mapping[str, str]) -> Done:
    """Submit the task of the box, and go to its run."""
    task: dict[str, Any] = {"network": form.get("network", ""), "user_message": form.get("message", "")}
    if form.get("model"):
        task["model"] = form["model"]
    accepted = await asked.api.post("/v1/runs", task)
    return Done(f"/runs/{accepted['run_id']}", "The run was accepted.")


PAGES = (PageRoute("/", overview, "/"),)
ACTIONS = (ActionRoute("/runs", start_run),)
