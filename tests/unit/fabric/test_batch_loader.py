"""Callers that ask at the same time share one query, and are never answered by an older one."""

import asyncio

import pytest

from towpath_fabric.batch_loader import KeyBatchLoader


async def test_a_key_asked_for_during_a_query_is_answered_by_the_next_query() -> None:
    stored = {"a": 1}
    queries: list[list[str]] = []
    go = asyncio.Event()

    async def load(keys: list[str]) -> dict[str, int]:
        found_now = {key: stored[key] for key in keys if key in stored}
        queries.append(sorted(keys))
        await go.wait()
        return found_now

    loader = KeyBatchLoader(load)
    first = [asyncio.create_task(loader.get("a")) for _ in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    stored["a"] = 2
    later = [asyncio.create_task(loader.get(key)) for key in ("a", "a", "b")]
    await asyncio.sleep(0)
    go.set()
    assert await asyncio.gather(*first) == [1, 1, 1]
    assert await asyncio.gather(*later) == [2, 2, None]
    assert queries == [["a"], ["a", "b"]]


async def test_a_failed_query_fails_its_callers_and_the_next_is_a_new_one() -> None:
    answers = [OSError("away"), {"a": 1}]

    async def load(_keys: list[str]) -> dict[str, int]:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    loader = KeyBatchLoader(load)
    failed = await asyncio.gather(*(loader.get("a") for _ in range(3)), return_exceptions=True)
    assert [str(error) for error in failed] == ["away"] * 3
    assert await loader.get("a") == 1


async def test_a_caller_that_gives_up_cancels_no_other() -> None:
    go = asyncio.Event()

    async def load(keys: list[str]) -> dict[str, int]:
        await go.wait()
        return dict.fromkeys(keys, 7)

    loader = KeyBatchLoader(load)
    patient = asyncio.create_task(loader.get("a"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(loader.get("a"), 0.01)
    go.set()
    assert await patient == 7


async def test_a_key_that_fails_the_query_fails_for_its_callers_only() -> None:
    async def load(keys: list[str]) -> dict[str, int]:
        if "\0" in keys:
            msg = "no such key"
            raise ValueError(msg)
        return dict.fromkeys(keys, 7)

    loader = KeyBatchLoader(load)
    found = await asyncio.gather(*(loader.get(key) for key in ("a", "\0", "b")), return_exceptions=True)
    assert [str(one) for one in found] == ["7", "no such key", "7"]
