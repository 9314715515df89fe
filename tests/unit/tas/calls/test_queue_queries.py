"""Questions about queues: a bounded number of them, a few at a time, and the answer says what it leaves out."""

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest

from towpath_contracts.tools.queues import ListQueues, QueueList
from towpath_tas.app.queue_queries import PLATFORM_CONSUMERS, QueueQueries


class SilentBroker:
    """What lies behind the client: no answer, to however many ask. Counts who asks at the same time."""

    def __init__(self) -> None:
        self.under_way = self.most = 0

    def jetstream(self, timeout: float) -> "SilentBroker":
        self.timeout = timeout
        return self

    async def consumer_info(self, _stream: str, _durable: str) -> Any:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        raise TimeoutError

    async def stream_info(self, _name: str) -> Any:
        raise TimeoutError


async def answered(
    broker: SilentBroker,
    toolsets: int,
    *,
    platform: bool = False,
    toolset: str | None = None,
    run_id: UUID | None = None,
    ledger: Any = None,
) -> QueueList:
    tools = {
        f"{number}": SimpleNamespace(spec=SimpleNamespace(toolset=f"s{number:03}", internal=False), owner="worker")
        for number in range(toolsets)
    }

    async def current(_pool: Any, _project: str) -> Any:
        return SimpleNamespace(registry=SimpleNamespace(tools=tools))

    queries = QueueQueries(ledger, broker, SimpleNamespace(current=current))  # type: ignore[arg-type]
    return await queries.list_queues(ListQueues(project="p", platform=platform, toolset=toolset, run_id=run_id))


@pytest.mark.parametrize(("toolsets", "left_out"), [(0, 0), (64, 0), (65, 1), (200, 136)])
async def test_queues_of_many_toolsets_are_asked_about_a_few_at_a_time_and_the_rest_is_counted(
    toolsets: int, left_out: int
) -> None:
    broker = SilentBroker()
    found = await answered(broker, toolsets, platform=False)
    assert [queue.toolset for queue in found.queues] == [f"s{number:03}" for number in range(toolsets - left_out)]
    assert found.left_out == left_out and broker.most == min(8, toolsets)


async def test_what_the_broker_says_nothing_of_is_told_as_missing() -> None:
    found = await answered(SilentBroker(), 1, platform=True)
    assert all(queue.missing for queue in found.queues) and found.streams == ()
    assert len(found.queues) == 1 + len(PLATFORM_CONSUMERS)


async def test_one_toolset_of_many_is_asked_about_alone() -> None:
    broker = SilentBroker()
    found = await answered(broker, 200, toolset="s199")
    assert ([queue.toolset for queue in found.queues], found.left_out, broker.most) == (["s199"], 0, 1)
    assert (await answered(broker, 200, toolset="strange")).queues == ()


class Ledger:
    """Says of which toolsets a run has calls that are not begun, and notes for how long they are to be there."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def fetch(self, _statement: str, *values: Any) -> list[dict[str, str]]:
        self.asked.append(values)
        return [{"toolset": "s007"}, {"toolset": "withdrawn"}]


async def test_of_a_run_the_queues_are_told_in_which_it_has_calls_that_are_not_begun_after_four_seconds() -> None:
    ledger, run_id = Ledger(), uuid4()
    found = await answered(SilentBroker(), 200, run_id=run_id, ledger=ledger)
    assert ([queue.toolset for queue in found.queues], found.left_out) == (["s007"], 0)
    assert ledger.asked == [(run_id, "p", 4.0)]
    await answered(SilentBroker(), 2, ledger=ledger)
    assert len(ledger.asked) == 1, "without a run the ledger is left alone"
