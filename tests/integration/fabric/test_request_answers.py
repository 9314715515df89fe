"""Every request gets an answer whatever its handler does, and requests run concurrently."""

import asyncio
from typing import Annotated

import pytest
from faststream import Path

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.views import ActionDone, GetRun
from towpath_embedded.servers.nats import Nats
from towpath_fabric.nats.bus import Bus
from towpath_fabric.settings import Settings

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
