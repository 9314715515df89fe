"""The networks of a project, and publishing one: what is pasted is checked first, and shown as it would be."""

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from towpath_console.api import Api, ApiRefusalError
from towpath_console.definition_text import DefinitionError, DefinitionFault, ReadDefinition, read_definition
from towpath_console.drawings.changes import changes_between
from towpath_console.drawings.graph import network_graph
from towpath_console.drawings.graph_forms import graph_svg, graph_text
from towpath_console.page import ActionRoute, Asked, Done, Page, PageRoute
from towpath_console.pages.names import checked_name, number_of
from towpath_console.text import hidden_count

SHOWN = 200
INVALID = frozenset({400, 409, 422})
"""Refusals of what somebody wrote: they are shown beside it, so that nothing of it is lost."""

MOVED = "network_moved"

SAMPLE = """\
kind: Network
name: helper
agents:
  - key: helper
    is_default: true
    allow_respond: true
    prompt_template: |
      You are {agent_key}. Answer in one or two sentences.
"""


async def networks(asked: Asked) -> Page:
    """Make the list, with those whose names hold the words of the query."""
    found = await asked.api.get("/v1/networks")
    words = asked.query.get("q", "").strip()
    fits = [one for one in found["networks"] if words.lower() in one["name"].lower()]
    view = {
        "networks": fits[:SHOWN],
        "left": max(0, len(fits) - SHOWN),
        "words": words,
        "all": len(found["networks"]),
        "sample": SAMPLE,
    }
    return Page("Networks", "networks.html", found, view)


async def check_network(asked: Asked, form: Mapping[str, str]) -> Page:
    """Check what was pasted: every problem with its line, or what publishing it would make and change."""
    text = form.get("text", "")
    read, would_be = await _sent(asked.api, "/v1/networks/validate", text)
    if isinstance(would_be, Page):
        return would_be
    now = await _current(asked.api, would_be["name"])
    layout = await asyncio.to_thread(network_graph, would_be["snapshot"])
    after = {**read, "tools": would_be["snapshot"]["tools"]}
    changes = await asyncio.to_thread(changes_between, comparable(now), full_spec(after)) if now else None
    view = {
        "text": text,
        "hidden": hidden_count(text),
        "would_be": would_be,
        "now": now,
        "faults": (),
        "moved": "",
        "drawing": graph_svg(layout, name="check"),
        "words": graph_text(layout),
        "changes": changes,
    }
    return Page(f"Check {would_be['name']}", "network_check.html", {"would_be": would_be}, view)


async def publish_network(asked: Asked, form: Mapping[str, str]) -> Done | Page:
    """Publish what was checked; where it is refused after all, say why beside it.

    Where somebody else has published since the check, what was written is kept, to be checked against that.
    """
    text, base = form.get("text", ""), number_of(form.get("if_version"), "version")
    try:
        _, made = await _sent(asked.api, "/v1/networks", text, {} if base is None else {"if_version": base})
    except ApiRefusalError as error:
        if error.problem.get("code") != MOVED:
            raise
        return _moved(text, error.problem)
    return made if isinstance(made, Page) else published(made)


async def _sent(
    api: Api, path: str, text: str, more: Mapping[str, int] = MappingProxyType({})
) -> tuple[dict[str, Any], dict[str, Any] | Page]:
    """Send what was pasted to *path*; return it as JSON, and the answer, or a page that says what is wrong with it."""
    try:
        read = await asyncio.to_thread(read_definition, text)
    except DefinitionError as error:
        return {}, _refusal(text, list(error.faults), "The text can't be read as a network.")
    try:
        return read.spec, await api.post(path, {"spec": read.spec, **more})
    except ApiRefusalError as error:
        if error.status not in INVALID or error.problem.get("code") == MOVED:
            raise
        why = str(error.problem.get("title") or "It is refused.")
        return read.spec, _refusal(text, faults_of(error.problem, read), why)


def published(made: Mapping[str, Any]) -> Done:
    """Return where somebody goes who has published *made*."""
    said = (
        "equals the current version: nothing was made" if made["unchanged"] else f"version {made['version']} is current"
    )
    return Done(f"/networks/{made['name']}", f"{made['name']}: {said}.")


def faults_of(problem: Mapping[str, Any], read: ReadDefinition) -> list[DefinitionFault]:
    """Return everything that the API says against a definition, with the lines of what was pasted."""
    errors = problem.get("errors") or ({"pointer": "", "detail": problem.get("detail", "")},)
    return [_placed_fault(str(error.get("pointer") or ""), str(error["detail"]), read) for error in errors]


def _placed_fault(pointer: str, detail: str, read: ReadDefinition) -> DefinitionFault:
    line, said = read.lines.of_prompt(pointer, detail) or (read.lines.of(pointer), detail)
    return DefinitionFault(line, pointer, said)


def comparable(version: Mapping[str, Any]) -> dict[str, Any]:
    """Return what versions are compared by: the definition as it was written, and the tools as they were then."""
    spec = version.get("spec") or {}
    return full_spec({**spec, "tools": (version.get("snapshot") or {}).get("tools", {})})


def full_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return *spec* without what is left at its default, so that a default that is written out is no change."""
    from towpath_contracts.networks.spec import NetworkSpec  # noqa: PLC0415  # loaded with the first comparison

    tools = spec.get("tools", {})
    written = {name: value for name, value in spec.items() if name != "tools"}
    return NetworkSpec.model_validate(written).model_dump(mode="json", exclude_defaults=True) | {"tools": tools}


async def _current(api: Api, name: str) -> dict[str, Any] | None:
    try:
        return await api.get(f"/v1/networks/{checked_name(name, 'network')}")
    except ApiRefusalError as error:
        if error.status != 404:
            raise
        return None


def _refusal(text: str, faults: list[DefinitionFault], title: str) -> Page:
    view = {
        "text": text,
        "hidden": hidden_count(text),
        "would_be": None,
        "faults": sorted(faults),
        "moved": "",
        "why": title,
    }
    data = {"problems": [fault._asdict() for fault in faults]}
    return Page("Not a network yet", "network_check.html", data, view, status=422)


def _moved(text: str, problem: Mapping[str, Any]) -> Page:
    """Make the page for somebody who checked against a version that is current no more: nothing was published."""
    view = {"text": text, "hidden": hidden_count(text), "would_be": None, "faults": (), "moved": problem["detail"]}
    return Page("Published meanwhile", "network_check.html", {"problem": dict(problem)}, view, status=409)


PAGES = (PageRoute("/networks", networks, "/networks"),)
ACTIONS = (
    ActionRoute("/networks", publish_network, "networks:write", "/networks"),
    ActionRoute("/networks/check", check_network, "", "/networks"),
)
