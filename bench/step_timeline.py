"""A time line of one lone step: every message of it, who sends it to whom, when, and after what wait.

Runs one run of so many steps alone on the whole platform, listens to the broker meanwhile, and prints the hops of the
median step and what each process used for a step, as a table or as one JSON line. Usage:
`uv run python bench/step_timeline.py [--steps 60] [--tool pure] [--json] [--svg FILE] [--no-realtime]`.
Times are the broker's and those of a listener beside the services (bench/timeline/tap.py), so a service's wait includes
the way from and to the broker. `--messages FILE` also stores all that was heard, one JSON line a message.
"""

import argparse
import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import nats

from flood import publish
from processes import processor_seconds, realtime, thread_switches
from timeline.hops import Step, median_step, messages_of
from timeline.picture import svg
from timeline.tap import RIGHTS, USER, SeenMessage, Tap
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import UserCode, WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder
from w1 import HERE, Client

WARM_UP_RUNS = 5
WARM_UP_STEPS = 10
SETTLE_S = 0.5
"""After this time idle services have acknowledged what came last."""


class Usage(NamedTuple):
    """What the processes of one name used for a step."""

    cpu_ms: float
    switches: float


class Timeline(NamedTuple):
    """What one run showed."""

    step: Step
    usage: dict[str, Usage]
    realtime: bool
    seen: list[SeenMessage]

    def as_json(self) -> dict[str, Any]:
        """Return all but the messages themselves."""
        return {
            "ms_per_step": self.step.ms,
            "steps": self.step.steps,
            "realtime": self.realtime,
            "hops": [hop._asdict() for hop in self.step.hops],
            "processes": {name: used._asdict() for name, used in self.usage.items()},
        }


class WatchedPlatform(Platform):
    """A platform whose broker knows the listener."""

    async def _grant(self, workers: Sequence[UserCode]) -> None:
        await super()._grant(workers)
        self.nats.add_users({USER: RIGHTS})


async def measure(
    steps: int,
    tool: str,
    *,
    favour: bool = True,
    warm_up_runs: int = WARM_UP_RUNS,
    starts: Literal["exec", "fork"] = "exec",
) -> Timeline:
    """Start the platform, watch one run of *steps* steps, stop it."""
    name = f"echo_{tool}"
    with temporary_folder() as folder:
        platform = WatchedPlatform(
            folder / "d",
            role_environment={"tas": {"TOWPATH_POLICY_FILE": str(HERE / "w1-policy.yaml")}},
            workers=[WorkerLaunch(modules=(str(HERE / "echo_tools.py"),))],
            starts=starts,
        )
        async with platform:
            nc = await nats.connect(platform.nats_url)
            control = await publish(platform, name)
            client = Client(nc)
            for _ in range(warm_up_runs):
                await client.run(name, WARM_UP_STEPS)
            is_realtime = favour and realtime(on=True)
            tap = Tap(platform.nats_url_of(USER))
            tap.start()
            cpu, switches = processor_seconds(os.getpid()), thread_switches(os.getpid())
            await client.run(name, steps)
            used, switched = processor_seconds(os.getpid()), thread_switches(os.getpid())
            await asyncio.sleep(SETTLE_S)
            seen = tap.stop()
            await nc.close()
            await control.close()
    usage = {
        role: Usage(
            round((seconds - cpu.get(role, 0)) * 1000 / steps, 3),
            round((switched.get(role, 0) - switches.get(role, 0)) / steps, 1),
        )
        for role, seconds in sorted(used.items())
    }
    return Timeline(median_step(messages_of(seen)), usage, is_realtime, seen)


def table(step: Step, usage: Mapping[str, Usage]) -> str:
    """Return the hops and the processes as text."""
    lines = [
        f"A step takes {step.ms:.1f} ms (median of {step.steps}). Times are ms; sent: since the step began.",
        f"{'sent':>7} {'waited':>7} {'broker':>7}  {'from':13}{'to':13}{'subject':32}{'kind':8}after",
    ]
    lines += [
        f"{hop.sent_ms:7.2f} {hop.waited_ms:7.2f} {hop.broker_ms:7.2f}  {hop.sender:13}{hop.receiver:13}"
        f"{hop.subject:32}{hop.kind:8}{hop.after}"
        for hop in step.hops
    ]
    lines.append(f"{'process':13}{'CPU ms a step':>14}{'thread switches a step':>24}")
    lines += [f"{name:13}{used.cpu_ms:14.2f}{used.switches:24.1f}" for name, used in usage.items()]
    cpu, switches = sum(used.cpu_ms for used in usage.values()), sum(used.switches for used in usage.values())
    return "\n".join([*lines, f"{'all':13}{cpu:14.2f}{switches:24.1f}"])


def main() -> None:
    """Parse the arguments, print the table or one JSON line, draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--tool", choices=("pure", "idempotent", "irreversible"), default="pure")
    parser.add_argument("--no-realtime", dest="realtime", action="store_false")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--messages", type=Path)
    options = parser.parse_args()
    timeline = asyncio.run(measure(options.steps, options.tool, favour=options.realtime))
    print(json.dumps(timeline.as_json()) if options.json else table(timeline.step, timeline.usage))
    if options.svg:
        options.svg.write_text(svg(timeline.step), "utf-8")
    if options.messages:
        lines = (json.dumps([one.at_s, one.subject, one.reply, len(one.body)]) for one in timeline.seen)
        options.messages.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
