"""Sends what has changed on a page to everybody who looks at it, made once for all of them.

Each view is drawn again after its own time, but all together never take more than a share of one processor: the more
is looked at, the longer each waits. Those of one project wait behind each other before they hold up others. What is
sent is the whole part that changes, so that whoever missed something is up to date with the next. Where the page can't
be drawn for a while, whoever looks on is told, and told when it can.
"""

import asyncio
import contextlib
import hashlib
import logging
import random
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from time import perf_counter, thread_time

from towpath_console.api import ApiRefusalError
from towpath_console.turns import Turns
from towpath_contracts.problems.registry import ProblemError

SHARE = 0.04
"""Of one processor, at most, for drawing what is looked at and sending it."""

SENDING_S = 0.0002
"""Processor time that it takes to send one change to one who looks on."""

OTHERS = 2.5
"""A drawing's processor time of all processes together, as a multiple of this one's (measured: 1.3 to 3)."""

LONGEST_PAUSE_S = 120.0
"""What is looked at is drawn again after this time at the latest, however much else is."""

PING_S = 15.0
"""How long nothing is sent at most, so that proxies keep the stream open and clients notice one that is dead."""

KEPT_S = 5.0
"""How long a view is kept that nobody looks at: a page was drawn and its stream is to come, or a stream was cut."""

MOST_KEPT = 64
"""Views that nobody looks at yet, kept at once; further pages are drawn again for their streams."""

TRY_AGAIN_S, TRY_AGAIN_MAX_S = 0.5, 4.0
"""How long until a view is tried again that can't be drawn now: twice as long each time, up to the most."""

RETRY_MS = (500, 2_500)
"""After how long clients connect again when a stream was cut: each after another time, so that they spread."""

PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Refusals that say nothing about the caller: the same may be answered later."""

PING = "event: ping\ndata: {}\n\n"
LIVE = "event: live\ndata: {}\n\n"
CUT = "event: cut\ndata: {}\n\n"
END = "event: end\ndata: {}\n\n"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Drawn:
    """The part of a page that changes; `refresh_s` until it is looked at again, None for never."""

    html: str
    refresh_s: float | None
    digest: str = field(init=False)
    """Tells this part from others."""

    event: str = field(init=False)
    """The part as an event of a stream."""

    def __post_init__(self) -> None:
        """Make what all who look on are sent."""
        object.__setattr__(self, "digest", digest_of(self.html))
        lines = "".join(f"data: {line}\n" for line in self.html.splitlines())
        object.__setattr__(self, "event", f"id: {self.digest}\n{lines}\n")


def digest_of(html: str) -> str:
    """Return what tells the part *html* of a page from others."""
    return hashlib.sha256(html.encode("utf-8", "replace")).hexdigest()[:16]


@dataclass(slots=True, eq=False)
class _View:
    draw: Callable[[], Awaitable[Drawn]]
    owner: str
    kept_until: float
    last: Drawn | None = None
    failures: int = 0
    refused: ApiRefusalError | None = None
    cost_s: float = 0.0
    due_at: float = 0.0
    watchers: set[asyncio.Event] = field(default_factory=set)
    needed: asyncio.Event = field(default_factory=asyncio.Event)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    @property
    def is_cut(self) -> bool:
        """Whether it can't be drawn now."""
        return self.failures > 0

    def tell(self) -> None:
        """Wake all who look on."""
        self.begun.set()
        for watcher in self.watchers:
            watcher.set()


