"""Who may do what: the agents of one network beside the tools, each cell as the API answers it.

Nothing is decided here: a cell is what `/v1/permissions` says of one agent, and the policy is read only to tell an
agent's own rule from one that it shares with others.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from towpath_console.page import Asked, Page
from towpath_console.pages.shared import if_allowed, together

AGENTS = 30
TOOLS = 70
"""Shown at once; the rest is behind the filters and further pages."""

AT_ONCE = 6
"""Agents that are asked about at the same time: the platform answers two of a project, and lets others wait."""

WORDED = 8
"""Agents up to which a cell has its words; with more it has signs, and its words for those who do not see it."""

WORDS = {"allow": "allow", "require_approval": "ask", "deny": "deny"}
ORDER = tuple(WORDS)


class MatrixCell(NamedTuple):
    """What an agent may do with a tool: the words of its verdicts, and by whose rule."""

    words: tuple[str, ...]
    conditional: bool
    how: str
    rules: tuple[str, ...]


NO_RULE = MatrixCell(("deny",), conditional=False, how="default", rules=())


async def matrix(asked: Asked) -> Page:
    """Make the matrix of the network that the query names, or of the first."""
    api, query = asked.api, asked.query
    found = await together(
        policy=api.get("/v1/policy"), tools=api.get("/v1/tools"), networks=if_allowed(api.get("/v1/networks"))
    )
    networks = [network["name"] for network in found["networks"].get("networks", ())]
    network = query.get("network") or (networks[0] if networks else "")
    agents = await _agents(asked, network, networks)
    wanted = [name for name in agents if _has(name, query.get("agent"))]
    shown = _page_of(wanted, query.get("agents_from"), AGENTS)
    limit = asyncio.Semaphore(AT_ONCE)
    answers = await asyncio.gather(*(_permissions(asked, limit, network, name, agents[name]) for name in shown))
    permissions = dict(zip(shown, answers, strict=True))
    rows, hidden = _rows(found["tools"]["tools"], permissions, query)
    tools = _page_of(rows, query.get("tools_from"), TOOLS)
    cells = _cells(found["policy"]["rules"], permissions)
    data = {
        "network": network,
        "version": found["policy"]["version"],
        "agents": shown,
        "tools": [rows[name] | {"cells": _said(cells, shown, name)} for name in tools],
    }
    view = data | {
        "networks": networks,
        "groups": _groups(data["tools"]),
        "toolsets": sorted({tool["toolset"] for tool in found["tools"]["tools"]}),
        "agents_total": len(wanted),
        "tools_total": len(rows),
        "hidden": hidden,
        "agents_next": _next(wanted, shown),
        "tools_next": _next(list(rows), tools),
        "worded": len(shown) <= WORDED,
        "filtered": any(query.get(name) for name in ("agent", "tool", "toolset")),
        "tab": "matrix",
    }
    return Page("Policy", "policy/matrix.html", data, view)


async def _agents(asked: Asked, network: str, networks: Sequence[str]) -> dict[str, str]:
    """Return the agents of *network* with their types; the default one first."""
    named = asked.query.get("agent", "")
    if not network or (networks and network not in networks):
        return {}
    found = await if_allowed(asked.api.get(f"/v1/networks/{quote(network)}"))
    snapshot = found.get("snapshot") or {}
    agents = snapshot.get("agents") or ({named: {}} if named else {})
    first = snapshot.get("default_agent_key")
    ordered = sorted(agents, key=lambda key: (key != first, key))
    return {key: str(agents[key].get("agent_type") or "") for key in ordered}


async def _permissions(
    asked: Asked, limit: asyncio.Semaphore, network: str, agent: str, agent_type: str
) -> list[dict[str, Any]]:
    async with limit:
        path = f"/v1/permissions/{quote(network)}/{quote(agent, safe='')}"
        answer: Awaitable[dict[str, Any]] = asked.api.get(path, agent_type=agent_type or None)
        found: list[dict[str, Any]] = (await answer)["permissions"]
        return found


def _rows(
    tools: Iterable[Mapping[str, Any]], permissions: Mapping[str, list[dict[str, Any]]], query: Mapping[str, str]
) -> tuple[dict[str, dict[str, Any]], int]:
    """Return the tools that are shown, by toolset and name, and how many others fit the filters.

    Tools of which no rule speaks to any of these agents are shown only where the query says `all`, or names them.
    """
    everything = bool(query.get("all") or query.get("tool") or query.get("toolset"))
    hidden = 0
    spoken = {one["tool"]: one for said in permissions.values() for one in said}
    known = {tool["name"]: tool for tool in tools}
    rows = {}
    for name in known.keys() | spoken.keys():
        tool = known.get(name) or {"toolset": "agents", "effect_class": "", "internal": False}
        toolset = tool["toolset"] or "without a toolset"
        if not _has(name, query.get("tool")) or (query.get("toolset") and toolset != query["toolset"]):
            continue
        if name not in spoken and not everything:
            hidden += 1
            continue
        doubt = spoken.get(name, {}).get("doubt", "")
        rows[name] = {"tool": name, "toolset": toolset, "effect_class": tool["effect_class"], "doubt": doubt}
    return dict(sorted(rows.items(), key=lambda row: (row[1]["toolset"], row[0]))), hidden


def _cells(
    rules: Iterable[Mapping[str, Any]], permissions: Mapping[str, list[dict[str, Any]]]
) -> dict[tuple[str, str], MatrixCell]:
    known = {rule["name"]: rule for rule in rules}
    return {
        (agent, one["tool"]): _cell(agent, one, [known[name] for name in one["rules"] if name in known])
        for agent, said in permissions.items()
        for one in said
    }


def _cell(agent: str, permission: Mapping[str, Any], rules: Sequence[Mapping[str, Any]]) -> MatrixCell:
    """Return the cell of one permission: where arguments decide, every effect that they may lead to."""
    effects = {permission["verdict"]}
    if permission["conditional"]:
        effects |= {rule["effect"] for rule in rules}
    words = tuple(WORDS[effect] for effect in ORDER if effect in effects)
    own = any(rule["agent"] == agent for rule in rules)
    how = "own" if own else "inherited"
    return MatrixCell(words, bool(permission["conditional"]), how, tuple(permission["rules"]))


def _said(cells: Mapping[tuple[str, str], MatrixCell], agents: Iterable[str], tool: str) -> list[dict[str, Any]]:
    return [{"agent": agent, **cells.get((agent, tool), NO_RULE)._asdict()} for agent in agents]


def _groups(tools: Iterable[Mapping[str, Any]]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for tool in tools:
        groups.setdefault(tool["toolset"], []).append(tool)
    return [*groups.items()]


def _has(name: str, part: str | None) -> bool:
    return not part or part.strip().lower() in name.lower()


def _page_of(names: Iterable[str], first: str | None, most: int) -> list[str]:
    """Return at most *most* of *names*, from *first* on."""
    found = list(names)
    begin = found.index(first) if first in found else 0
    return found[begin : begin + most]


def _next(names: Sequence[str], shown: Sequence[str]) -> str | None:
    """Return the name that the next page begins with."""
    after = names.index(shown[-1]) + 1 if shown else len(names)
    return names[after] if after < len(names) else None
