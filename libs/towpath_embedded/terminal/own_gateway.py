"""Asks the platform's own gateway, for what `towpath up` tells beside the events it hears of.

Of a policy that came into force that is how many rules it changes, and what would become of recorded calls: these are
weighed once per change, one piece of them, so a long history is told as a lower bound.

Of the policy at the start it is how many tools may wait for a person. A tool counts where a rule that asks for approval
reaches it for an agent that is equipped with it, also if the rule has a condition: whether it holds is known only of a
call. An unconditional denial wins over it.
"""

import asyncio
import contextlib
import json
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2

from towpath_contracts.base import JsonObject
from towpath_contracts.problems.input_faults import locate_fault
from towpath_embedded.local_access import NO_AUTHORITIES
from towpath_embedded.terminal.served_tools import ServedTools
from towpath_embedded.terminal.untaken_calls import QueueLoad, loads_of, with_full_workers
from towpath_fabric.clock import wall

TIMEOUT_S = 10.0
GATES = 100
"""Gates that are counted at the start; beyond that it is told that there are more."""

CALLS = 5_000
"""Recorded calls that are weighed, as many as the platform weighs at once."""

DAYS = 30
"""Older calls are not weighed: a policy would be measured by what nobody does any more."""

AGENTS = 50
"""Agents that are asked about at a start, each with a request; of more networks the number is not told."""

ANSWER_ERRORS = (httpx2.HTTPError, LookupError, ValueError, TypeError)
"""What is raised where the gateway does not answer, or says something else than expected."""


def connect(client_url: str) -> httpx2.AsyncClient:
    """Return a client of the gateway, whose token no proxy of the environment is to see."""
    return httpx2.AsyncClient(base_url=client_url, verify=NO_AUTHORITIES, timeout=TIMEOUT_S, trust_env=False)


async def waiting_line(client_url: str) -> str:
    """Return how many gates have waited for a person since before; nothing where none does, or nobody answers."""
    try:
        async with connect(client_url) as client:
            query = {"status": "pending", "paused": "false", "limit": str(GATES)}
            page: Any = (await client.get("/v1/gates", params=query)).raise_for_status().json()
            waiting = len(page["gates"])
    except ANSWER_ERRORS:
        return ""
    if not waiting:
        return ""
    more = "+" if waiting == GATES else ""
    waits = "gate waits" if waiting == 1 else "gates wait"
    return f"◐ {waiting}{more} {waits} for a person by now: towpath gates list"


class PolicyImpacts:
    """What each policy that comes into force changes of recorded calls, beside what the one before it had changed."""

    def __init__(self, client_url: str) -> None:
        self._client_url = client_url
        self._before: Mapping[str, int] = {}

    async def begin(self) -> None:
        """Weigh the policy that is in force; where the gateway does not answer, the next one is told with all."""
        with contextlib.suppress(*ANSWER_ERRORS):
            async with connect(self._client_url) as client:
                policy: Any = (await client.get("/v1/policy")).raise_for_status().json()
                self._before = calls_of_groups(await _weighed(client, policy["text"]))

    async def of_version(self, version: int) -> str:
        """Return what *version* changes, if it is in force; nothing where the gateway does not answer."""
        try:
            async with connect(self._client_url) as client:
                newest: Any = (await client.get("/v1/policy/changes?limit=1")).raise_for_status().json()["changes"][0]
                policy: Any = (await client.get("/v1/policy")).raise_for_status().json()
                if newest["version"] != version or policy["version"] != version:
                    return ""
                diff = await _weighed(client, policy["text"])
                told = told_impact(newest, diff, self._before)
                self._before = calls_of_groups(diff)
                return told
        except ANSWER_ERRORS:
            return ""


async def _weighed(client: httpx2.AsyncClient, text: str) -> Any:
    asked = {"text": text, "limit": CALLS, "since": (wall() - timedelta(days=DAYS)).isoformat()}
    return (await client.post("/v1/policy/diff", json=asked)).raise_for_status().json()


async def version_in_force(client_url: str) -> str:
    """Return `: version N` of the policy that is in force; nothing where the gateway does not answer."""
    try:
        async with connect(client_url) as client:
            policy: Any = (await client.get("/v1/policy")).raise_for_status().json()
            return f": version {policy['version']}"
    except ANSWER_ERRORS:
        return ""


def calls_of_groups(diff: Mapping[str, Any]) -> dict[str, int]:
    """Return how many recorded calls each group of a weighing has."""
    return {_group(group): group["calls"] for group in diff["groups"]}


