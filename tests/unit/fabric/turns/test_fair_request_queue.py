"""Fair request queue: callers take turns, and a request that finds no room is refused at once."""

import asyncio
import math

from nats.aio.client import Client
from nats.aio.msg import Msg

from towpath_fabric.turns.fair_request_queue import (
    WAITING_BYTES,
    WAITING_BYTES_OF_ONE,
    FairQueueLimits,
    FairRequestQueue,
)


def request(caller: str, number: int = 0, size: int = 0) -> Msg:
    return Msg(_client=Client(), subject=f"task.submit.{caller}", data=str(number).encode() + b" " * size)


class QueuedServer:
    """What is served waits until it is released."""

    def __init__(
        self,
        *,
        max_concurrent: int,
        max_waiting: int = 100,
        max_share: float = 0.8,
        max_of_flood: int | None = None,
        max_wait_s: float = math.inf,
        repeatable: bool = False,
    ) -> None:
        self.order: list[str] = []
        self.refused: list[str] = []
        self.stopping = False
        self.releases = asyncio.Semaphore(0)
        limits = FairQueueLimits(
            caller_of=lambda subject: subject.split(".")[2],
            max_waiting=max_waiting,
            max_share=max_share,
            max_concurrent=max_concurrent,
            max_concurrent_of=lambda caller: (max_of_flood or max_concurrent) if caller == "flood" else max_concurrent,
            max_wait_s=max_wait_s,
            repeatable=repeatable,
        )
        self.queue = FairRequestQueue(limits, self._serve, self._refuse)

    async def _serve(self, message: Msg) -> None:
        self.order.append(message.subject.split(".")[2])
        await self.releases.acquire()

    async def _refuse(self, message: Msg, waiting: int | None) -> None:
        self.refused.append(message.subject.split(".")[2])
        self.stopping = waiting is None

    async def release(self, count: int) -> None:
        for _ in range(count):
            self.releases.release()
            for _ in range(5):  # one ends, and the next begins
                await asyncio.sleep(0)


async def test_whoever_comes_after_a_flood_is_next() -> None:
    server = QueuedServer(max_concurrent=2)
    for number in range(20):
        await server.queue.accept(request("flood", number))
    for number in range(3):
        await server.queue.accept(request("other", number))
    await asyncio.sleep(0)
    assert server.order == ["flood", "flood"], "no more at once"
    await server.release(6)
    assert server.order[2:8] == ["flood", "other"] * 3
    await server.release(30)
    assert len(server.order) == 23


async def test_who_may_have_few_at_a_time_leaves_the_rest_of_the_places_to_others() -> None:
    server = QueuedServer(max_concurrent=8, max_of_flood=2)
    for number in range(20):
        await server.queue.accept(request("flood", number))
    for number in range(10):
        await server.queue.accept(request("other", number))
    await asyncio.sleep(0)
    assert server.order == ["flood", "flood", *["other"] * 6], "the flood has its two, all other places are free"
    await server.release(30)
    assert len(server.order) == 30, "nobody is forgotten"


async def test_a_flood_is_refused_before_it_leaves_no_room_to_others() -> None:
    server = QueuedServer(max_concurrent=1, max_waiting=10)
    for number in range(12):
        await server.queue.accept(request("flood", number))
    assert server.refused == ["flood"] * 3, "one is served, eight wait"
    for caller in ("b", "c", "d"):
        await server.queue.accept(request(caller))
    assert server.refused[3:] == ["d"], "ten wait"


async def test_what_waits_when_the_queue_closes_gets_an_error() -> None:
    server = QueuedServer(max_concurrent=1)
    for caller in ("a", "b", "c"):
        await server.queue.accept(request(caller))
    await asyncio.sleep(0)
    server.releases.release()
    await server.queue.stop()
    assert server.order == ["a"]
    assert sorted(server.refused) == ["b", "c"]
    await asyncio.sleep(0)
    assert server.order == ["a"], "nothing begins when the last one ends"


async def test_an_answer_that_fails_lets_the_next_begin() -> None:
    served: list[bytes] = []
    listed: list[BaseException] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: listed.append(context["exception"]))

    async def serve(message: Msg) -> None:
        served.append(message.data)
        if message.data == b"0":
            raise OSError

    async def refuse(message: Msg, _waiting: int | None) -> None:
        raise AssertionError(message.subject)

    limits = FairQueueLimits(
        caller_of=str, max_waiting=10, max_share=1.0, max_concurrent=1, max_concurrent_of=lambda _: 1
    )
    queue = FairRequestQueue(limits, serve, refuse)
    for number in range(3):
        await queue.accept(request("me", number))
    for _ in range(20):
        await asyncio.sleep(0)
    assert served == [b"0", b"1", b"2"]
    assert [type(error) for error in listed] == [OSError], "the failure is still reported"


async def test_a_request_whose_turn_comes_too_late_is_refused_then() -> None:
    server = QueuedServer(max_concurrent=1, max_wait_s=0.5)
    for caller in ("a", "late", "late"):
        await server.queue.accept(request(caller))
    await asyncio.sleep(0.6)
    await server.queue.accept(request("b"))
    await server.release(2)
    assert server.order == ["a", "b"]
    assert server.refused == ["late", "late"] and not server.stopping


async def test_what_may_be_repeated_and_still_runs_when_the_queue_closes_is_sent_to_another_replica() -> None:
    server = QueuedServer(max_concurrent=2, repeatable=True)
    for caller in ("a", "b", "c"):
        await server.queue.accept(request(caller))
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await server.queue.stop()
    assert server.order == ["a", "b"]
    assert sorted(server.refused) == ["a", "b", "c"] and server.stopping


async def test_long_requests_of_one_caller_wait_up_to_so_many_bytes_and_those_of_others_beside_them() -> None:
    server = QueuedServer(max_concurrent=1)
    third = WAITING_BYTES_OF_ONE // 3
    for number in range(6):
        await server.queue.accept(request("flood", number, third))
    assert server.refused == ["flood"] * 3, "one runs, two wait, and the third would be more than that"
    await server.queue.accept(request("other", 0, 2 * WAITING_BYTES_OF_ONE))
    assert len(server.refused) == 3, "what waits alone may be of any size"
    await server.queue.accept(request("other", 1))
    assert server.refused[3:] == ["other"]
    for number in range(WAITING_BYTES // WAITING_BYTES_OF_ONE):
        await server.queue.accept(request(f"more{number}", 0, WAITING_BYTES_OF_ONE - 9))
        await server.queue.accept(request(f"more{number}", 1, third))
    assert set(server.refused[4:]) >= {"more3"}
    await server.release(20)
    await server.queue.accept(request("flood", 9, third))
    await server.queue.accept(request("flood", 9, third))
    assert server.refused[-1] != "flood", "what was served waits no more"
    await server.release(9)
