"""Many who ask at once are answered by one question, and never by an older one."""

import asyncio

import pytest

from towpath_fabric.batch_loader import Rounds


async def test_what_is_asked_during_a_round_is_answered_by_the_next() -> None:
    world = {"a": 1}
    asked: list[list[str]] = []
    go = asyncio.Event()

    async def look(keys: list[str]) -> dict[str, int]:
        seen = {key: world[key] for key in keys if key in world}
        asked.append(sorted(keys))
        await go.wait()
        return seen

    rounds = Rounds(look)
    first = [asyncio.create_task(rounds.get("a")) for _ in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    world["a"] = 2
    later = [asyncio.create_task(rounds.get(key)) for key in ("a", "a", "b")]
    await asyncio.sleep(0)
    go.set()
    assert await asyncio.gather(*first) == [1, 1, 1]
    assert await asyncio.gather(*later) == [2, 2, None]
    assert asked == [["a"], ["a", "b"]]


async def test_a_failed_round_fails_those_who_asked_and_the_next_is_a_new_one() -> None:
    answers = [OSError("away"), {"a": 1}]

    async def look(_keys: list[str]) -> dict[str, int]:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    rounds = Rounds(look)
    failed = await asyncio.gather(*(rounds.get("a") for _ in range(3)), return_exceptions=True)
    assert [str(error) for error in failed] == ["away"] * 3
    assert await rounds.get("a") == 1


async def test_whoever_gives_up_spoils_it_for_nobody() -> None:
    go = asyncio.Event()

    async def look(keys: list[str]) -> dict[str, int]:
        await go.wait()
        return dict.fromkeys(keys, 7)

    rounds = Rounds(look)
    patient = asyncio.create_task(rounds.get("a"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(rounds.get("a"), 0.01)
    go.set()
    assert await patient == 7


async def test_a_key_that_nobody_can_look_for_spoils_it_for_no_other() -> None:
    async def look(keys: list[str]) -> dict[str, int]:
        if "\0" in keys:
            msg = "no such key"
            raise ValueError(msg)
        return dict.fromkeys(keys, 7)

    rounds = Rounds(look)
    found = await asyncio.gather(*(rounds.get(key) for key in ("a", "\0", "b")), return_exceptions=True)
    assert [str(one) for one in found] == ["7", "no such key", "7"]
