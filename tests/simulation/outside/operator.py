"""An operator that pauses things while faults happen, and resumes all of them once faults have ended."""

import asyncio
import random
from typing import Any

from tests.simulation.outside.message_bus import SimBus
from tests.simulation.outside.people import PROJECT

from towpath_contracts import rpc
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.switches import OPERATOR, ActiveSwitch, ListSwitches, SetSwitch

NAMES = (("tool", "*"), ("network", "desk"), ("caller", "alice"), ("project", PROJECT))


class SwitchOperator:
    """Sets the stop switch. Half of the worlds have none."""

    def __init__(self, bus: SimBus, chance: random.Random, world: Any) -> None:
        self._bus = bus
        self._chance = chance
        self._world = world

    async def run(self) -> None:
        """Pause now and then; once there is peace, resume whatever is paused."""
        if self._chance.random() < 0.5:
            return
        while not self._world.at_peace:
            await asyncio.sleep(self._chance.choice((0.5, 2.0, 8.0)))
            if self._chance.random() < 0.5:
                kind, name = self._chance.choice(NAMES)
                await self._set(kind, name, paused=True)
            else:
                await self._resume()
        while True:  # a pause whose answer was lost may take effect yet, by a replica that was stopped
            await asyncio.sleep(1.0)
            await self._resume()

    async def _resume(self) -> None:
        """Resume what is paused."""
        try:
            found = await self._bus.request(rpc.LIST_SWITCHES, ListSwitches(project=PROJECT))
        except ProblemError:
            return
        open_ones: tuple[ActiveSwitch, ...] = found.switches
        for switch in open_ones:
            await self._set(switch.kind, switch.name, paused=False)

    async def _set(self, kind: str, name: str, *, paused: bool) -> None:
        what = {"project": PROJECT, "kind": kind, "name": name, "paused": paused}
        stop = paused and self._chance.random() < 0.2
        values = {"actor": "ann", "roles": (OPERATOR,), "reason": "to see", "stop_running": stop}
        try:
            await self._bus.request(rpc.SET_SWITCH, SetSwitch.model_validate({**what, **values}))
        except ProblemError as error:
            self._world.seen.note(f"switch_refused_{error.problem.code}")
