"""Two of everything, one outside file: no call happens twice and the work is really shared."""

import asyncio
import re
from pathlib import Path
from urllib.request import urlopen

import nats
from tests.support.platform.marked_runs import judged, platform_of, publish, quiet, submit

from towpath_embedded.platform import Platform


def metric(platform: Platform, process: str, name: str) -> float:
    text = urlopen(platform.health_url(process) + "/metrics").read().decode()
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? ([0-9.e+]+)$", text, re.MULTILINE))


async def test_replicas_share_the_work_and_no_irreversible_call_happens_twice(folder: Path) -> None:
    platform = platform_of(folder, replicas=2, workers=4)
    async with platform:
        await publish(platform)
        nc = await nats.connect(platform.nats_url)
        run_ids = await asyncio.gather(*(submit(nc, n, 2, ("mark.irreversible",), parallel=3) for n in range(40)))
        statuses = await quiet(platform, run_ids, 120)
        assert set(statuses.values()) == {"completed"}
        lines = (folder / "effects.txt").read_text().splitlines()
        ids = [line.split()[0] for line in lines]
        assert len(ids) == len(set(ids)) == 240
        verdict = await judged(platform, folder / "effects.txt", run_ids)
        assert verdict.clean, str(verdict)
        orchestrators = [n for n in platform.processes if n.startswith("orchestrator")]
        handled = [await asyncio.to_thread(metric, platform, n, "towpath_facts_handled_total") for n in orchestrators]
        assert min(handled) >= 0.1 * sum(handled), handled
        reloads = [await asyncio.to_thread(metric, platform, n, "towpath_state_reloads_total") for n in orchestrators]
        # Two that move one run at the same moment are left to the simulation, which has that in every hundred worlds.
        assert sum(reloads) >= 1, reloads
        await nc.close()
