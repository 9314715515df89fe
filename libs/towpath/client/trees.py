"""A tree of runs read run by run, for ways that can't stream it as one: NATS, and pages.

What comes out is what the gateway streams: each run in order, a child between its start and its end.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from uuid import UUID

from towpath.errors import NotFoundError
from towpath_contracts.events.log import LogEntry
from towpath_readings.stream.tree import TreeEntry, TreeStream

ReadRun = Callable[[UUID], AsyncGenerator[LogEntry]]
"""Yields all events of a run until it has ended."""

WAITING = 64
"""Events that were read and not taken: a slow reader lets the platform wait, not the memory grow."""


async def merged(root: UUID, read: ReadRun) -> AsyncGenerator[TreeEntry]:
    """Yield the events of *root* and of everything below it, each run read by *read*; raises what *read* raises."""
    tree, found = TreeStream(root), asyncio.Queue[tuple[UUID, LogEntry | Exception | None]](WAITING)
    tasks: dict[UUID, asyncio.Task[None]] = {}
    try:
        while not tree.is_over or not found.empty():  # of a parked run there may be more than the event that says so
            for run_id in tree.runs:
                if run_id not in tasks:
                    tasks[run_id] = asyncio.create_task(_pump(run_id, read, found))
            run_id, what = await found.get()
            if isinstance(what, Exception) and (run_id == root or not isinstance(what, NotFoundError)):
                raise what
            for entry in tree.take(run_id, what) if isinstance(what, LogEntry) else tree.end(run_id):
                yield entry
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


async def _pump(run_id: UUID, read: ReadRun, found: "asyncio.Queue[tuple[UUID, LogEntry | Exception | None]]") -> None:
    try:
        async with aclosing(read(run_id)) as entries:
            async for entry in entries:
                await found.put((run_id, entry))
    except Exception as error:  # noqa: BLE001 - the outermost loop of a task: whoever takes its result gets the error
        await found.put((run_id, error))
    else:
        await found.put((run_id, None))
