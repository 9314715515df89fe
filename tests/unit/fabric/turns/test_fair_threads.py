"""Long computations: the loop goes on, projects take turns, and a project has only so many in the line, for so long."""

import asyncio
import threading

import pytest
from tests.support.shared_threads import no_shared_thread

from towpath_contracts.problems.registry import ProblemError
from towpath_fabric.turns.fair_threads import MAX_WAITING, FairThreads


class Computations:
    """What is computed waits until it is released."""

    def __init__(self, threads: FairThreads | None = None) -> None:
        self.threads = threads or FairThreads()
        self.order: list[str] = []
        self.began = threading.Semaphore(0)
        self.released = threading.Semaphore(0)

    def begin(self, project: str) -> "asyncio.Task[str]":
        def compute() -> str:
            self.order.append(project)
            self.began.release()
            self.released.acquire()
            return project

        return asyncio.create_task(self.threads.run(project, compute))

    async def begun(self, number: int) -> None:
        async with asyncio.timeout(60):
            for _ in range(number):
                await asyncio.to_thread(self.began.acquire)


async def test_another_project_waits_for_one_computation_of_a_flood() -> None:
    work = Computations()
    flood = [work.begin("flood") for _ in range(5)]
    await work.begun(1)
    other = work.begin("shop")
    await asyncio.sleep(0)
    for _ in range(6):
        work.released.release()
    assert await asyncio.gather(*flood, other) == ["flood"] * 5 + ["shop"]
    assert work.order.index("shop") == 1


async def test_a_project_that_has_too_many_in_the_line_is_refused_and_others_are_not() -> None:
    work = Computations()
    flood = [work.begin("flood") for _ in range(MAX_WAITING + 1)]
    await work.begun(1)
    with pytest.raises(ProblemError) as refused:
        await work.begin("flood")
    assert refused.value.problem.code == "overloaded"
    assert refused.value.problem.retry_after_s == 1
    other = work.begin("shop")
    for _ in range(MAX_WAITING + 2):
        work.released.release()
    assert await other == "shop"
    await asyncio.gather(*flood)
    last = work.begin("flood")
    work.released.release()
    assert await last == "flood"


async def test_who_gives_up_keeps_the_turn_until_the_thread_has_ended() -> None:
    work = Computations()
    given_up = work.begin("shop")
    await work.begun(1)
    given_up.cancel()
    other = work.begin("bank")
    await asyncio.sleep(0.02)
    assert work.order == ["shop"]
    work.released.release()
    work.released.release()
    assert await other == "bank"
    assert given_up.cancelled()


async def test_an_error_is_raised_and_ends_the_turn() -> None:
    threads = FairThreads()
    with pytest.raises(ZeroDivisionError):
        await threads.run("shop", lambda: 1 // 0)
    assert await threads.run("shop", lambda: 1) == 1


async def test_it_shares_no_thread_with_what_others_compute() -> None:
    threads = FairThreads(name="own")
    async with no_shared_thread(), asyncio.timeout(60):
        assert await threads.run("shop", lambda: threading.current_thread().name) == "own_0"


async def test_so_many_projects_compute_at_once_and_of_each_one() -> None:
    work = Computations(FairThreads(2))
    flood = [work.begin("flood") for _ in range(3)]
    others = [work.begin("shop"), work.begin("bank")]
    await work.begun(2)
    await asyncio.sleep(0.02)
    assert work.order == ["flood", "shop"]
    work.released.release()  # one alone: two threads that begin at once write their names in either order
    await work.begun(1)
    assert work.order == ["flood", "shop", "bank"]
    for _ in range(4):
        work.released.release()
    assert await asyncio.gather(*flood, *others) == ["flood"] * 3 + ["shop", "bank"]


async def test_what_has_waited_for_longer_than_its_caller_is_refused_and_never_computed() -> None:
    work = Computations(FairThreads(max_wait_s=0.05))
    first = work.begin("flood")
    await work.begun(1)
    late = [work.begin("flood"), work.begin("shop")]
    for answer in await asyncio.gather(*late, return_exceptions=True):
        assert isinstance(answer, ProblemError)
        assert (answer.problem.code, answer.problem.retry_after_s) == ("overloaded", 1)
    work.released.release()
    assert await first == "flood"
    assert work.order == ["flood"]
    again = work.begin("shop")
    work.released.release()
    assert await again == "shop"


async def test_a_turn_is_held_for_all_that_is_computed_in_it() -> None:
    work = Computations()
    async with work.threads.turn("shop"):
        assert await work.threads.compute(lambda: 1) == 1
        other = work.begin("bank")
        assert await work.threads.compute(lambda: list(work.order)) == []
    work.released.release()
    assert await other == "bank"
