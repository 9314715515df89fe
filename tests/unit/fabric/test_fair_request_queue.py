"""A door: who asks much waits behind who asks little, and what is too much is told so at once."""

import asyncio

from nats.aio.client import Client
from nats.aio.msg import Msg

from towpath_fabric.fair_request_queue import Door, Rules


def asked(caller: str, number: int = 0) -> Msg:
    return Msg(_client=Client(), subject=f"task.submit.{caller}", data=str(number).encode())


class House:
    """What is served waits until it is let go."""

    def __init__(self, *, at_once: int, most: int = 100, share: float = 0.8) -> None:
        self.order: list[str] = []
        self.refused: list[str] = []
        self.gate = asyncio.Semaphore(0)
        rules = Rules(asker=lambda subject: subject.split(".")[2], most=most, share=share, at_once=lambda: at_once)
        self.door = Door(rules, self._serve, self._full)

    async def _serve(self, message: Msg) -> None:
        self.order.append(message.subject.split(".")[2])
        await self.gate.acquire()

    async def _full(self, message: Msg, _waiting: int) -> None:
        self.refused.append(message.subject.split(".")[2])

    async def let_go(self, count: int) -> None:
        for _ in range(count):
            self.gate.release()
            for _ in range(5):  # one ends, and the next begins
                await asyncio.sleep(0)


async def test_whoever_comes_after_a_flood_is_next() -> None:
    house = House(at_once=2)
    for number in range(20):
        await house.door.heard(asked("flood", number))
    for number in range(3):
        await house.door.heard(asked("other", number))
    await asyncio.sleep(0)
    assert house.order == ["flood", "flood"], "no more at once"
    await house.let_go(6)
    assert house.order[2:8] == ["flood", "other"] * 3
    await house.let_go(30)
    assert len(house.order) == 23


async def test_a_flood_is_refused_before_it_leaves_no_room_to_others() -> None:
    house = House(at_once=1, most=10)
    for number in range(12):
        await house.door.heard(asked("flood", number))
    assert house.refused == ["flood"] * 3, "one is served, eight wait"
    for caller in ("b", "c", "d"):
        await house.door.heard(asked(caller))
    assert house.refused[3:] == ["d"], "ten wait"


async def test_what_waits_when_the_door_closes_is_told_so() -> None:
    house = House(at_once=1)
    for caller in ("a", "b", "c"):
        await house.door.heard(asked(caller))
    await asyncio.sleep(0)
    house.gate.release()
    await house.door.stop()
    assert house.order == ["a"]
    assert sorted(house.refused) == ["b", "c"]


async def test_an_answer_that_fails_lets_the_next_begin() -> None:
    served: list[bytes] = []
    told: list[BaseException] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: told.append(context["exception"]))

    async def serve(message: Msg) -> None:
        served.append(message.data)
        if message.data == b"0":
            raise OSError

    async def full(message: Msg, _waiting: int) -> None:
        raise AssertionError(message.subject)

    door = Door(Rules(asker=str, most=10, share=1.0, at_once=lambda: 1), serve, full)
    for number in range(3):
        await door.heard(asked("me", number))
    for _ in range(20):
        await asyncio.sleep(0)
    assert served == [b"0", b"1", b"2"]
    assert [type(error) for error in told] == [OSError], "the failure is still told"
