"""What runs as long as the platform does, and what ends it: a follower that ended would tell nothing more."""

import asyncio
import signal
from collections.abc import Awaitable, Callable

from towpath.cli.shared.text import one_line
from towpath_fabric.clock import monotonic

BEGUN_AGAIN_S = 5.0
"""Before what failed is begun again: a full disk may have room by then."""

TOLD_ANEW_AFTER_S = 60.0
"""After this long it went well again, and the same failure is told anew."""

MAX_CHARS = 300

Tell = Callable[[str, str], None]
"""Gets a line and its style."""


async def keep_following(
    what: str, follow: Callable[[], Awaitable[None]], tell: Tell, again_s: float = BEGUN_AGAIN_S
) -> None:
    """Run *follow* until cancelled, again where it fails; *tell* gets why, once for as long as it is the same."""
    told = ""
    while True:
        began = monotonic()
        try:
            await follow()
        except Exception as error:  # noqa: BLE001 - the outermost loop of a task: nobody else would tell of it
            said = one_line(f"{type(error).__name__}: {error}", MAX_CHARS)
            if said != told or monotonic() - began > TOLD_ANEW_AFTER_S:
                tell(f"{what} failed, and is begun again: {said}", "yellow")
            told = said
        await asyncio.sleep(again_s)


async def finished_first(task: "asyncio.Task[None]", stopping: asyncio.Event) -> bool:
    """Wait for *task*; False when the stop came first, and the task was ended."""
    stop = asyncio.create_task(stopping.wait())
    await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if task.done():
        return True
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return False


def stop_on_signals() -> asyncio.Event:
    """Return an event that Ctrl-C and SIGTERM set.

    A second Ctrl-C while stopping changes nothing: the stop has its limits.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stopping.set)
    return stopping
