"""Open pages: all who look at the same thing share one drawing, and miss nothing."""

import asyncio
from collections.abc import AsyncIterator

from towpath_console.api import ApiRefusalError
from towpath_console.live import Drawn, LiveViews


class Drawer:
    """Counts how often it draws, and shows what it is told."""

    def __init__(self, *shown: str, refresh_s: float | None = 0.01) -> None:
        self.shown = list(shown)
        self.refresh_s = refresh_s
        self.drawn = 0

    async def __call__(self) -> Drawn:
        self.drawn += 1
        return Drawn(self.shown[min(self.drawn - 1, len(self.shown) - 1)], self.refresh_s)


async def events(stream: AsyncIterator[str], number: int) -> list[str]:
    found: list[str] = []
    async for event in stream:
        found.append(event)
        if len(found) == number:
            break
    return found


async def test_many_who_look_at_the_same_share_one_drawing() -> None:
    views, stop, drawer = LiveViews(), asyncio.Event(), Drawer("one", "two", refresh_s=0.05)
    streams = [views.watch("key", drawer, stop, None) for _ in range(50)]
    async with asyncio.timeout(5):
        found = await asyncio.gather(*(events(stream, 2) for stream in streams))
    assert all("data: one" in first and "data: two" in second for first, second in found)
    assert drawer.drawn < 10
    for stream in streams:
        await stream.aclose()


async def test_who_has_seen_the_last_state_is_sent_only_the_next() -> None:
    views, stop, drawer = LiveViews(), asyncio.Event(), Drawer("one", "one", "two")
    async with asyncio.timeout(5):
        stream = views.watch("key", drawer, stop, Drawn("one", None).digest)
        (event,) = await events(stream, 1)
    assert "data: two" in event and event.startswith("id: ")
    await stream.aclose()


async def test_a_page_that_does_not_change_any_more_ends_its_stream() -> None:
    views, stop, drawer = LiveViews(), asyncio.Event(), Drawer("done", refresh_s=None)
    async with asyncio.timeout(5):
        found = [event async for event in views.watch("key", drawer, stop, None)]
    assert [event.strip().splitlines()[-1] for event in found] == ["data: done", "data: end"]
    assert drawer.drawn == 1


async def test_nothing_is_drawn_for_nobody() -> None:
    views, stop, drawer = LiveViews(), asyncio.Event(), Drawer("one")
    stream = views.watch("key", drawer, stop, None)
    async with asyncio.timeout(5):
        await events(stream, 1)
    await stream.aclose()
    before = drawer.drawn
    await asyncio.sleep(0.05)
    assert drawer.drawn == before


async def test_a_page_that_is_refused_meanwhile_ends_the_streams_of_all_who_look_at_it() -> None:
    tasks: list[asyncio.Task[None] | None] = []

    async def revoked_after_one() -> Drawn:
        tasks.append(asyncio.current_task())
        if len(tasks) > 1:
            raise ApiRefusalError(401, {"code": "unauthenticated"})
        return Drawn("one", 0.01)

    views, stop = LiveViews(), asyncio.Event()
    async with asyncio.timeout(5):
        streams = [views.watch("key", revoked_after_one, stop, None) for _ in range(3)]
        found = await asyncio.gather(*(_all(stream) for stream in streams))
    assert [[event.strip().splitlines()[-1] for event in one] for one in found] == [["data: one"]] * 3
    assert [task.exception() for task in set(tasks) if task] == [None], "a refusal is no fault of the task that draws"


async def _all(stream: AsyncIterator[str]) -> list[str]:
    return [event async for event in stream]
