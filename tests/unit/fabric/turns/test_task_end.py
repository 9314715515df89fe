"""Tasks that run for ever end, also those that miss being cancelled."""

import asyncio
import sys

from towpath_fabric.turns.task_end import end_tasks


async def test_a_task_that_misses_being_cancelled_is_cancelled_again() -> None:
    missed = 0

    async def asks() -> None:
        nonlocal missed
        while True:
            try:
                await asyncio.sleep(3_600)
            except asyncio.CancelledError:
                missed += 1
                if missed == 3:
                    raise

    task = asyncio.create_task(asks())
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await end_tasks([task], again_s=0.01)
    assert task.cancelled() and missed == 3


async def test_a_loop_that_waits_as_nats_py_does_ends_in_the_moment_of_an_answer() -> None:
    answers: list[asyncio.Future[None]] = []

    async def asks() -> None:
        while True:
            answers.append(asyncio.get_running_loop().create_future())
            await asyncio.wait_for(answers[-1], 3_600)

    task = asyncio.create_task(asks())
    await asyncio.sleep(0.01)
    answers[-1].set_result(None)
    async with asyncio.timeout(10):
        await end_tasks([task], again_s=0.05)
    assert task.cancelled()
    assert len(answers) == (2 if sys.version_info < (3, 12) else 1)


async def test_a_task_has_time_to_put_away_what_it_has() -> None:
    put_away: list[str] = []

    async def works() -> None:
        try:
            await asyncio.sleep(3_600)
        finally:
            await asyncio.sleep(0.05)
            put_away.append("all")

    task = asyncio.create_task(works())
    await asyncio.sleep(0)
    await end_tasks([task])
    assert put_away == ["all"]


async def test_what_failed_or_has_ended_is_no_concern() -> None:
    async def fails() -> None:
        raise ValueError("no")

    tasks = [asyncio.create_task(fails()), asyncio.create_task(asyncio.sleep(0))]
    await asyncio.sleep(0.01)
    await end_tasks(tasks)
    await end_tasks([])
    assert all(task.done() for task in tasks)
