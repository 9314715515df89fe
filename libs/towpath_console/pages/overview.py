"""The first page: what runs, what waits for a person and why, what it cost, what was denied; and a box to try it.

What a network lacks is said before a run of it is submitted.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from towpath_console.page import ActionRoute, Asked, Done, Page, PageRoute
from towpath_console.pages.first_steps import SAMPLES, first_steps
from towpath_console.pages.overview_figures import platform_figures, run_figures
from towpath_console.pages.run_readiness import lacks_of
from towpath_console.pages.shared import if_allowed, together
from towpath_console.text import now

RECENT = 8
REFRESH_S = 3.0
COUNTED = 100
"""Runs that are counted by status: one page of the list, read by its index."""

COUNTED_GATES = 30
CARDS = 3
"""Gates that are shown with their arguments; the inbox has all."""


async def overview(asked: Asked) -> Page:
    """Make the first page."""
    api = asked.api
    found = await together(
        runs=api.get("/v1/runs", limit=COUNTED, depth=0),
        gates=if_allowed(api.get("/v1/gates", status="pending", paused="false", limit=COUNTED_GATES)),
        statistics=if_allowed(api.get_kept("/v1/statistics")),
        networks=if_allowed(api.get("/v1/networks")),
        budgets=if_allowed(api.get_kept("/v1/budgets", limit=RECENT)),
        costs=if_allowed(api.get_kept("/v1/costs", by="network", since="1d")),
        letters=if_allowed(api.get_kept("/v1/dead-letters", limit=RECENT)),
        samples=if_allowed(api.get_kept("/v1/metrics/samples")),
    )
    networks = [network["name"] for network in found["networks"].get("networks", ())]
    runs, gates = found["runs"]["runs"], found["gates"].get("gates", ())
    waiting = f"{len(gates)}{'+' if found['gates'].get('next_after') else ''}"
    steps = await first_steps(api, networks, runs)
    view = {
        "runs": runs[:RECENT],
        "counted": run_figures(runs, now(), has_older=bool(found["runs"].get("next_before"))),
        "figures": platform_figures(found, waiting),
        "steps": steps,
        "begins": not runs or bool(steps and not steps[0].is_done),
        "sees_networks": "networks" in found["networks"],
        "chosen": _chosen(networks, asked.query.get("network", "")),
        "gates": gates[:CARDS],
        "waiting": waiting,
        "more": len(gates) > CARDS,
        "networks": networks,
        "samples": SAMPLES,
    }
    data = {**found, "runs": {**found["runs"], "runs": runs[:RECENT]}}
    return Page("Overview", "overview.html", data, view, REFRESH_S)


def _chosen(networks: Sequence[str], asked: str) -> str:
    """Return the network that the box has at first: the one asked for, that of the sample, or any."""
    return next((name for name in (asked, *SAMPLES, *networks) if name in networks), "")


async def start_run(asked: Asked, form: Mapping[str, str]) -> Done | Page:
    """Submit the task of the box, and go to its run; where something is lacking, say so before anything is sent."""
    network, model = form.get("network", ""), form.get("model", "").strip()
    task: dict[str, Any] = {"network": network, "user_message": form.get("message", "")}
    if model:
        task["model"] = model
    if form.get("debug") == "yes":
        task["debug"] = True
    lacks = await lacks_of(asked.api, network, model) if form.get("anyway") != "yes" else []
    if lacks:
        data = {"task": task, "lacks": [lack._asdict() for lack in lacks]}
        return Page("Nothing was sent yet", "try_lacks.html", data, {**data, "model": model}, status=409)
    accepted = await asked.api.post("/v1/runs", task)
    return Done(f"/runs/{accepted['run_id']}", "The run was accepted.")


PAGES = (PageRoute("/", overview, "/"),)
ACTIONS = (ActionRoute("/runs", start_run, "runs:write"),)
