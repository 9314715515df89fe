"""Calling the methods that people write, whichever way they write them."""

import inspect
from typing import Any

from towpath.agents.threads import PROCESS


async def call_method(method: Any, *arguments: Any) -> Any:
    """Call *method* of user code: an async one here, a plain one in a thread. Raises whatever it raises."""
    if inspect.iscoroutinefunction(method):
        return await method(*arguments)
    found = await PROCESS.run(f"agent {getattr(method, '__name__', '')}", method, *arguments)
    return await found if inspect.isawaitable(found) else found
