"""Plain functions of user code, each call in a thread of its own.

A thread that never ends keeps neither others from their turn nor the process from its end; whoever waits may stop
to wait at any time.
"""

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

Found = Future[tuple[bool, Any]]
"""True and what the function returned, or False and what it raised."""


def in_thread(name: str, function: Callable[..., Any], *arguments: Any) -> tuple[threading.Thread, Found]:
    """Run *function* in a thread named *name*; returns the thread and where its end can be awaited."""
    found: Found = Future()
    context = contextvars.copy_context()

    def run() -> None:
        result = context.run(_contained, function, *arguments)
        if found.set_running_or_notify_cancel():
            found.set_result(result)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread, found


def _contained(function: Callable[..., Any], *arguments: Any) -> tuple[bool, Any]:
    """Return what the function raised, too: StopIteration and SystemExit must not travel through a future."""
    try:
        return True, function(*arguments)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever user code raises is a result of its call
        return False, error
