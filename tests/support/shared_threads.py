"""A loop whose shared threads, those of `asyncio.to_thread`, are all taken by somebody else."""

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager


@asynccontextmanager
async def no_shared_thread() -> AsyncIterator[None]:
    """Give the running loop one shared thread, which is free again only behind this."""
    free, shared = threading.Event(), ThreadPoolExecutor(1)
    loop = asyncio.get_running_loop()
    loop.set_default_executor(shared)
    taken = loop.run_in_executor(None, free.wait)
    try:
        yield
    finally:
        free.set()
        await taken
