"""Where the processor time of a step goes while many runs are executed: by process, and in each by kind of code.

Starts the platform, executes 200 runs of workload W1 at once a few times, and lets the sampler py-spy look at each
Python process meanwhile. What a process uses is measured in rounds without the sampler, which costs time itself; its
samples only divide that. Usage, on a machine that does nothing else, as root (services let nobody else look at them):
`uv run --with py-spy python bench/step_profile.py [--tool pure] [--rounds 5] [--page docs/benchmarks.md]`.

A sample counts for the innermost Python function, so C code counts for whoever calls it: parsing for the package of
the models, for example; threads beside the event loop are left out. A kind is named by where its code is; what is in no
package of the platform or of the listed libraries is `other`.
"""

import argparse
import asyncio
import os
import re
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import nats

from comparison.table import in_page, number, rows
from flood import publish
from harness import FULL, STEPS, WARM_UP_RUNS, together
from processes import thread_switches, tree
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder
from w1 import HERE, Client

SAMPLED = ("orchestrator", "decider", "tas", "worker", "log_writer")
RATE = 250
"""Samples a second."""

SAMPLER_START_S = 3
KINDS = {
    "run machine": r"towpath_engine/",
    "messages and their checks": r"towpath_contracts/|pydantic",
    "own code of the service": r"towpath_(orchestrator|decider|tas|worker|log_writer)/|/towpath/",
    "connections, queues, guards": r"towpath_(fabric|audit|readings)/",
    "Postgres (asyncpg)": r"asyncpg",
    "NATS (nats-py)": r"/nats/",
    "event loop, system calls": r"asyncio|uvloop|selectors|socket\.py",
    "JSON, digests, signatures": r"/json/|hashlib|cryptography|rfc8785|canonical",
}
OTHER = "other"
THREAD = "Thread._bootstrap"
"""In the stacks of threads beside the event loop: they wait nearly all the time, which the sampler can't see."""

Samples = Mapping[str, Counter[str]]


def kind_of(frame: str) -> str:
    """Return the kind of code that a frame of the sampler, `function (file:line)`, belongs to."""
    place = "/" + re.sub(r".*/(site-packages|libs|services)/", "", frame.partition("(")[2])
    return next((kind for kind, pattern in KINDS.items() if re.search(pattern, place)), OTHER)


def count_samples(lines: Iterable[str]) -> Counter[str]:
    """Count the samples of each kind in the sampler's lines, `frame;frame;… n`, outermost frame first."""
    found: Counter[str] = Counter()
    for line in lines:
        stack, _, count = line.rpartition(" ")
        if THREAD in stack:
            continue
        found[kind_of(stack.rpartition(";")[2])] += int(count)
    return found


def table(cpu: Mapping[str, float], switches: Mapping[str, float], samples: Samples) -> str:
    """Write the processor time of a step (ms) in each process, divided by kind of code where it was sampled."""
    names = sorted(cpu, key=lambda name: -cpu[name])
    body = [["all", *(number(cpu[name], 2) for name in names), number(sum(cpu.values()), 2)]]
    for kind in [*KINDS, OTHER]:
        parts = {
            name: cpu[name] * counts[kind] / counts.total()
            for name, counts in samples.items()
            if name in cpu and counts.total()
        }
        cells = [number(parts[name], 2) if name in parts else "" for name in names]
        body.append([kind, *cells, number(sum(parts.values()), 2)])
    switched = [number(switches.get(name, 0.0), 1) for name in names]
    body.append(["thread switches a step", *switched, number(sum(switches.values()), 1)])
    return rows(["CPU ms a step", *names, "sum"], body)


async def sample(folder: Path, sampler: str, client: Client, tool: str, rounds: int) -> Samples:
    """Execute *rounds* times 200 runs while the sampler looks at the services; return its samples by process."""
    watched = {
        found.name: pid for pid, found in tree(os.getpid()).items() if found.name in SAMPLED and pid != os.getpid()
    }
    running = [
        await asyncio.create_subprocess_exec(
            *(sampler, "record", "--format", "raw", "--rate", str(RATE), "--duration", "unlimited"),
            *("--output", str(folder / name), "--pid", str(pid)),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        for name, pid in watched.items()
    ]
    await asyncio.sleep(SAMPLER_START_S)
    for _ in range(rounds):
        await asyncio.gather(*(client.run(tool, STEPS) for _ in range(FULL.together)))
    for process in running:
        process.send_signal(signal.SIGINT)
        await process.wait()
    return {name: count_samples((folder / name).read_text("utf-8").splitlines()) for name in watched}


async def measure(tool: str, rounds: int, sampler: str) -> str:
    """Start the platform, measure, stop it; return the table."""
    name = f"echo_{tool}"
    with temporary_folder() as folder, TemporaryDirectory() as written:
        platform = Platform(
            folder / "d",
            role_environment={"tas": {"TOWPATH_POLICY_FILE": str(HERE / "w1-policy.yaml")}},
            workers=[WorkerLaunch(modules=(str(HERE / "echo_tools.py"),), concurrency=64)],
        )
        async with platform:
            nc = await nats.connect(platform.nats_url)
            control = await publish(platform, name)
            client = Client(nc)
            for _ in range(WARM_UP_RUNS):
                await client.run(name, STEPS)
            await together(lambda steps: client.run(name, steps), FULL.together, 1)
            switched = thread_switches(os.getpid())
            used = await together(lambda steps: client.run(name, steps), FULL.together, 1)
            after = thread_switches(os.getpid())
            samples = await sample(Path(written), sampler, client, name, rounds)
            await nc.close()
            await control.close()
    cpu: dict[str, float] = used["cpu_ms_per_step_by_process"]
    steps = FULL.together * STEPS
    switches = {role: (after[role] - switched.get(role, 0)) / steps for role in after}
    others = f"Other programs used {used['cpu_share_of_others']:.0%} of the processors meanwhile."
    return f"{table(cpu, switches, samples)}\n\n{used['steps_per_s']:,.0f} steps/s. {others}"


def main() -> None:
    """Parse the arguments, print the table, write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", choices=("pure", "idempotent", "irreversible"), default="pure")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    sampler = shutil.which("py-spy")
    if sampler is None:
        sys.exit("py-spy is not there: uv run --with py-spy python bench/step_profile.py")
    text = asyncio.run(measure(options.tool, options.rounds, sampler))
    print(text)
    if options.page:
        page = options.page.read_text("utf-8")
        options.page.write_text(in_page(page, text, "profile"), "utf-8")


if __name__ == "__main__":
    main()
