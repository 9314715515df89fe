"""Calling the methods that people write, whichever way they write them."""

import asyncio
import inspect
from typing import Any

from towpath.threads import in_thread


async def call_method(method: Any, *arguments: Any) -> Any:
    """Call *method* of user code: an async one here, a plain one in a thread. Raises whatever it raises."""
    if inspect.iscoroutinefunction(method):
        return await method(*arguments)
    _, ended = in_thread(f"agent {getattr(method, '__name__', '')}", method, *arguments)
    succeeded, found = await asyncio.wrap_future(ended)
    if not succeeded:
        raise found
    return await found if inspect.isawaitable(found) else found
