"""The other views of a run: what it visited of its network, the log of its events as it is, and the runs below it."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from towpath_console.api import Api, ApiRefusalError
from towpath_console.drawings.graph import GraphLayout, GraphVisits, network_graph
from towpath_console.drawings.graph_forms import graph_mermaid, graph_svg, graph_text
from towpath_console.page import Asked, Download, DownloadRoute, Page, PageRoute
from towpath_console.pages.runs.history import read_steps, visits_of
from towpath_console.pages.runs.run import MOST_STEPS, refresh_of, run_view
from towpath_console.pages.shared import together
from towpath_console.text import one_line
from towpath_contracts.runs.statuses import FINAL_STATUSES

EVENTS_SHOWN = 100
EVENTS_AT_ONCE = 1_000
MOST_SCANS = 4
"""Answers of the API that a search for events looks through before it asks whether to go on."""

PLUMBING = frozenset(
    {"step", "epoch", "request_id", "execution_id", "effect_id", "prompt_digest", "raw_digest", "result_digest"}
    | {"snapshot_digest", "script_digest", "usage", "cost", "duration_ms", "result_bytes", "call_index", "project"}
    | {"script", "reserved", "blob", "worker", "policy_version", "system_params", "forced", "gate_id", "approval_id"}
)
"""Left out of the line that sums an event up; all of it is behind that line."""

REFRESH_S = 2.0
GRAPHS = {"svg": "image/svg+xml", "mmd": "text/vnd.mermaid", "txt": "text/plain"}


async def run_graph(asked: Asked) -> Page:
    """Make the page of what a run visited."""
    run, layout, data = await _drawn(asked)
    visits = data["visits"]
    view = run_view(run, "graph") | {
        "layout": layout,
        "drawing": graph_svg(layout),
        "words": graph_text(layout),
        "mermaid": graph_mermaid(layout),
        "kinds": tuple(GRAPHS),
        "looked_at": 0 if visits["whole"] else sum(visits["steps"].values()),
    }
    refresh = refresh_of(run, visits["seq"])
    return Page(f"Graph of run {run['run_id'][:8]}", "run_graph.html", data, view, refresh and REFRESH_S)


async def graph_file(asked: Asked) -> Download:
    """Make the graph as a file."""
    kind = asked.url.rpartition(".")[2]
    run, layout, _ = await _drawn(asked)
    text = {"svg": lambda: str(graph_svg(layout, alone=True)), "mmd": lambda: graph_mermaid(layout)}
    written = text.get(kind, lambda: graph_text(layout))()

    async def parts() -> AsyncIterator[str]:
        yield written

    return Download(f"{run['run_id']}.{kind}", GRAPHS[kind], parts())


async def _drawn(asked: Asked) -> tuple[dict[str, Any], GraphLayout, dict[str, Any]]:
    api, run_id = asked.api, asked.path["run_id"]
    run = await api.get(f"/v1/runs/{run_id}")
    part = await read_steps(api, run_id, -1, MOST_STEPS)
    visits = visits_of(part.steps, run)
    network = await _network(api, run)
    spec = network.get("snapshot") or network.get("spec") or _spec_of(visits, run)
    edges = [{"source": one, "target": other, "count": count} for (one, other), count in visits.edges.items()]
    data = {
        "run": run,
        "network": spec,
        "visits": {
            "steps": visits.steps,
            "edges": edges,
            "answered": visits.answered,
            "current": visits.current,
            "whole": part.whole,
            "seq": part.seq,
        },
    }
    return run, await asyncio.to_thread(network_graph, spec, visits), data


async def _network(api: Api, run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the version that a run is of; nothing where the caller may not read networks, or it is of none."""
    try:
        return await api.get(f"/v1/networks/{run['network']}", version=run["version"])
    except ApiRefusalError as error:
        if error.status not in (403, 404, 422):
            raise
        return {}


