"""Open pages: all who look at the same thing share one drawing, miss nothing, and are told when it can't be drawn."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.support.waiting import eventually

from towpath_console import live
from towpath_console.api import ApiRefusalError
from towpath_console.live import Drawn, LiveViews
from towpath_fabric.turns.work_turns import WorkTurns
from towpath_gateway.app.console import drawing_turns

REVOKED = ApiRefusalError(401, {"code": "unauthenticated"})
DOWN = ApiRefusalError(503, {"code": "unavailable"})


class Drawer:
    """Counts how often it draws, and shows what it is told."""

    def __init__(self, *shown: str | Exception, refresh_s: float | None = 0.01) -> None:
        self.shown = list(shown)
        self.refresh_s = refresh_s
        self.drawn = 0
        self.tasks: set[asyncio.Task[None] | None] = set()

    async def __call__(self) -> Drawn:
        self.drawn += 1
        self.tasks.add(asyncio.current_task())
        shown = self.shown[min(self.drawn - 1, len(self.shown) - 1)]
        if isinstance(shown, Exception):
            raise shown
        return Drawn(shown, self.refresh_s)


@pytest.fixture
def stopping() -> asyncio.Event:
    return asyncio.Event()


@pytest.fixture
def views(stopping: asyncio.Event, monkeypatch: pytest.MonkeyPatch) -> LiveViews:
    monkeypatch.setattr(live, "TRY_AGAIN_S", 0.01)
    return LiveViews(stopping, drawing_turns())


def last_line(event: str) -> str:
    return event.strip().splitlines()[-1]


async def events(stream: AsyncIterator[str], number: int) -> list[str]:
    """Return the last lines of *number* events, without what says how to connect again and that all is live."""
    found: list[str] = []
    async with asyncio.timeout(30):
        async for event in stream:
            if not event.startswith("retry: ") and event != live.LIVE:
                found.append(event)
            if len(found) == number:
                break
    return found


async def test_many_who_look_at_the_same_share_one_drawing(views: LiveViews) -> None:
    drawer = Drawer("one", "two", refresh_s=0.05)
    streams = [views.watch("key", drawer, None) for _ in range(50)]
    found = await asyncio.gather(*(events(stream, 2) for stream in streams))
    assert all("data: one" in first and "data: two" in second for first, second in found)
    assert drawer.drawn < 10
    for stream in streams:
        await stream.aclose()


async def test_many_who_come_at_once_share_the_first_drawing_too(views: LiveViews) -> None:
    drawer = Drawer("one", refresh_s=60)
    async with asyncio.timeout(30):
        await asyncio.gather(*(views.begin("key", drawer) for _ in range(200)))
    assert drawer.drawn == 1


@pytest.mark.parametrize(("projects", "at_once"), [(1, 3), (4, 6)])
async def test_not_all_views_are_drawn_at_once_when_all_come_back(
    views: LiveViews, projects: int, at_once: int
) -> None:
    at_work, most = 0, 0

    async def draw() -> Drawn:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await asyncio.sleep(0)
        at_work -= 1
        return Drawn("one", 60)

    async with asyncio.timeout(30):
        await asyncio.gather(*(views.begin(number, draw, f"{number % projects}") for number in range(50)))
    assert most == at_once


async def test_slow_pages_of_one_project_hold_up_no_page_of_another(views: LiveViews) -> None:
    released = asyncio.Event()

    async def slow() -> Drawn:
        await released.wait()
        return Drawn("slow", 60)

    begun = [asyncio.create_task(views.begin(number, slow, "theirs")) for number in range(8)]
    await asyncio.sleep(0.01)
    async with asyncio.timeout(30):
        await views.begin("mine", Drawer("mine", refresh_s=60), "ours")
    assert not any(task.done() for task in begun)
    released.set()
    await asyncio.gather(*begun)


async def test_a_page_for_which_there_is_no_place_is_said_to_be_cut_and_is_drawn_once_there_is_one(
    stopping: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "TRY_AGAIN_S", 0.01)
    turns = WorkTurns(1, lambda _: 1, 0.02)
    views = LiveViews(stopping, turns)
    async with turns.held("others"):
        stream = views.watch("key", Drawer("one", refresh_s=60), None)
        assert (await events(stream, 1)) == [live.CUT]
    stream = views.watch("key", Drawer("one", refresh_s=60), None)
    assert last_line((await events(stream, 2))[-1]) == "data: one"
    await stream.aclose()


async def test_who_has_seen_the_last_state_is_sent_only_the_next(views: LiveViews) -> None:
    stream = views.watch("key", Drawer("one", "one", "two"), Drawn("one", None).digest)
    (event,) = await events(stream, 1)
    assert "data: two" in event and event.startswith("id: ")
    await stream.aclose()


async def test_a_page_that_was_just_drawn_is_not_drawn_again_for_its_stream(views: LiveViews) -> None:
    page, drawer = Drawn("one", 0.1), Drawer("two", refresh_s=60)
    views.keep("key", drawer, page)
    await views.begin("key", drawer)
    assert drawer.drawn == 0
    stream = views.watch("key", drawer, page.digest)
    (event,) = await events(stream, 1)
    assert "data: two" in event and drawer.drawn == 1
    await stream.aclose()


async def test_who_has_done_something_is_not_shown_again_how_the_page_was_before(views: LiveViews) -> None:
    drawer = Drawer("ended", "later", refresh_s=None)
    await events(views.watch("key", drawer, None), 2)
    drawer.refresh_s = 60
    after = Drawn("begun anew", 0.05)
    views.keep("key", drawer, after)
    await views.begin("key", drawer)
    stream = views.watch("key", drawer, after.digest)
    assert "data: later" in (await events(stream, 1))[0]
    await stream.aclose()


async def test_a_drawing_that_began_before_a_page_was_drawn_is_not_shown_after_it(views: LiveViews) -> None:
    go_on, drawn = asyncio.Event(), asyncio.Event()

    async def draw() -> Drawn:
        await go_on.wait()
        drawn.set()
        return Drawn("before", 60)

    begins = asyncio.create_task(views.begin("key", draw))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    views.keep("key", draw, after := Drawn("after", 60))
    go_on.set()
    await begins
    stream = views.watch("key", draw, after.digest)
    assert [event async for event in _first(stream, 1)] == [live.LIVE]
    async with asyncio.timeout(30):
        await drawn.wait()
    assert views._views["key"].last is after
    await stream.aclose()


async def test_pages_without_a_stream_are_kept_for_a_moment_and_not_drawn(
    views: LiveViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "KEPT_S", 0.05)
    drawer = Drawer("two")
    for number in range(live.MOST_KEPT + 10):
        views.keep(number, drawer, Drawn("one", 0.01))
    assert len(views._views) == live.MOST_KEPT
    await eventually(lambda: not views._views)
    assert drawer.drawn == 0


async def test_a_page_that_does_not_change_any_more_ends_its_stream(views: LiveViews) -> None:
    drawer = Drawer("done", refresh_s=None)
    async with asyncio.timeout(30):
        found = [event async for event in views.watch("key", drawer, None)]
    assert [last_line(event) for event in found[-2:]] == ["data: done", "data: {}"] and found[-1] == live.END
    assert drawer.drawn == 1


async def test_nothing_is_drawn_for_nobody(views: LiveViews) -> None:
    drawer = Drawer("one")
    stream = views.watch("key", drawer, None)
    await events(stream, 1)
    await stream.aclose()
    before = drawer.drawn
    await asyncio.sleep(0.05)
    assert drawer.drawn == before


async def test_a_page_that_is_refused_meanwhile_ends_the_streams_of_all_who_look_at_it(views: LiveViews) -> None:
    drawer = Drawer("one", REVOKED)
    async with asyncio.timeout(30):
        streams = [views.watch("key", drawer, None) for _ in range(3)]
        found = await asyncio.gather(*(_all(stream) for stream in streams))
    assert [last_line(one[-1]) for one in found] == ["data: one"] * 3
    assert [task.exception() for task in drawer.tasks if task] == [None], "a refusal is no fault of the task that draws"
    with pytest.raises(ApiRefusalError):
        await views.begin("key", Drawer(REVOKED))


@pytest.mark.parametrize("fault", [DOWN, ValueError("of the page")])
async def test_who_looks_on_is_told_that_a_page_is_not_live_for_a_while(
    views: LiveViews, fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    drawer = Drawer("one", fault, fault, "one", "two")
    stream = views.watch("key", drawer, None)
    found = [event async for event in _first(stream, 5)]
    assert found[1:] == [Drawn("one", 1).event, live.CUT, live.LIVE, Drawn("two", 1).event]
    assert ("ValueError" in caplog.text) == isinstance(fault, ValueError) and "of the page" not in caplog.text
    await stream.aclose()


async def test_a_page_that_cannot_be_drawn_yet_is_followed_all_the_same(views: LiveViews) -> None:
    drawer = Drawer(DOWN, "one")
    async with asyncio.timeout(30):
        await views.begin("key", drawer)
    stream = views.watch("key", drawer, None)
    assert [event async for event in _first(stream, 3)] == [live.CUT, live.LIVE, Drawn("one", 1).event]
    await stream.aclose()


async def test_streams_say_goodbye_at_once_when_the_process_stops(views: LiveViews, stopping: asyncio.Event) -> None:
    followers = [asyncio.create_task(_all(views.watch(n % 5, Drawer("one", refresh_s=60), None))) for n in range(50)]
    await asyncio.sleep(0.05)
    stopping.set()
    async with asyncio.timeout(30):
        found = await asyncio.gather(*followers)
    assert all(one[-1].startswith("event: bye\nretry: ") for one in found)
    assert len({one[0] for one in found}) > 10, "each connects again after another time"


async def test_a_view_is_drawn_less_often_the_more_is_looked_at_but_not_too_seldom(views: LiveViews) -> None:
    drawn = Drawn("one", 0.5)
    alone, busy = Drawer("one", refresh_s=60), Drawer("one", refresh_s=60)
    streams = [views.watch("alone", alone, None)]
    await events(streams[0], 1)
    assert views._pause_s(drawn) == 0.5
    streams += [views.watch("busy", busy, None) for _ in range(200)]
    await asyncio.gather(*(events(stream, 1) for stream in streams[1:]))
    assert 0.9 < views._pause_s(drawn) < live.LONGEST_PAUSE_S
    for view in views._views.values():
        view.cost_s = 10.0
    assert views._pause_s(drawn) == live.LONGEST_PAUSE_S
    for stream in streams:
        await stream.aclose()


async def _all(stream: AsyncIterator[str]) -> list[str]:
    return [event async for event in stream]


async def _first(stream: AsyncIterator[str], number: int) -> AsyncIterator[str]:
    """Yield the first *number* events but the one that says how to connect again."""
    async with asyncio.timeout(30):
        async for event in stream:
            if not event.startswith("retry: "):
                number -= 1
                yield event
            if not number:
                return