def _group(group: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in group.items() if name not in {"calls", "examples"}}
    return json.dumps(kept, sort_keys=True, default=str)


def told_impact(change: dict[str, Any], diff: dict[str, Any], before: Mapping[str, int] | None = None) -> str:
    """Return an entry of the change log and a weighing of past calls as words, without what was so *before*."""
    known = before or {}
    rules = len(change["changes"]) + change.get("more", 0)
    more = "+" if diff.get("next_after") is not None else ""
    told = [f"{rules} rule{'' if rules == 1 else 's'} changed"]
    for kind, fate in (("newly_denied", "denied"), ("newly_gated", "held for a person"), ("newly_allowed", "allowed")):
        groups = [group for group in diff["groups"] if group["change"] == kind]
        calls = sum(max(0, group["calls"] - known.get(_group(group), 0)) for group in groups)
        if calls:
            told.append(f"{calls}{more} past call{'' if calls == 1 and not more else 's'} would be {fate}")
    return "; ".join(told)


async def tools_that_may_wait(client_url: str, specs: Collection[JsonObject]) -> int | None:
    """Return how many tools may wait for a person; None where it is not told, or nobody answers."""
    agents = [(str(spec["name"]), agent) for spec in specs for agent in spec.get("agents", ())]
    if len(agents) > AGENTS:
        return None
    waiting: set[str] = set()
    try:
        async with connect(client_url) as client:
            policy: Any = (await client.get("/v1/policy")).raise_for_status().json()
            asking = {rule["name"] for rule in policy["rules"] if rule["effect"] == "require_approval"}
            for network, agent in agents if asking else ():
                path = f"/v1/permissions/{quote(network)}/{quote(agent['key'], safe='')}"
                query = {"agent_type": agent.get("agent_type") or ""}
                found: Any = (await client.get(path, params=query)).raise_for_status().json()
                waiting |= asked_tools(agent.get("equipped_tools") or (), found["permissions"], asking)
    except ANSWER_ERRORS:
        return None
    return len(waiting)


async def policy_warnings(client_url: str, policy: Path) -> Sequence[str]:
    """Return by its place what is probably wrong in the file *policy*; nothing where nobody answers.

    The service that follows the file reads it before any worker has said which tools there are.
    """
    try:
        text = await asyncio.to_thread(policy.read_text, "utf-8")
        async with connect(client_url) as client:
            asked = {"text": text, "source": str(policy), "dry_run": True}
            answer: Any = (await client.post("/v1/policy", json=asked)).raise_for_status().json()
            return [locate_fault(policy.name, str(warning)) for warning in answer["warnings"]]
    except (*ANSWER_ERRORS, OSError):
        return ()


async def read_queue_loads(client_url: str) -> Mapping[str, QueueLoad]:
    """Return what waits for the workers of each toolset; nothing where nobody answers."""
    try:
        async with connect(client_url) as client:
            loads = loads_of((await client.get("/v1/queues")).raise_for_status().json())
            if all(load.has_worker or not load.in_flight for load in loads.values()):
                return loads
            workers: Any = (await client.get("/v1/workers")).raise_for_status().json()
            return with_full_workers(loads, workers["workers"])
    except ANSWER_ERRORS:
        return {}


async def tools_without_worker(client_url: str, specs: Collection[JsonObject], served: ServedTools) -> Sequence[str]:
    """Return a line for each tool that the networks *specs* equip and no worker has; none where nobody answers."""
    if not specs:
        return ()
    try:
        async with connect(client_url) as client:
            tools: Any = (await client.get("/v1/tools")).raise_for_status().json()
            queues: Any = (await client.get("/v1/queues")).raise_for_status().json()
            toolsets = {one["name"]: one["toolset"] for one in tools["tools"] if not one.get("internal")}
            answering = [queue for queue in queues["queues"] if queue["toolset"] and not queue.get("missing")]
            workers: Any = (await client.get("/v1/workers")).raise_for_status().json()
            listeners = {one["toolset"]: one["listeners"] for one in answering}
            return served.untold_lines(specs, toolsets, listeners, workers["workers"])
    except ANSWER_ERRORS:
        return ()


def asked_tools(
    equipped: Collection[str], permissions: Sequence[Mapping[str, Any]], asking: Collection[str]
) -> set[str]:
    """Return the tools among *equipped* that one of the rules *asking* reaches, and no rule denies for certain."""
    return {
        one["tool"]
        for one in permissions
        if one["tool"] in equipped and one["verdict"] != "deny" and not {*asking}.isdisjoint(one["rules"])
    }
