"""Streams of one run: what they hold is given back, what is asked below the run, and who is passed over."""

import asyncio
import gc
import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from towpath_contracts.events.event_pages import EventPage
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.runs.views import GatePage, GateView, ListGates
from towpath_gateway.app import single_run_stream
from towpath_gateway.app.ag_ui_stream import AgUiStream
from towpath_gateway.app.asking_stream import MAX_ASKED
from towpath_gateway.app.gate_votes import GateWord
from towpath_gateway.app.protocols.ag_ui.agent_input import InterruptAnswer
from towpath_gateway.app.protocols.ag_ui.agent_runs import settles
from towpath_gateway.app.stream_pace import StreamPace
from towpath_gateway.core.ag_ui_events import AgUiEvents
from towpath_gateway.core.api_keys import Principal

RUN, CHILD = uuid.uuid4(), uuid.uuid4()
NOW = datetime(2026, 11, 26, tzinfo=UTC)


class Reader:
    """The reader of a run that stands still."""

    has_read = False
    is_behind = False
    has_ended = False
    next_check = 0.0

    def __init__(self, *_: Any, **__: Any) -> None:
        self.page: EventPage | None = None
        self.is_closed = False
        readers.append(self)

    async def open(self) -> None:
        """Nothing has to be subscribed to."""

    def accept_page(self, page: EventPage) -> list[Any]:
        self.page = page
        return []

    async def read_page(self) -> list[Any]:
        return []

    async def read_new(self) -> list[Any]:
        return []

    def new_deltas(self) -> list[Any]:
        return []

    async def wait(self, _seconds: float) -> None:
        await asyncio.sleep(60)

    async def close(self) -> None:
        self.is_closed = True


readers: list[Reader] = []


class Platform:
    """Has one run that stands in *status*, and *gates* below it."""

    def __init__(self, status: str = "waiting", gates: tuple[GateView, ...] = ()) -> None:
        self.stopping = asyncio.Event()
        self.asked: list[ListGates] = []
        self._status = status
        self._gates = gates

    async def page(self, _project: str, run_id: uuid.UUID, after: int) -> EventPage:
        return EventPage(run_id=run_id, entries=(), seq=3 - after, status=self._status)

    async def request(self, _subject: Any, request: ListGates) -> GatePage:
        self.asked.append(request)
        return GatePage(gates=self._gates)


@contextmanager
def nothing_held(*_: Any) -> Iterator[None]:
    yield


def stream(platform: Platform, *scopes: str, after: int = 0, **more: Any) -> AgUiStream:
    held = SimpleNamespace(held=nothing_held)
    metrics = SimpleNamespace(streams=SimpleNamespace(track_inprogress=nothing_held))
    dependencies: Any = SimpleNamespace(
        platform=platform, stream_shares=held, stream_pace=StreamPace(), metrics=metrics
    )
    principal = Principal(
        caller="c", actor="a", project="p", scopes=frozenset(scopes), roles=frozenset(), key_prefix="k"
    )
    return AgUiStream(dependencies, principal, RUN, AgUiEvents(RUN, "support", after=after), after=after, **more)


@pytest.fixture(autouse=True)
def still_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    readers.clear()
    monkeypatch.setattr(single_run_stream, "RunStreamReader", Reader)


async def sent_by(answer: AgUiStream) -> list[dict[str, Any]]:
    """Return the events of a stream that ends."""
    bodies: list[bytes] = []

    async def send(message: Any) -> None:
        bodies.append(message.get("body", b""))

    await asyncio.wait_for(answer(SCOPE, never, send), 30)
    return [json.loads(line[6:]) for line in b"".join(bodies).decode().splitlines() if line.startswith("data: ")]


SCOPE: dict[str, Any] = {"type": "http", "method": "GET", "asgi": {"spec_version": "2.4"}}


async def never() -> Any:
    await asyncio.Event().wait()


@pytest.mark.parametrize("version", ["2.3", "2.4"])
async def test_a_client_that_goes_while_it_is_sent_to_leaves_nothing_behind(version: str) -> None:
    is_sending = asyncio.Event()

    async def send(message: Any) -> None:
        if message.get("body"):
            is_sending.set()
            await asyncio.Event().wait()

    scope = {**SCOPE, "asgi": {"spec_version": version}}
    gc.disable()  # what is given back is given back at once, and not when a collector looks
    try:
        answer = stream(Platform())
        task = asyncio.create_task(answer(scope, never, send))
        await asyncio.wait_for(is_sending.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [reader.is_closed for reader in readers] == [True]
    finally:
        gc.enable()


async def test_more_events_than_the_run_has_are_refused_before_anything_is_sent() -> None:
    with pytest.raises(ProblemError) as refused:
        await sent_by(stream(Platform(), after=4))
    assert refused.value.problem.code == "request_invalid" and "3 events, not 4" in refused.value.problem.detail
    assert refused.value.problem.run_id == str(RUN) and not readers


def gate() -> GateView:
    detail = {"tool": "orders.refund", "args": {"amount": 200}, "digest": "sha256:aa"}
    known = {"gate_id": uuid.uuid4(), "run_id": CHILD, "project": "p", "gate_type": "approval", "status": "pending"}
    times = {"opened_at": NOW, "expires_at": NOW}
    return GateView.model_validate({**known, **times, "reason": "large", "detail": detail})


@pytest.mark.parametrize("status", ["waiting", "quarantined"])
async def test_what_waits_below_the_run_is_asked_of_who_may_see_it(status: str) -> None:
    below, decided = gate(), gate()
    platform = Platform(status, (decided, below))
    told = await sent_by(stream(platform, "gates:read", decided=[decided.gate_id]))
    (interrupt,) = told[-1]["outcome"]["interrupts"]
    assert interrupt["id"] == f"{RUN}:0:{below.gate_id}:sha256:aa" and "toolCallId" not in interrupt
    assert interrupt["metadata"]["towpath"]["arguments"] == {"amount": 200}
    (asked,) = platform.asked
    assert (asked.root_run_id, asked.project, asked.paused, asked.limit) == (RUN, "p", False, MAX_ASKED)
    assert MAX_ASKED == 16


@pytest.mark.parametrize(("status", "scopes"), [("waiting", ()), ("running", ("gates:read",))])
async def test_nobody_else_is_asked_and_the_stream_goes_on(status: str, scopes: tuple[str, ...]) -> None:
    platform = Platform(status, (gate(),))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await sent_by(stream(platform, *scopes))
    assert not platform.asked and readers[0].is_closed


async def test_a_gate_that_is_left_to_somebody_else_is_not_asked_again() -> None:
    nobody: Any = None  # without a word nothing is asked of the platform
    assert await settles(nobody, nobody, InterruptAnswer(run_id=RUN, seq=1, word=GateWord(gate_id=CHILD)))
