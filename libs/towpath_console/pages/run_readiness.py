"""What a network lacks before a run of it could go on: a worker for its tools, a key or a script for its models.

Asked once, before a task is sent, and never by asking a model. What the caller may not see is not checked, nor what
nobody can say just now: a task is accepted while deciders are away.
"""

from collections.abc import Awaitable, Mapping
from typing import Any, NamedTuple

from towpath_console.api import Api, ApiRefusalError
from towpath_console.pages.names import checked_name
from towpath_console.pages.queues import state_of
from towpath_console.pages.shared import together
from towpath_console.pages.tools import PLATFORM

MODELS = 6
"""Of a network with more models, that many are looked at."""


class Lack(NamedTuple):
    """What is missing, and the command that brings it."""

    what: str
    command: str


async def lacks_of(api: Api, network: str, model: str = "") -> list[Lack]:
    """Return what *network* lacks, if its agents are to ask *model*, or else each its own."""
    network = checked_name(network, "network")
    found = await together(
        network=_if_known(api.get(f"/v1/networks/{network}")), queues=_if_known(api.get("/v1/queues"))
    )
    snapshot = found["network"].get("snapshot") or {}
    return [*_without_worker(snapshot, found["queues"]), *await _unready_models(api, network, snapshot, model)]


async def _if_known(asked: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    try:
        return await asked
    except ApiRefusalError:
        return {}


def _without_worker(snapshot: Mapping[str, Any], queues: Mapping[str, Any]) -> list[Lack]:
    if "queues" not in queues:
        return []
    states = {queue["toolset"]: state_of(queue) for queue in queues["queues"]}
    nobody = "not known" if queues.get("left_out") else "nobody listens"
    needed: dict[str, list[str]] = {}
    for tool in (snapshot.get("tools") or {}).values():
        needed.setdefault(tool["toolset"], []).append(tool["name"])
    return [
        Lack(f"No worker takes calls of the toolset {toolset}: {', '.join(sorted(names))}", "towpath worker tools.py")
        for toolset, names in sorted(needed.items())
        if toolset not in ("", PLATFORM) and states.get(toolset, nobody) == "nobody listens"
    ]


async def _unready_models(api: Api, network: str, snapshot: Mapping[str, Any], model: str) -> list[Lack]:
    asked_by = {agent["model"]: key for key, agent in sorted((snapshot.get("agents") or {}).items(), reverse=True)}
    if model and asked_by:
        asked_by = {model: next(iter(asked_by.values()))}
    lacks: list[Lack] = []
    for name, agent in sorted(asked_by.items())[:MODELS]:
        body = {"agent_key": agent, "model": name}
        missing = (await _if_known(api.post(f"/v1/networks/{network}/prompt", body))).get("model_missing")
        if missing:
            lacks.append(Lack(f"{name}: {missing}", _command(name, network)))
    if lacks and len(asked_by) > MODELS:
        further = f"{len(asked_by) - MODELS} further models were not looked at"
        lacks.append(Lack(further, f"towpath networks show {network}"))
    return lacks


def _command(model: str, network: str) -> str:
    if model.startswith("scripted:"):
        return f'towpath run {network} "…" --script FILE'
    variable = {"google": "GEMINI"}.get(provider := model.partition(":")[0], provider.upper())
    return "TOWPATH_LOCAL_URL=… towpath up …" if provider == "local" else f"{variable}_API_KEY=… towpath up …"
