"""Calling the methods that people write, whichever way they write them."""

import asyncio
import inspect
from typing import Any


async def call_method(method: Any, *arguments: Any) -> Any:
    """Call *method* of user code: an async one here, a plain one in a thread. Raises whatever it raises."""
    if inspect.iscoroutinefunction(method):
        return await method(*arguments)
    found = await asyncio.to_thread(method, *arguments)
    return await found if inspect.isawaitable(found) else found