class LiveViews:
    """The views that are looked at now, by caller and address; their streams end once *stopping* is set.

    *turns* says how many are drawn at once: many that come together, after a restart, must not stall others. The owner
    of a view is the project whose it is.
    """

    def __init__(self, stopping: asyncio.Event, turns: Turns) -> None:
        self._stopping = stopping
        self._stop_watch: asyncio.Task[None] | None = None
        self._views: dict[object, _View] = {}
        self._turns = turns
        self._drawing = 0

    def keep(self, key: object, draw: Callable[[], Awaitable[Drawn]], drawn: Drawn, owner: str = "") -> None:
        """Keep for a moment what was *drawn* of the page *key*, whose stream is about to be asked for.

        What is kept of it already is older: whoever has just done something must not be shown how it was before.
        """
        view = self._views.get(key)
        if drawn.refresh_s is None or (view is None and self._has_no_room()):
            return
        view = view or self._add(key, draw, owner)
        view.last = drawn
        view.due_at = perf_counter() + drawn.refresh_s
        view.kept_until = perf_counter() + KEPT_S
        view.needed.set()
        view.tell()

    def _has_no_room(self) -> bool:
        return sum(not view.watchers for view in self._views.values()) >= MOST_KEPT

    async def begin(self, key: object, draw: Callable[[], Awaitable[Drawn]], owner: str = "") -> None:
        """Return once there is something to tell of the view *key*; ApiRefusalError where the caller may not see it."""
        view = self._views.get(key) or self._add(key, draw, owner)
        view.kept_until = max(view.kept_until, perf_counter() + KEPT_S)
        view.needed.set()
        await view.begun.wait()
        if view.refused is not None:
            raise view.refused

    async def watch(
        self, key: object, draw: Callable[[], Awaitable[Drawn]], seen: str | None, owner: str = ""
    ) -> AsyncIterator[str]:
        """Yield server-sent events with each change of the view *key*; *seen* is the digest of what is shown.

        `live` and `cut` say whether what is shown is followed; `end` that it changes no more, `bye` that this process
        stops.
        """
        yield f"retry: {_retry_ms()}\n\n"
        view = self._views.get(key) or self._add(key, draw, owner)
        woken = asyncio.Event()
        view.watchers.add(woken)
        view.needed.set()
        told_cut: bool | None = None
        try:
            while not self._stopping.is_set() and view.refused is None:
                woken.clear()
                if view.is_cut != told_cut:
                    told_cut = view.is_cut
                    yield CUT if told_cut else LIVE
                elif view.last is not None and view.last.digest != seen:
                    seen = view.last.digest
                    yield view.last.event
                elif view.last is not None and view.last.refresh_s is None:
                    yield END
                    return
                elif not await _is_set(woken, PING_S):
                    yield PING
            if self._stopping.is_set():
                yield f"event: bye\nretry: {_retry_ms()}\ndata: {{}}\n\n"
        finally:
            view.watchers.discard(woken)
            view.kept_until = perf_counter() + KEPT_S
            view.needed.set()

    def _add(self, key: object, draw: Callable[[], Awaitable[Drawn]], owner: str) -> _View:
        if self._stop_watch is None:
            self._stop_watch = asyncio.create_task(self._tell_of_the_stop())
        view = self._views[key] = _View(draw, owner, perf_counter() + KEPT_S)
        view.task = asyncio.create_task(self._follow(key, view))
        return view

    async def _tell_of_the_stop(self) -> None:
        await self._stopping.wait()
        for view in self._views.values():
            view.tell()

    async def _follow(self, key: object, view: _View) -> None:
        """Draw *view* again and again while somebody looks at it."""
        try:
            while view.watchers or perf_counter() < view.kept_until:
                now = perf_counter()
                if now >= view.due_at and (view.watchers or not view.begun.is_set()):
                    if not await self._redraw(view):
                        return
                    continue
                view.needed.clear()
                await _is_set(view.needed, (view.due_at if view.watchers else view.kept_until) - now)
        finally:
            if self._views.get(key) is view:
                del self._views[key]
            view.tell()

    async def _redraw(self, view: _View) -> bool:
        """Draw *view* once, and tell whoever looks on; False where it is not to be drawn again."""
        try:
            async with self._turns.held(view.owner):
                return await self._draw(view)
        except ProblemError as error:  # others are drawn all the time: it is said to be cut, and tried again
            return self._failed(view, ApiRefusalError(error.problem.status, error.problem.model_dump(mode="json")))

    async def _draw(self, view: _View) -> bool:
        self._drawing += 1
        began, beside, before = thread_time(), self._drawing, view.last
        try:
            drawn = await view.draw()
        except ApiRefusalError as error:  # whoever looks on connects again, and is told then: a key was revoked
            return self._failed(view, error)
        except Exception as error:  # noqa: BLE001 - of one page; whoever looks on is told, and it is tried again
            # Where it came from, never its text, which may hold what is on the page.
            frames = "".join(traceback.format_tb(error.__traceback__))
            _log.error("A page could not be drawn again: %s\n%s", type(error).__name__, frames)
            problem = {"code": "internal", "title": "The page could not be drawn", "detail": ""}
            return self._failed(view, ApiRefusalError(500, problem))
        finally:
            self._drawing -= 1
        # Not the time that passed, of which most is waiting where the machine is busy.
        view.cost_s = OTHERS * (thread_time() - began) / beside
        if view.last is not before:  # the page was drawn meanwhile, and this may be how it was before
            return True
        changed = view.is_cut or view.last is None or view.last.digest != drawn.digest
        view.last, view.failures = drawn, 0
        if changed or drawn.refresh_s is None:
            view.tell()
        view.due_at = perf_counter() + self._pause_s(drawn)
        return True

    def _failed(self, view: _View, error: ApiRefusalError) -> bool:
        if error.status not in PASSING:
            view.refused = error
            view.tell()
            return False
        view.due_at = perf_counter() + min(TRY_AGAIN_S * 2**view.failures, TRY_AGAIN_MAX_S)
        view.failures = min(view.failures + 1, 8)
        view.tell()
        return True

    def _pause_s(self, drawn: Drawn) -> float:
        """Return how long until a view is drawn again: longer, the more is looked at."""
        if drawn.refresh_s is None:
            return float("inf")
        looked_at = [view for view in self._views.values() if view.watchers]
        together = sum(view.cost_s + SENDING_S * len(view.watchers) for view in looked_at)
        return max(drawn.refresh_s, min(together / SHARE, LONGEST_PAUSE_S))


async def _is_set(event: asyncio.Event, within_s: float) -> bool:
    """Return whether *event* was set in time; without an end where that is infinite."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(None if within_s == float("inf") else max(0.0, within_s)):
            await event.wait()
    return event.is_set()


def _retry_ms() -> int:
    return random.randint(*RETRY_MS)  # noqa: S311  # spreads clients; nothing is kept secret by it
