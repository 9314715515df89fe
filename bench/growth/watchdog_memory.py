"""Memory of a watchdog process while runs begin and end: it remembers the ids of ended ones, up to a bound.

A real watchdog reads the events of short runs from a real broker; nothing is wrong with them, so it reports nothing.

`uv run python -m bench.growth.watchdog_memory [--runs 100000] [--each 5000]` prints a line after so many runs each: how
many have ended, and the resident memory in MiB.
"""

import argparse
import asyncio
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import nats
import psutil
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.support.orchestrator import run_history
from tests.support.service_process import service_process

from towpath_contracts import subjects
from towpath_contracts.events import log as ev
from towpath_contracts.rpc import IDLE_RUNS
from towpath_contracts.runs.idle_runs import IdleRunList
from towpath_contracts.runs.raw_events import RawEntry, RawTransitionEvents
from towpath_contracts.streams import WATCHDOG_CONSUMER
from towpath_embedded.servers.nats import Nats
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_fabric.nats.streams import ensure_streams

FLUSH_EVERY = 500
LOOK_S = 0.1
MIB = 1024 * 1024


def short_run() -> RawTransitionEvents:
    """Return the events of a run that was asked once and has ended."""
    run_id, at = uuid4(), datetime.now(UTC)
    events = (run_history.created(), ev.RunStarted(), run_history.asked(run_id, 1), run_history.ended(4))
    entries = [
        RawEntry(seq=number, at=at, event=event.model_dump(mode="json")) for number, event in enumerate(events, start=1)
    ]
    return RawTransitionEvents(run_id=run_id, project="default", entries=tuple(entries))


async def tell(nc: Client, runs: int) -> None:
    """Publish so many runs, and wait until the watchdog has taken them."""
    for number in range(runs):
        run = short_run()
        await nc.publish(subjects.run_event(run.run_id), run.model_dump_json().encode())
        if number % FLUSH_EVERY == 0:
            await nc.flush()
    consumer = WATCHDOG_CONSUMER
    while True:
        info = await nc.jetstream().consumer_info(consumer.stream, consumer.durable)
        if not info.num_pending and not info.num_ack_pending:
            return
        await asyncio.sleep(LOOK_S)


async def no_idle_runs(message: Msg) -> None:
    """Answer the watchdog's sweep."""
    await message.respond(IdleRunList(runs=()).model_dump_json().encode())


async def measure(folder: Path, runs: int, each: int) -> None:
    """Start broker and watchdog in *folder*, and print the memory."""
    server = Nats(folder / "nats")
    await server.start()
    nc = await nats.connect(server.url())
    try:
        await ensure_streams(nc)
        await nc.subscribe(IDLE_RUNS.subject, cb=no_idle_runs)
        with service_process("watchdog", folder, server.url()) as watchdog:
            await watchdog.wait_ready()
            memory = psutil.Process(watchdog.process.pid).memory_info
            print(f"{0:>9,} runs {memory().rss / MIB:7.1f} MiB", flush=True)
            for told in range(each, runs + 1, each):
                await tell(nc, each)
                print(f"{told:>9,} runs {memory().rss / MIB:7.1f} MiB", flush=True)
    finally:
        await nc.close()
        await server.stop()


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--each", type=int, default=5_000)
    options = parser.parse_args()
    with temporary_folder() as folder:
        asyncio.run(measure(folder, options.runs, options.each))


if __name__ == "__main__":
    main()
