"""Tries attacks: those that need the same platform share one, one after another."""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.attacks.attack import Attack, AttackWorkedError
from tests.attacks.target import Target, target

from towpath_fabric.clock import monotonic

LONGEST_S = 120
"""An attack that is not over by then could not be tried."""


class Trial(NamedTuple):
    """How an attack ended; *found* is what stopped it, what it reached, or why it could not be tried."""

    attack: Attack
    stopped: bool
    found: str
    seconds: float

    @property
    def line(self) -> str:
        """The trial as one line."""
        verdict = "stopped" if self.stopped else "WORKED"
        text = " ".join(self.found.split())
        return f"{verdict:8} {self.attack.position:24} {self.attack.name:40} {self.seconds:5.1f} s  {text}"


async def try_all(attacks: Sequence[Attack], *, told: Callable[[Trial], None]) -> list[Trial]:
    """Try *attacks*, and tell of each as it ends."""
    trials: list[Trial] = []
    for keys in (True, False):
        chosen = sorted((one for one in attacks if one.keys == keys), key=lambda one: one.lasting)
        if chosen:
            async with target(keys=keys) as running:
                for one in chosen:
                    trials.append(await _try(one, running))
                    told(trials[-1])
    return trials


async def _try(attack: Attack, running: Target) -> Trial:
    began = monotonic()
    try:
        async with asyncio.timeout(LONGEST_S):
            stopped, found = True, await attack.attempt(running)
    except AttackWorkedError as error:
        stopped, found = False, str(error)
    except Exception as error:  # noqa: BLE001 - whatever it is: an attack that can't be tried proves nothing
        stopped, found = False, f"could not be tried: {type(error).__name__}: {error}"
    return Trial(attack, stopped, found, monotonic() - began)
