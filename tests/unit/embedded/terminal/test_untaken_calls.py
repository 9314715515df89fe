"""What `towpath up` tells of calls that no worker takes: once for a toolset, after a while, and when it is over."""

import asyncio
from collections.abc import Mapping

import pytest

from towpath_contracts.tools.queues import QueueList, QueueState
from towpath_embedded.terminal.untaken_calls import (
    LOOK_S,
    TOLD_AFTER_S,
    QueueLoad,
    UntakenCalls,
    loads_of,
    with_full_workers,
)

WAITS = QueueLoad(2, 0, has_worker=False)
TAKEN = QueueLoad(0, 1, has_worker=True)
EMPTY = QueueLoad(0, 0, has_worker=True)


class Terminal:
    """The lines that were shown, and what is asked for queues."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str]] = []
        self.queues: Mapping[str, QueueLoad] = {}
        self.asked = 0
        self._is_asked = asyncio.Event()
        self.calls = UntakenCalls(self.read, lambda line, style: self.shown.append((line, style)), look_s=0.01)

    async def read(self) -> Mapping[str, QueueLoad]:
        self.asked += 1
        self._is_asked.set()
        return self.queues

    async def has_asked(self, times: int) -> None:
        while self.asked < times:
            self._is_asked.clear()
            await self._is_asked.wait()


def test_a_toolset_without_a_worker_is_told_once_after_a_few_seconds_and_when_its_calls_are_taken() -> None:
    terminal = Terminal()
    assert terminal.calls.look_at({"orders": WAITS}, 10.0)
    assert terminal.calls.look_at({"orders": WAITS}, 10.0 + TOLD_AFTER_S - 0.1)
    assert terminal.shown == []
    terminal.calls.look_at({"orders": WAITS}, 10.0 + TOLD_AFTER_S)
    terminal.calls.look_at({"orders": WAITS._replace(waits=7)}, 20.0)
    terminal.calls.look_at({}, 25.0)  # nobody answered
    remedy = "start the worker that has it: towpath worker MODULE_OR_FILE"
    told = f"◐ 2 calls wait, and no worker takes those of the toolset orders: {remedy}"
    assert terminal.shown == [(told, "yellow")]
    assert terminal.calls.look_at({"orders": TAKEN}, 30.0)
    assert terminal.shown[1:] == [("toolset orders: calls have a worker again, after 20 s", "green")]
    assert not terminal.calls.look_at({"orders": EMPTY}, 40.0)
    assert len(terminal.shown) == 2
    terminal.calls.look_at({"orders": WAITS}, 50.0)
    terminal.calls.look_at({"orders": WAITS._replace(waits=1)}, 60.0)
    assert terminal.shown[2][0].startswith("◐ 1 call waits"), "the next time is told again"
    terminal.calls.look_at({"orders": EMPTY._replace(has_worker=False)}, 61.0)
    assert terminal.shown[3][0] == "toolset orders: no call waits any more, after 11 s"


@pytest.mark.parametrize("queue", [TAKEN, EMPTY, QueueLoad(9, 0, has_worker=True), QueueLoad(0, 0, has_worker=False)])
def test_calls_that_have_a_worker_and_toolsets_without_calls_are_not_told(queue: QueueLoad) -> None:
    terminal = Terminal()
    is_looked_again = terminal.calls.look_at({"orders": queue}, 0.0)
    terminal.calls.look_at({"orders": queue}, 100.0)
    assert terminal.shown == []
    assert is_looked_again is bool(queue.waits or queue.in_flight)


def test_a_worker_that_is_back_before_it_is_told_of_is_not_told_of() -> None:
    terminal = Terminal()
    terminal.calls.look_at({"orders": WAITS}, 0.0)
    terminal.calls.look_at({"orders": TAKEN}, 1.0)
    terminal.calls.look_at({"orders": WAITS}, TOLD_AFTER_S)
    assert terminal.shown == []


def test_a_person_hears_within_seconds() -> None:
    assert (LOOK_S, TOLD_AFTER_S) == (2.0, 4.0)


async def test_queues_are_asked_while_something_happens_and_not_after() -> None:
    terminal = Terminal()
    terminal.queues = {"orders": TAKEN}
    following = asyncio.create_task(terminal.calls.follow())
    async with asyncio.timeout(60):
        await terminal.has_asked(3)  # what waits since before the start counts, too
    terminal.queues = {"orders": EMPTY}
    asked = -1
    while terminal.asked > asked:  # ends once nobody asks any more
        asked = terminal.asked
        await asyncio.sleep(0.3)
    terminal.calls.notice_activity()
    async with asyncio.timeout(60):
        await terminal.has_asked(asked + 1)
    following.cancel()


@pytest.mark.parametrize(
    ("numbers", "load"),
    [
        ({"waits": 2, "in_flight": 3, "listeners": 1}, QueueLoad(2, 3, has_worker=True)),
        ({"waits": 2}, QueueLoad(2, 0, has_worker=False)),
        ({"in_flight": 1}, QueueLoad(1, 1, has_worker=False)),  # its worker ended, and it was not delivered again
        ({"in_flight": 3, "redelivered": 3}, QueueLoad(3, 3, has_worker=False)),  # handed back by a worker that is gone
        ({"waits": 9, "in_flight": 2}, QueueLoad(9, 2, has_worker=True)),  # a worker of one slot that is busy
    ],
)
def test_queues_of_toolsets_are_read_from_what_the_gateway_answers(numbers: dict[str, int], load: QueueLoad) -> None:
    state = QueueState(stream="TOOLEXEC", consumer="exec", toolset="orders", **numbers)
    others = (state.model_copy(update={"toolset": ""}), state.model_copy(update={"toolset": "mail", "missing": True}))
    answer = QueueList(queues=(state, *others)).model_dump(mode="json")
    assert loads_of(answer) == {"orders": load}


def test_a_worker_whose_places_are_all_taken_by_redelivered_calls_is_there() -> None:
    full = {"orders": QueueLoad(waits=9, in_flight=4, has_worker=False), "mail": QueueLoad(2, 1, has_worker=False)}
    workers = [
        {"state": "taking", "calls": 4, "toolsets": ["orders"]},
        {"state": "taking", "calls": 0, "toolsets": ["mail"]},
        {"state": "gone", "calls": 1, "toolsets": ["mail"]},
    ]
    found = with_full_workers(full, workers)
    assert found == {"orders": QueueLoad(waits=5, in_flight=4, has_worker=True), "mail": full["mail"]}