def _spec_of(visits: GraphVisits, run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a network that a run has visited."""
    keys = list(dict.fromkeys([*visits.steps, *(target for _, target in visits.edges)]))
    return {"name": run["network"], "agents": [{"key": key} for key in keys]}


async def run_events(asked: Asked) -> Page:
    """Make the page of the log: the events from `from` on, or those of them that hold `find`."""
    api, run_id = asked.api, asked.path["run_id"]
    begins, find = asked.query.get("from", ""), asked.query.get("find", "").strip()
    start = int(begins) if begins.isascii() and begins.isdecimal() and len(begins) < 10 else 1
    after = max(start - 1, 0)
    run = await api.get(f"/v1/runs/{run_id}")
    found, looked_at = await _events(api, run_id, after, find)
    behind = looked_at < run["seq"]
    view = run_view(run, "events") | {
        "events": [_event(entry) for entry in found],
        "find": find,
        "start": start,
        "looked_at": looked_at,
        "pager": {
            "first": found[0]["seq"] if found else start,
            "last": found[-1]["seq"] if found else looked_at,
            "number": run["seq"],
            "earlier": str(max(1, start - EVENTS_SHOWN)) if start > 1 and not find else None,
            "later": str(looked_at + 1) if behind else None,
            "latest": str(max(1, run["seq"] - EVENTS_SHOWN + 1)) if behind and not find else None,
        },
    }
    refresh = None if behind or run["status"] in FINAL_STATUSES else REFRESH_S
    return Page(f"Events of run {run_id[:8]}", "run_events.html", {"run": run, "entries": found}, view, refresh)


async def _events(api: Api, run_id: str, after: int, find: str) -> tuple[list[dict[str, Any]], int]:
    """Return the first EVENTS_SHOWN events behind *after* that hold *find*, and up to where was looked for them."""
    found: list[dict[str, Any]] = []
    for _ in range(MOST_SCANS):
        limit = EVENTS_AT_ONCE if find else EVENTS_SHOWN - len(found)
        page = await api.get(f"/v1/runs/{run_id}/events", after=after, limit=limit)
        for entry in page["entries"]:
            after = entry["seq"]
            if not find or find.lower() in json.dumps(entry["event"], ensure_ascii=False).lower():
                found.append(entry)
            if len(found) == EVENTS_SHOWN:
                return found, after
        if not page["entries"] or after >= page["seq"]:
            break
    return found, after


def _event(entry: Mapping[str, Any]) -> dict[str, Any]:
    event = entry["event"]
    said = {name: value for name, value in event.items() if name != "type" and value not in (None, "", [], {})}
    summary = " · ".join(
        f"{name.replace('_', ' ')}: {_briefly(value)}" for name, value in said.items() if name not in PLUMBING
    )
    return {
        "seq": entry["seq"],
        "at": entry["at"],
        "type": event["type"],
        "step": event.get("step"),
        "said": said,
        "summary": one_line(summary or said, 120),
    }


def _briefly(value: Any) -> str:
    """Return a value as one line has room for it: of a decision or an instruction what kind it is, and its tools."""
    if isinstance(value, dict) and isinstance(value.get("action") or value.get("kind"), str):
        calls = [call["tool"] for call in value.get("calls") or () if isinstance(call, dict) and "tool" in call]
        return one_line(" ".join([value.get("action") or value["kind"], *map(str, calls)]), 60)
    return one_line(value, 60)


async def events_file(asked: Asked) -> Download:
    """Make the log as JSON lines, an event a line, page by page."""
    api, run_id = asked.api, asked.path["run_id"]
    page = await api.get(f"/v1/runs/{run_id}/events", after=0, limit=EVENTS_AT_ONCE)

    async def parts() -> AsyncIterator[str]:
        at = page
        while at["entries"]:
            yield "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in at["entries"])
            last = at["entries"][-1]["seq"]
            if last >= page["seq"]:  # what comes later is of another file, which therefore ends
                break
            at = await api.get(f"/v1/runs/{run_id}/events", after=last, limit=EVENTS_AT_ONCE)

    return Download(f"{run_id}.jsonl", "application/jsonl", parts())


async def run_tree(asked: Asked) -> Page:
    """Make the page of a run and what is below it."""
    api, run_id = asked.api, asked.path["run_id"]
    found = await together(run=api.get(f"/v1/runs/{run_id}"), tree=api.get(f"/v1/runs/{run_id}/tree"))
    rows = _flat(found["tree"])
    view = run_view(found["run"], "tree") | {"rows": rows, "truncated": found["tree"].get("truncated")}
    refresh = refresh_of(found["run"])
    return Page(f"Runs below {run_id[:8]}", "run_tree.html", found, view, refresh and REFRESH_S)


def _flat(node: Mapping[str, Any], level: int = 0) -> list[dict[str, Any]]:
    own = {name: value for name, value in node.items() if name != "children"} | {"level": level}
    return [own, *(row for child in node.get("children") or () for row in _flat(child, level + 1))]


PAGES = (
    PageRoute("/runs/{run_id}/graph", run_graph, "/runs"),
    PageRoute("/runs/{run_id}/events", run_events, "/runs"),
    PageRoute("/runs/{run_id}/tree", run_tree, "/runs"),
)
DOWNLOADS = (
    *(DownloadRoute(f"/runs/{{run_id}}/graph.{kind}", graph_file) for kind in GRAPHS),
    DownloadRoute("/runs/{run_id}/events.jsonl", events_file),
)
