"""One tool: its arguments, what it declares, how its calls ended, whether it is on, and what waits for a person."""

from collections.abc import Mapping
from inspect import cleandoc
from typing import Any

from towpath_console.api import ApiRefusalError
from towpath_console.drawings.changes import Changes, changes_between
from towpath_console.page import ActionRoute, Asked, Done, Page, PageRoute
from towpath_console.pages.names import checked_name, number_of
from towpath_console.pages.shared import if_allowed, together
from towpath_console.pages.tool_trial import trial_of
from towpath_console.pages.tools import source_of, state_of, switches_of
from towpath_console.text import one_line

REFRESH_S = 10.0
EFFECTS = {
    "pure": "Changes nothing: a call whose fate is unknown is made again.",
    "idempotent": "Made twice it does the same: a lost call is sent again under its key.",
    "reconcilable": "Its worker can find out whether a call happened.",
    "irreversible": "Can't be taken back: a call whose fate is unknown waits for a person.",
}
Json = dict[str, Any]


async def tool(asked: Asked) -> Page:
    """Make the page of a tool, also of one that nobody has accepted yet."""
    name = asked.path["tool"]
    checked_name(name, "tool")
    found = await together(
        described=asked.api.get("/v1/tools", name=name, proposals="true"),
        statistics=if_allowed(asked.api.get("/v1/statistics")),
        switches=if_allowed(asked.api.get("/v1/switches")),
    )
    described = found["described"]
    accepted = next(iter(described["tools"]), None)
    proposals = [(one, _changes(accepted, one["spec"])) for one in described["proposals"]]
    if accepted is None and not proposals:
        detail = f"nobody offers {name}: start its worker, or look at towpath tools list"
        raise ApiRefusalError(404, {"code": "not_found", "title": "There is no such tool", "detail": detail})
    spec = accepted or proposals[0][0]["spec"]
    rates = next((row for row in found["statistics"].get("rows", ()) if row["key"].get("tool") == name), None)
    trial = await trial_of(asked.api, spec, asked.query.get("network", "")) if accepted else None
    view = {
        "tool": spec,
        "description": cleandoc(spec.get("description") or ""),
        "trial": None if spec.get("internal") else trial,
        "accepted": accepted is not None,
        "version": described["versions"].get(name),
        "owner": described["owners"].get(name, ""),
        "held": described["held"].get(name),
        "doubt": described["doubts"].get(name, ""),
        "proposals": proposals,
        "state": state_of(name, found),
        "source": source_of(spec),
        "switches": switches_of(name, found),
        "effect": EFFECTS.get(spec["effect_class"], ""),
        "arguments": arguments_of(spec),
        "statistics": found["statistics"],
        "rates": rates,
    }
    data = {"described": described, "switches": view["switches"], "rates": rates}
    return Page(name, "tool.html", data, view, REFRESH_S)


def arguments_of(spec: Mapping[str, Any]) -> list[Json]:
    """Return the arguments of a tool: what its schema says of each, and what is declared beside it."""
    schema = spec.get("parameters") or {}
    required, sinks = set(schema.get("required") or ()), spec.get("sinks")
    found = []
    for name, one in (schema.get("properties") or {}).items():
        told = one if isinstance(one, Mapping) else {}
        notes = [f"{word} {one_line(told[key], 60) or 'empty'}" for key, word in _BOUNDS.items() if key in told]
        notes += [f"one of {', '.join(map(str, told['enum']))}"] if isinstance(told.get("enum"), list) else []
        marks = ["required"] if name in required else []
        marks += ["set by the system"] if name in (spec.get("system_params") or ()) else []
        marks += ["destination"] if sinks and any(path.split(".")[0] in (name, "*") for path in sinks) else []
        text = str(told.get("description") or told.get("title") or "")
        found.append({"name": name, "type": _type(told), "marks": marks, "notes": notes, "text": text})
    return found


_BOUNDS = {
    "minimum": "at least", "exclusiveMinimum": "more than", "maximum": "at most", "exclusiveMaximum": "less than",
    "maxLength": "characters at most", "pattern": "like", "default": "otherwise", "format": "format",
}  # fmt: skip


def _type(told: Mapping[str, Any]) -> str:
    kind = told.get("type")
    if isinstance(kind, list):
        return " or ".join(map(str, kind))
    if kind is None and isinstance(told.get("anyOf"), list):
        return " or ".join(str(one.get("type", "any")) for one in told["anyOf"] if isinstance(one, Mapping))
    return str(kind or "any")


def _changes(accepted: Json | None, proposed: Json) -> Changes | None:
    """Return what a proposed version would change; None where there is none yet."""
    return None if accepted is None else changes_between(accepted, proposed)


async def switch(asked: Asked, form: Mapping[str, str]) -> Done:
    """Hold back new calls of the tool, or let them go on; `stop` also asks those that run to stop."""
    name, verb = asked.path["tool"], _verb(asked, "pause", "resume")
    checked_name(name, "tool")
    held = form.get("switch") or name  # a pattern may hold this tool with others
    body: Json = {"kind": "tool", "name": held, "reason": form.get("reason", "")}
    body |= {"stop_running": True} if verb == "pause" and form.get("stop") else {}
    done = await asked.api.post(f"/v1/switches/{verb}", body)
    stopping = f" {done['stopping']} running calls are asked to stop." if done.get("stopping") else ""
    said = "is switched off: new calls wait." if verb == "pause" else "is switched on."
    return Done(_address(name), f"{name} {said}{stopping}" if done["changed"] else f"{name} was so already.")


async def decide_proposal(asked: Asked, form: Mapping[str, str]) -> Done:
    """Accept, decline or withdraw a version of the tool."""
    name, verb = asked.path["tool"], _verb(asked, *_SAID)
    version = number_of(form.get("version"), "version")
    body: Json = {"version": version, "accept": verb == "accept", "reason": form.get("reason", "")}
    body |= {"withdraw": True} if verb == "withdraw" else {}
    done = await asked.api.post(f"/v1/tools/{checked_name(name, 'tool')}/proposal", body)
    return Done("/tools" if verb == "withdraw" else _address(name), str(done.get("detail") or _SAID[verb]))


_SAID = {"accept": "Accepted.", "decline": "Declined.", "withdraw": "Withdrawn."}


def _address(name: str) -> str:
    return f"/tools/{checked_name(name, 'tool')}"


def _verb(asked: Asked, *known: str) -> str:
    verb = asked.path["verb"]
    if verb not in known:
        raise ApiRefusalError(404, {"code": "not_found", "title": "There is no such action", "detail": verb})
    return verb


PAGES = (PageRoute("/tools/{tool:path}", tool, "/tools"),)
ACTIONS = (
    ActionRoute("/tools/{tool:path}/switch/{verb}", switch, "runs:operate", "/tools"),
    ActionRoute("/tools/{tool:path}/proposal/{verb}", decide_proposal, "policy:write", "/tools"),
)
