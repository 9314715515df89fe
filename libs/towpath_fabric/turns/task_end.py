"""Ends tasks that run for ever, also those that miss being cancelled.

`asyncio.wait_for` before Python 3.12 drops a cancellation that comes in the moment in which what it waits for is done
(https://github.com/python/cpython/issues/86296), and libraries wait that way: such a loop goes on, and whoever waits
for its end waits for ever. Requests to the broker are mended where they are made (`nats/cancellable_nats_client.py`).
"""

import asyncio
from collections.abc import Collection
from typing import Any

AGAIN_S = 5.0
"""Longer than a loop takes to put away what it has: one that is cancelled again leaves that undone."""


async def end_tasks(tasks: "Collection[asyncio.Task[Any]]", *, again_s: float = AGAIN_S) -> None:
    """Cancel *tasks*, every *again_s* seconds once more, until all have ended; how they end is nobody's concern."""
    running = {task for task in tasks if not task.done()}
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=again_s)
    await asyncio.gather(*tasks, return_exceptions=True)  # so that no error counts as one that nobody has seen
