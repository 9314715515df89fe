"""The command that every peer is: it opens the system, measures it and prints one JSON line.

A peer is a context manager that yields a function (run id, steps) → answer. It runs in an environment of its own, so
nothing here needs more than the standard library. bench/compare.py calls it, with bench/ as the working folder.
"""

import argparse
import asyncio
import importlib.metadata
import json
import os
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from harness import FULL, QUICK, phases
from workload import answer

Execute = Callable[[str, int], Awaitable[str]]
Opened = Callable[[argparse.Namespace], AbstractAsyncContextManager[Execute]]


def arguments() -> argparse.Namespace:
    """Read the arguments; which of them a peer needs it knows itself."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-realtime", dest="realtime", action="store_false")
    parser.add_argument("--phases", type=lambda text: text.split(","), default=("alone", "together", "memory"))
    parser.add_argument("--database", help="the address of an empty database")
    parser.add_argument("--database-pid", type=int, help="the database server's first process, to count what it uses")
    parser.add_argument("--server", help="the program of the peer's own server")
    parser.add_argument("--serve", type=int, help="the port on which to execute runs instead of measuring")
    return parser.parse_args()


async def measure(opened: Opened, distributions: tuple[str, ...], options: argparse.Namespace) -> dict[str, Any]:
    """Measure the phases, and name the versions of what was measured."""
    roots = [os.getpid(), *([options.database_pid] if options.database_pid else [])]
    async with opened(options) as execute:

        async def run(steps: int) -> float:
            run_id, started = uuid.uuid4().hex, time.perf_counter()
            ended = await execute(run_id, steps)
            if ended != answer(run_id, steps):
                raise SystemExit(f"a run ended with {ended!r}")
            return time.perf_counter() - started

        sizes = QUICK if options.quick else FULL
        found = await phases(run, sizes, options.phases, *roots, favour=options.realtime)
    return {**found, "versions": {name: importlib.metadata.version(name) for name in distributions}}


def main(opened: Opened, distributions: tuple[str, ...]) -> None:
    """Print what was measured as one JSON line."""
    print(json.dumps(asyncio.run(measure(opened, distributions, arguments()))))
