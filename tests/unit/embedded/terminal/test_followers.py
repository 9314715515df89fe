"""What follows files goes on after it has failed, and tells each cause once."""

import asyncio

from towpath_embedded.followers import keep_following


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
