"""What follows files goes on after it has failed, and tells each cause once."""

import asyncio

import pytest

from towpath_embedded import followers
from towpath_embedded.followers import TOLD_ANEW_AFTER_S, keep_following


async def test_what_fails_is_told_once_for_each_cause_and_begun_again() -> None:
    causes = [OSError("full"), OSError("full"), ValueError("odd\x1b[31m\nlines"), OSError("full")]
    told: list[str] = []
    done = asyncio.Event()

    async def follow() -> None:
        if not causes:
            done.set()
            await asyncio.Event().wait()
        raise causes.pop(0)

    following = asyncio.create_task(keep_following("watching", follow, lambda line, _: told.append(line), again_s=0))
    await asyncio.wait_for(done.wait(), 10)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert following.cancelled()
    begun = "watching failed, and is begun again: "
    assert [line.removeprefix(begun) for line in told] == [
        "OSError: full", "ValueError: odd lines", "OSError: full",
    ]  # fmt: skip


async def test_the_same_failure_is_told_anew_where_all_went_well_between(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, lengths, told, done = 0.0, [1.0, 2 * TOLD_ANEW_AFTER_S, 1.0], list[str](), asyncio.Event()
    monkeypatch.setattr(followers, "monotonic", lambda: now_s)

    async def follow() -> None:
        nonlocal now_s
        if not lengths:
            done.set()
            await asyncio.Event().wait()
        now_s += lengths.pop(0)
        raise OSError("full")

    following = asyncio.create_task(keep_following("watching", follow, lambda line, _: told.append(line), again_s=0))
    await asyncio.wait_for(done.wait(), 10)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert len(told) == 2
