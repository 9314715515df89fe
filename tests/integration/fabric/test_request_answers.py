"""Every request gets an answer whatever its handler does, and requests run concurrently."""

import asyncio
from typing import Annotated

import pytest
from faststream import Path

from towpath_contracts.problems.registry import Problem, ProblemError, problem
from towpath_contracts.runs.views import ActionDone, GetRun
from towpath_embedded.servers.nats import Nats
from towpath_fabric.nats import replies
from towpath_fabric.nats.bus import Bus
from towpath_fabric.settings import Settings
from towpath_fabric.turns.fair_request_queue import FairQueueLimits

REQUEST = GetRun(project="p", run_id="00000000-0000-0000-0000-000000000001")


class DatabaseUnreachableError(Exception):
    """What a driver raises while its server is away."""


class TooLargeError(Exception):
    """What a driver raises for a value that no column holds."""


async def answer(request: GetRun, outcome: Annotated[str, Path()]) -> ActionDone:
    match outcome:
        case "slow":
            await asyncio.sleep(0.5)
        case "broken":
            raise KeyError("secret")
        case "unreachable":
            raise DatabaseUnreachableError
        case "unstorable":
            raise TooLargeError
        case "refuses":
            raise ProblemError(problem("run_not_found", "none"))
    return ActionDone(detail=f"svc.tester.{outcome}")


async def test_every_request_gets_an_answer(nats_server: Nats) -> None:
    bus = Bus("tester", Settings.load(nats_url=nats_server.url()))
    bus.replies.unavailable_errors = (OSError, DatabaseUnreachableError)
    bus.replies.invalid_data_errors = (TooLargeError,)
    bus.subscriber("svc.tester.{outcome}")(answer)
    await bus.connect()
    await bus.broker.start()
    try:
        assert (await bus.request_subject("svc.tester.fine", REQUEST, ActionDone)).detail == "svc.tester.fine"
        for subject, code, retryable in (
            ("broken", "internal", False),
            ("unreachable", "unavailable", True),
            ("unstorable", "request_invalid", False),
            ("refuses", "run_not_found", False),
        ):
            with pytest.raises(ProblemError) as caught:
                await bus.request_subject(f"svc.tester.{subject}", REQUEST, ActionDone, timeout_s=60)
            assert (caught.value.problem.code, caught.value.problem.retryable) == (code, retryable)
            assert "secret" not in caught.value.problem.detail
        with pytest.raises(ProblemError, match="request_invalid"):
            await bus.request_subject("svc.tester.fine", ActionDone(), ActionDone, timeout_s=60)
    finally:
        await bus.close()


async def test_a_request_that_waits_delays_no_other(nats_server: Nats) -> None:
    bus = Bus("tester", Settings.load(nats_url=nats_server.url()))
    bus.subscriber("svc.tester.{outcome}")(answer)
    await bus.connect()
    await bus.broker.start()
    try:
        async with asyncio.timeout(9):
            await asyncio.gather(*(bus.request_subject("svc.tester.slow", REQUEST, ActionDone) for _ in range(20)))
    finally:
        await bus.close()


async def test_what_waits_for_a_silent_server_is_told_so_before_its_caller_gives_up(
    nats_server: Nats, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By both ways to answer. The handler goes on: what it does may be half-way."""
    silent, ended = False, asyncio.Event()

    async def silence(subject: str) -> Problem | None:
        return problem("unavailable", f"Postgres does not answer {subject}") if silent else None

    async def wait(request: GetRun) -> ActionDone:
        await asyncio.sleep(0.5)
        ended.set()
        return ActionDone(detail="done")

    async def wait_fairly(request: GetRun, _caller: str) -> ActionDone:
        return await wait(request)

    monkeypatch.setattr(replies, "LOOKS_AFTER_S", 0.1)
    bus = Bus("tester", Settings.load(nats_url=nats_server.url()))
    bus.replies.silence = silence
    bus.subscriber("svc.tester.wait")(wait)
    await bus.connect()
    limits = FairQueueLimits(
        caller_of=lambda _: "c", max_waiting=9, max_share=1.0, max_concurrent=9, max_concurrent_of=lambda _: 9
    )
    await bus.subscribe_fairly(("svc.tester.fair",), wait_fairly, limits)
    await bus.broker.start()
    try:
        for subject in ("svc.tester.wait", "svc.tester.fair"):
            silent = False
            assert (await bus.request_subject(subject, REQUEST, ActionDone)).detail == "done"
            silent = True
            ended.clear()
            with pytest.raises(ProblemError, match=f"Postgres does not answer {subject}"):
                await bus.request_subject(subject, REQUEST, ActionDone)
            assert not ended.is_set()
            async with asyncio.timeout(9):
                await ended.wait()
    finally:
        await bus.close()
