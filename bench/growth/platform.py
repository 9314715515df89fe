"""The platform that bench/scale.py measures, and how much of it is measured."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal, NamedTuple

import asyncpg
import nats

from flood import publish
from harness import STEPS, WARM_UP_RUNS
from processes import processor_seconds
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder
from w1 import HERE, SCALED, Client

PURE, APPROVED = "echo_pure", "echo_idempotent"
ROOT = os.getpid()
LOOK_S = 0.1

Found = dict[str, Any]


class Sizes(NamedTuple):
    """How much is measured; times are seconds."""

    replicas: tuple[int, ...] = (1, 2, 4)
    together: int = 200
    rounds: int = 3
    lengths: tuple[int, ...] = (10, 100, 1_000)
    repeats: int = 3
    queued: int = 10_000
    executed: int = 1_000
    active: int = 50
    parked: int = 1_000
    few: int = 20
    idle_s: float = 20
    settle_s: float = 2
    """Until the log-writer has written what there is, and the services are idle."""
    warm_up: int = WARM_UP_RUNS
    starts: Literal["exec", "fork"] = "exec"
    """Forked services share memory, which isn't wanted where memory is measured."""


FULL = Sizes()
QUICK = Sizes((1, 2), 10, 1, (10, 50), 1, 150, 50, 10, 30, 4, 1, 0.5, starts="fork")


class Scene(NamedTuple):
    """A platform that runs, and what asks it."""

    platform: Platform
    database: Any
    control: Any
    client: Client


@asynccontextmanager
async def scene(sizes: Sizes, replicas: int = 1, active: int = 1_000) -> AsyncIterator[Scene]:
    """Start the platform with both networks, and run a few runs that are not measured."""
    with temporary_folder() as folder:
        platform = Platform(
            folder / "d",
            replicas=dict.fromkeys(SCALED, replicas),
            role_environment={
                "tas": {"TOWPATH_POLICY_FILE": str(HERE / "scale-policy.yaml")},
                "orchestrator": {"TOWPATH_MAX_ACTIVE_RUNS": str(active)},
            },
            workers=[WorkerLaunch(modules=(str(HERE / "echo_tools.py"),), count=replicas, concurrency=64)],
            starts=sizes.starts,
        )
        async with platform:
            database = await asyncpg.connect(platform.dsn())
            await (await publish(platform, APPROVED)).close()
            control = await publish(platform, PURE)
            nc = await nats.connect(platform.nats_url)
            client = Client(nc)
            await asyncio.gather(*(client.run(PURE, STEPS) for _ in range(sizes.warm_up)))
            await asyncio.sleep(sizes.settle_s)
            try:
                yield Scene(platform, database, control, client)
            finally:
                await nc.close()
                await control.close()
                await database.close()


def seconds_of_services() -> float:
    """Processor time of every process of the platform so far, without the client."""
    return sum(seconds for name, seconds in processor_seconds(ROOT).items() if name != "client")


def growth(after: float, before: float) -> float:
    """Return how many times as much it is."""
    return round(after / before, 3)
