"""However many ask for the health paths at once, a service works for them a few times a second."""

import asyncio
import math
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily

from towpath_fabric.clock import monotonic
from towpath_fabric.health import Health
from towpath_fabric.service import Service
from towpath_fabric.settings import Settings
from towpath_fabric.turns.shared_answers import RequestSlots, SharedAnswer


class CountedCollector:
    """Counts how often it is rendered."""

    def __init__(self) -> None:
        self.rendered = 0

    def collect(self) -> Iterator[GaugeMetricFamily]:
        self.rendered += 1
        yield GaugeMetricFamily("rendered", "", self.rendered)


async def ask(application: Any, path: str = "/metrics") -> tuple[int, bytes]:
    """Ask an ASGI application without a server."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("nothing is read of this request")

    await application({"type": "http", "path": path, "method": "GET", "headers": []}, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


async def test_four_hundred_scrapes_at_once_are_one_rendering_and_more_are_a_few_a_second() -> None:
    registry, collector = CollectorRegistry(), CountedCollector()
    registry.register(collector)
    health = Health(registry)
    registered = collector.rendered
    answers = await asyncio.gather(*(ask(health.metrics) for _ in range(400)))
    assert {status for status, _ in answers} == {200}
    assert collector.rendered - registered == 1
    began = monotonic()
    while monotonic() - began < 1:
        await asyncio.gather(*(ask(health.metrics) for _ in range(20)))
    assert collector.rendered - registered <= 7


async def test_a_scrape_shows_what_was_counted_before_it_however_soon_after_another() -> None:
    registry = CollectorRegistry()
    counter = Counter("steps", "", registry=registry)
    health = Health(registry)
    for count in range(1, 4):
        counter.inc()
        _, body = await ask(health.metrics)
        assert f"steps_total {count}.0".encode() in body


async def test_readiness_is_looked_at_once_for_all_that_ask_together() -> None:
    health, looks = Health(CollectorRegistry()), 0

    async def look() -> None:
        nonlocal looks
        looks += 1
        await asyncio.sleep(0.05)
        if looks == 2:
            raise ConnectionError("gone")

    health.check("store", look)
    first = await asyncio.gather(*(ask(health.readyz, "/readyz") for _ in range(100)))
    second = await asyncio.gather(*(ask(health.readyz, "/readyz") for _ in range(100)))
    assert looks == 2
    assert ({status for status, _ in first}, {status for status, _ in second}) == ({200}, {503})


async def test_an_answer_that_fails_is_made_anew_for_the_next() -> None:
    made: list[int] = []

    async def make() -> int:
        made.append(1)
        if len(made) == 1:
            raise OSError
        return len(made)

    shared = SharedAnswer(make, 0.01)
    for failed in await asyncio.gather(shared.get(), shared.get(), return_exceptions=True):
        assert isinstance(failed, OSError)
    assert await shared.get() == 2


LATE_S = 20
"""What a machine may be late that does something else."""


async def test_more_requests_than_a_slot_has_room_for_wait_for_the_next() -> None:
    slots, passed = RequestSlots(most=3, slot_s=0.4), list[int]()

    async def one() -> None:
        await slots.wait()
        passed.append(int(monotonic() / 0.4))

    await asyncio.sleep(0.4 - monotonic() % 0.4)
    await asyncio.gather(*(one() for _ in range(5)))
    first, later = passed[:3], passed[3:]
    assert len({*first}) == 1 and min(later) > first[0]
    assert max(later) <= first[0] + 1 + LATE_S / 0.4


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/asyncapi.json"])
async def test_a_connection_that_asks_without_end_is_answered_a_few_times_a_second(path: str) -> None:
    application = Service("orchestrator", Settings.load()).asgi()
    answered = 0

    async def greedy() -> None:
        nonlocal answered
        while True:
            assert (await ask(application, path))[0] in {200, 503}
            answered += 1

    flood, began = [asyncio.create_task(greedy()) for _ in range(50)], monotonic()
    async with asyncio.timeout(60):
        while answered < 50 or monotonic() - began < 1.2:  # noqa: ASYNC110 - nobody tells of an answer
            await asyncio.sleep(0.05)
    slots = 1 + math.ceil((monotonic() - began) / 0.5)
    for task in flood:
        task.cancel()
    await asyncio.gather(*flood, return_exceptions=True)
    assert answered <= slots * (50 + 32)
