"""One network: its graph, its agents and their prompts, its versions and what each changed, and its definition."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Any

from towpath_console.api import ApiRefusalError
from towpath_console.definition_text import write_definition
from towpath_console.drawings.changes import Changes, changes_between
from towpath_console.drawings.graph import network_graph
from towpath_console.drawings.graph_forms import graph_mermaid, graph_svg, graph_text
from towpath_console.page import ActionRoute, Asked, Done, Page, PageRoute
from towpath_console.pages.names import checked_name, number_of
from towpath_console.pages.networks import INVALID, comparable, published

VERSIONS = 20
TABS = {"graph": "Graph and agents", "prompts": "Prompts", "versions": "Versions", "definition": "Definition"}
Json = dict[str, Any]


async def network(asked: Asked) -> Page:
    """Make the page of a version, the current one unless the query names another."""
    name = checked_name(asked.path["network"], "network")
    wanted = number_of(asked.query.get("version"), "version")
    shown = await asked.api.get(f"/v1/networks/{name}", version=wanted)
    before = number_of(asked.query.get("before"), "version")
    listed = await asked.api.get("/v1/networks", name=shown["name"], limit=VERSIONS, before=before)
    newest = listed["networks"][0] if before is None else await asked.api.get(f"/v1/networks/{name}")
    tab = asked.query.get("tab", "graph")
    view = {
        "network": shown,
        "snapshot": shown["snapshot"],
        "versions": listed["networks"],
        "next_before": listed.get("next_before"),
        "current": newest["version"],
        "tabs": TABS,
        "tab": tab if tab in TABS else "graph",
        "order": _order(shown),
        "models": sorted({str(agent["model"]) for agent in shown["snapshot"]["agents"].values()}),
    }
    more = await _TABS[view["tab"]](asked, name, shown)
    twin = {name: asdict(one) if isinstance(one, Changes) else one for name, one in more.items()}
    return Page(shown["name"], "network.html", {"network": shown, "versions": listed} | twin, view | more)


def _order(shown: Json) -> list[str]:
    """Return the agents as their definition has them, who begins first."""
    agents, first = shown["snapshot"]["agents"], shown["snapshot"]["default_agent_key"]
    written = [agent["key"] for agent in (shown.get("spec") or {}).get("agents", ())]
    return sorted(agents, key=lambda key: (key != first, written.index(key) if key in written else len(written)))


async def _graph(_: Asked, _name: str, shown: Json) -> Json:
    layout = await asyncio.to_thread(network_graph, shown["snapshot"])
    return {"drawing": graph_svg(layout), "words": graph_text(layout), "mermaid": graph_mermaid(layout)}


async def _prompts(asked: Asked, name: str, shown: Json) -> Json:
    """Ask for the prompt of one agent, as it would be in the first step of a run with the message of the query."""
    agent = asked.query.get("agent") or shown["snapshot"]["default_agent_key"]
    message = asked.query.get("task", "")
    body = {"agent_key": agent, "user_message": message, "version": shown["version"]}
    return {"agent": agent, "prompt": await asked.api.post(f"/v1/networks/{name}/prompt", body), "told": message}


async def _versions(asked: Asked, name: str, shown: Json) -> Json:
    """Compare the shown version with the one that the query names, or the one before it."""
    other = number_of(asked.query.get("with"), "version") or shown["version"] - 1
    if other < 1:
        return {"other": None, "changes": None}
    found = await asked.api.get(f"/v1/networks/{name}", version=other)
    if not (found.get("spec") and shown.get("spec")):
        return {"other": other, "changes": None}
    changes = await asyncio.to_thread(changes_between, comparable(found), comparable(shown))
    return {"other": other, "changes": changes}


async def _definition(asked: Asked, _: str, shown: Json) -> Json:
    """Show the definition, and whether it could be published now, with the tools that there are."""
    spec = shown.get("spec")
    if not spec:
        return {"text": "", "checked": None, "faults": ()}
    faults: list[Json] = []
    checked = None
    try:
        checked = await asked.api.post("/v1/networks/validate", {"spec": spec})
    except ApiRefusalError as error:
        if error.status not in INVALID:
            raise
        faults = list(error.problem.get("errors") or ({"pointer": "", "detail": error.problem.get("detail", "")},))
    return {"text": await asyncio.to_thread(write_definition, spec), "checked": checked, "faults": faults}


_TABS: Mapping[str, Callable[[Asked, str, Json], Awaitable[Json]]] = {
    "graph": _graph,
    "prompts": _prompts,
    "versions": _versions,
    "definition": _definition,
}


async def run_network(asked: Asked, form: Mapping[str, str]) -> Done:
    """Start a run of the version that was looked at."""
    name = asked.path["network"]
    checked_name(name, "network")
    task: Json = {"network": name, "user_message": form.get("message", "")}
    task |= {"version": version} if (version := number_of(form.get("version"), "version")) else {}
    task |= {"model": form["model"]} if form.get("model") else {}
    task |= {"debug": True} if form.get("debug") == "yes" else {}
    if form.get("script"):
        try:
            task["script"] = json.loads(form["script"])
        except ValueError as error:
            problem = {"code": "request_invalid", "title": "The script is no JSON", "detail": str(error)}
            raise ApiRefusalError(422, problem) from error
    accepted = await asked.api.post("/v1/runs", task)
    return Done(f"/runs/{accepted['run_id']}", "The run was accepted.")


async def publish_again(asked: Asked, form: Mapping[str, str]) -> Done:
    """Publish an older version as a new one; the tools that it pins are those of today."""
    name = checked_name(asked.path["network"], "network")
    version = number_of(form.get("version"), "version")
    found = await asked.api.get(f"/v1/networks/{name}", version=version)
    if not found.get("spec"):
        problem = {
            "code": "not_found",
            "title": "There is no definition",
            "detail": "this network is the platform's own",
        }
        raise ApiRefusalError(404, problem)
    base = number_of(form.get("if_version"), "version")
    moved = {} if base is None else {"if_version": base}
    return published(await asked.api.post("/v1/networks", {"spec": found["spec"], **moved}))


PAGES = (PageRoute("/networks/{network:path}", network, "/networks"),)
ACTIONS = (
    ActionRoute("/networks/{network:path}/run", run_network, "runs:write", "/networks"),
    ActionRoute("/networks/{network:path}/publish", publish_again, "networks:write", "/networks"),
)
