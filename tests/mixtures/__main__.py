"""`python -m tests.mixtures --count 500`: random mixtures of everything on one platform, judged from outside.

Kinds of runs, swarms, forks, gates, budgets and cancels in all combinations, while services are killed: nothing may be
lost, happen twice, or wait in silence. What is checked stands in `checks.py`; neither it nor what drives the platform
imports any of its code. Prints each finding as it comes, then one line of JSON; ends with 1 if there was any. A mixture
is made from its number, so `--first N --count 1` plays one again.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.mixtures.campaign import Campaign
from tests.mixtures.door import Door
from tests.mixtures.mixture import mixture
from tests.mixtures.networks import networks, policy
from tests.mixtures.platform_process import platform_process

WITNESS_VARIABLE = "TOWPATH_MIXTURE_WITNESS"
PUBLISHED_S = 60


async def play(first: int, count: int, *, at_once: int, kills: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Play *count* mixtures on a platform of their own; returns the figures, `found` among them."""
    began = time.monotonic()
    with TemporaryDirectory() as name:
        folder = Path(name)
        witness = folder / "witness.jsonl"
        witness.touch()
        witness.chmod(0o666)
        async with platform_process(policy(), folder, {WITNESS_VARIABLE: str(witness)}) as platform:
            door = Door(platform.url, platform.authorization)
            campaign = Campaign(platform, door, witness, say)
            try:
                await publish(door)
                chosen = [mixture(number) for number in range(first, first + count)]
                await campaign.play_all(chosen, at_once=at_once, kills=kills, seed=first)
            finally:
                await door.close()
            effects = len(witness.read_text("utf-8").splitlines())
    return {
        "mixtures": count,
        "first": first,
        "effects": effects,
        "ends": dict(campaign.statuses),
        "counts": dict(sorted(campaign.counts.items())),
        "found": campaign.found,
        "seconds": round(time.monotonic() - began, 1),
    }


async def publish(door: Door) -> None:
    """Publish every network; the tools may not be registered yet."""
    until = time.monotonic() + PUBLISHED_S
    for network in networks():
        while True:
            status, answer = await door.ask("POST", "/v1/networks", {"spec": network})
            if status < 300:
                break
            if time.monotonic() > until:
                raise RuntimeError(f"{network['name']} is refused: {answer}")
            await asyncio.sleep(0.3)


def main() -> int:
    """Parse the arguments and do it."""
    parser = argparse.ArgumentParser(prog="python -m tests.mixtures", description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="number of the first mixture")
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--kills", type=int, default=100, help="services killed with SIGKILL, as long as there is work")
    options = parser.parse_args()
    figures = asyncio.run(play(options.first, options.count, at_once=options.at_once, kills=options.kills, say=_say))
    sys.stdout.write(json.dumps(figures) + "\n")
    return 1 if figures["found"] else 0


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
