"""Sends what has changed on a page to everybody who looks at it, made once for all of them.

Each view is drawn again after its own time, but all together never take more than a share of one processor: the more
is looked at, the longer each waits. What is sent is the whole part that changes, so that whoever missed something is
up to date with the next.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from time import perf_counter

from towpath_console.api import ApiRefusalError

SHARE = 0.04
"""Of one processor, at most, for drawing what is looked at."""

PING_S = 15.0
"""How long nothing is sent at most, so that proxies keep the stream open."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The part of a page that changes; `refresh_s` until it is looked at again, None for never."""

    html: str
    refresh_s: float | None

    @property
    def digest(self) -> str:
        """Tells this part from others."""
        return hashlib.sha256(self.html.encode("utf-8", "replace")).hexdigest()[:16]


@dataclass(slots=True)
class _View:
    draw: Callable[[], Awaitable[Drawn]]
    watchers: int = 0
    last: Drawn | None = None
    cost_s: float = 0.0
    task: asyncio.Task[None] | None = None
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    failed: bool = False


class LiveViews:
    """The views that are looked at now, by caller and address."""

    def __init__(self) -> None:
        self._views: dict[object, _View] = {}

    async def watch(
        self, key: object, draw: Callable[[], Awaitable[Drawn]], stopping: asyncio.Event, seen: str | None
    ) -> AsyncIterator[str]:
        """Yield server-sent events with each change of the view *key*; *seen* is the digest of what is shown."""
        view = self._entered(key, draw)
        try:
            while not stopping.is_set():
                drawn = await _next(view, seen)
                if view.failed:
                    return
                if drawn is None:
                    yield ": ping\n\n"
                    continue
                seen = drawn.digest
                yield _event(seen, drawn.html)
                if drawn.refresh_s is None:
                    yield "event: end\ndata: end\n\n"
                    return
        finally:
            self._left(key, view)

    def _entered(self, key: object, draw: Callable[[], Awaitable[Drawn]]) -> _View:
        view = self._views.setdefault(key, _View(draw))
        view.watchers += 1
        if view.task is None:
            view.task = asyncio.create_task(self._redraw(view))
        return view

    def _left(self, key: object, view: _View) -> None:
        view.watchers -= 1
        if view.watchers == 0:
            if view.task is not None:
                view.task.cancel()
            if self._views.get(key) is view:
                del self._views[key]

    async def _redraw(self, view: _View) -> None:
        """Draw *view* again and again while somebody looks at it."""
        while True:
            began = perf_counter()
            try:
                drawn = await view.draw()
            except ApiRefusalError:  # whoever looks on connects again, and is told then: a key was revoked, say
                await _fail(view)
                return
            except Exception:
                await _fail(view)
                raise
            view.cost_s = perf_counter() - began
            async with view.changed:
                if view.last is None or view.last.digest != drawn.digest:
                    view.last = drawn
                    view.changed.notify_all()
            if drawn.refresh_s is None:
                return
            together = sum(one.cost_s for one in self._views.values())
            await asyncio.sleep(max(drawn.refresh_s, together / SHARE))


async def _fail(view: _View) -> None:
    async with view.changed:
        view.failed = True
        view.changed.notify_all()


async def _next(view: _View, seen: str | None) -> Drawn | None:
    """Return what *view* shows now, once that is not *seen*; None after PING_S, or where it can't be drawn."""
    try:
        async with asyncio.timeout(PING_S), view.changed:
            while not view.failed and (view.last is None or view.last.digest == seen):
                await view.changed.wait()
            return None if view.failed else view.last
    except TimeoutError:
        return None


def _event(name: str, html: str) -> str:
    lines = "".join(f"data: {line}\n" for line in html.splitlines())
    return f"id: {name}\n{lines}\n"
