"""The tools of a project: what they may do, how calls ended in the last day, and which of them wait for a person."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from towpath_console.page import Asked, Page, PageRoute
from towpath_console.pages.shared import if_allowed, together

SHOWN = 200
REFRESH_S = 10.0
"""Figures of a day change slowly, and are counted each time."""

EFFECTS = ("pure", "idempotent", "reconcilable", "irreversible")
PLATFORM = "platform"
"""Tools that every agent may have without a worker; they are shown to who asks for them."""

SOURCES = ("Python", "MCP server", PLATFORM)
STATES = ("on", "off", "held", "waits")
Json = dict[str, Any]


async def tools(asked: Asked) -> Page:
    """Make the list that the query asks for."""
    found = await together(
        described=asked.api.get("/v1/tools", proposals="true"),
        statistics=if_allowed(asked.api.get("/v1/statistics")),
        switches=if_allowed(asked.api.get("/v1/switches")),
    )
    described, query = found["described"], asked.query
    rates = {row["key"].get("tool"): row for row in found["statistics"].get("rows", ())}
    rows = [
        {
            "tool": tool,
            "rates": rates.get(tool["name"]),
            "state": state_of(tool["name"], found),
            "source": source_of(tool),
        }
        for tool in described["tools"]
    ]
    fits = [row for row in rows if _fits(row, query)]
    view = {
        "rows": fits[:SHOWN],
        "left": max(0, len(fits) - SHOWN),
        "proposals": [one for one in described["proposals"] if one["status"] == "pending" or one["held"]],
        "statistics": found["statistics"],
        "effects": EFFECTS,
        "states": STATES,
        "sources": SOURCES,
        "toolsets": sorted({row["tool"]["toolset"] for row in rows}),
        "filters": {name: query[name] for name in ("q", "effect", "toolset", "source", "state") if query.get(name)},
    }
    return Page("Tools", "tools.html", found, view, REFRESH_S)


def _fits(row: Json, query: Mapping[str, str]) -> bool:
    tool = row["tool"]
    return (
        query.get("q", "").strip().lower() in f"{tool['name']} {tool['description']}".lower()
        and query.get("effect", "") in ("", tool["effect_class"])
        and query.get("toolset", "") in ("", tool["toolset"])
        and query.get("state", "") in ("", row["state"])
        and (query["source"] == row["source"] if query.get("source") else row["source"] != PLATFORM)
    )


def state_of(name: str, found: Mapping[str, Json]) -> str:
    """Return whether calls of a tool are let through: `on`, `off` by a switch, or `held` because it has changed."""
    if switches_of(name, found):
        return "off"
    if name in found["described"]["held"]:
        return "held"
    waits = {one["spec"]["name"] for one in found["described"]["proposals"] if one["status"] == "pending"}
    return "waits" if name in waits else "on"


def switches_of(name: str, found: Mapping[str, Json]) -> list[Json]:
    """Return the switches that hold back calls of this tool, the project's own among them."""
    return [
        switch
        for switch in found["switches"].get("switches", ())
        if switch["kind"] == "project" or (switch["kind"] == "tool" and fnmatchcase(name, switch["name"]))
    ]


def source_of(tool: Mapping[str, Any]) -> str:
    """Return where a tool comes from."""
    return PLATFORM if tool.get("internal") else "MCP server" if tool.get("discovered") else "Python"


PAGES = (PageRoute("/tools", tools, "/tools"),)
