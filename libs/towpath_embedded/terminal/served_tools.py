"""Which tools the workers of `towpath up` have, and which registered ones its networks equip though no worker has them.

A tool stays registered when its function loses `@tool`, its file is moved, or it is renamed: nothing refuses a network
that equips it, and its calls wait for a worker that never comes.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from towpath_contracts.base import JsonObject
from towpath_fabric.clock import wall

_REGISTERED = "tool registered"
REGAIN_TOOL = "put @tool above its function again, or take the tool out of the network that equips it"
START_WORKER = "start the worker that has it: towpath worker MODULE_OR_FILE"


Offer = dict[str, set[str]]
"""The tools of each toolset."""


class ServedTools:
    """The tools of each toolset that the own workers offered, by what they log; and what was told of others."""

    def __init__(self) -> None:
        self._offers: dict[str, Offer] = {}
        self._told: set[str] = set()
        self._began = wall()
        self.workers: set[str] = set()
        """The names of the own workers."""

    def read_log_line(self, name: str, line: str) -> None:
        """Keep the tool that *line* of the process *name* says was registered."""
        if name.partition("-")[0] != "worker" or _REGISTERED not in line:
            return
        try:
            record = json.loads(line)
            if record["event"] == _REGISTERED:
                self.workers.add(name)
                offer = self._offers.setdefault(name, {})
                offer.setdefault(str(record["toolset"]), set()).add(str(record["tool"]))
        except (ValueError, KeyError, TypeError):
            return

    def forget(self, worker: str) -> Offer:
        """Forget and return what *worker* offered: another process takes its place."""
        return self._offers.pop(worker, {})

    def recall(self, worker: str, offer: Offer) -> None:
        """Take back that *worker* was to be replaced."""
        self._offers[worker] = offer

    @property
    def _own(self) -> dict[str, set[str]]:
        own: dict[str, set[str]] = {}
        for offer in self._offers.values():
            for toolset, tools in offer.items():
                own.setdefault(toolset, set()).update(tools)
        return own

    def untold_lines(
        self,
        specs: Collection[JsonObject],
        toolsets: Mapping[str, str],
        listeners: Mapping[str, int],
        workers: Collection[Mapping[str, Any]] = (),
    ) -> Sequence[str]:
        """Return a line for each registered tool that the networks *specs* equip and no worker has, once for each.

        *toolsets* has the toolset of every registered tool that workers run, *listeners* who takes calls of a toolset.
        *workers* are all that are known: one that is not ours may have what the own ones lack, and none that is
        drained takes calls.
        """
        taking = [one for one in workers if one["state"] == "taking"]
        elsewhere = {toolset for one in taking if one["name"] not in self.workers for toolset in one["toolsets"]}
        drained = {toolset for one in workers if self._is_drained(one) for toolset in one["toolsets"]}
        drained -= {toolset for one in taking for toolset in one["toolsets"]}
        own, lacking = self._own, list[str]()
        for tool, networks in equipping_networks(specs).items():
            toolset = toolsets.get(tool)
            is_offered = tool in own.get(toolset or "", ())
            if toolset is None or (is_offered and toolset not in drained):
                self._told.discard(tool)
                continue
            is_served_here = toolset in own
            if is_served_here and toolset in elsewhere:
                continue
            if tool in self._told or not (is_served_here or listeners.get(toolset) == 0):
                continue
            self._told.add(tool)
            remedy = REGAIN_TOOL if is_served_here else f"{REGAIN_TOOL}; or {START_WORKER}"
            whose = f"{'networks' if len(networks) > 1 else 'network'} {', '.join(networks)}"
            lack = "no worker here has it"
            if is_offered:
                lack, remedy = (
                    "the worker here that has it is drained",
                    f"press r in the terminal of towpath up; or {START_WORKER}",
                )
            lacking.append(f"{tool} is registered, but {lack}, so calls of {whose} would wait: {remedy}")
        return lacking

    def _is_drained(self, worker: Mapping[str, Any]) -> bool:
        """Return whether *worker* is an own one, and not one of a start before, that takes no calls."""
        is_own = worker["name"] in self.workers and datetime.fromisoformat(worker["started_at"]) >= self._began
        return is_own and worker["state"] in {"draining", "drained"}


def equipping_networks(specs: Collection[JsonObject]) -> dict[str, list[str]]:
    """Return the names of the networks that equip each tool."""
    found: dict[str, list[str]] = {}
    for spec in specs:
        tools = {str(tool) for agent in spec.get("agents", ()) for tool in agent.get("equipped_tools") or ()}
        for tool in sorted(tools):
            found.setdefault(tool, []).append(str(spec.get("name")))
    return found
