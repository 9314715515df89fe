"""A request or an answer that no message can hold is refused at once, not waited for."""

import time

import pytest
from structlog.testing import capture_logs

from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.rpc import RpcMethod
from towpath_contracts.runs.views import ActionDone
from towpath_embedded.servers.nats import Nats
from towpath_fabric.nats.bus import Bus
from towpath_fabric.settings import Settings

ECHO = RpcMethod("tas", "echo", ActionDone, ActionDone)


async def test_what_is_too_large_is_refused_at_once(nats_server: Nats) -> None:
    settings = Settings.load(nats_url=nats_server.url())
    tas, gateway = Bus("tas", settings), Bus("gateway", settings)

    async def repeat(request: ActionDone) -> ActionDone:
        return ActionDone(detail=request.detail * 2)

    tas.subscriber(ECHO)(repeat)
    await tas.connect()
    await tas.broker.start()
    await gateway.connect()
    try:
        assert (await gateway.request(ECHO, ActionDone(detail="ab"))).detail == "abab"
        begun = time.monotonic()
        with pytest.raises(ProblemError) as answer:
            await gateway.request(ECHO, ActionDone(detail="x" * 600_000), timeout_s=60)
        assert answer.value.problem.code == "answer_too_large"
        with pytest.raises(ProblemError) as request:
            await gateway.request(ECHO, ActionDone(detail="x" * 2_000_000), timeout_s=60)
        assert request.value.problem.code == "request_too_large"
        assert time.monotonic() - begun < 30  # nothing is waited for
    finally:
        await gateway.close()
        await tas.close()


async def test_a_subject_that_no_message_can_have_is_refused_and_logged_once(nats_server: Nats) -> None:
    bus = Bus("tas", Settings.load(nats_url=nats_server.url()))
    await bus.connect()
    try:
        with capture_logs() as logs:
            for subject in ("tool.call.a b", "tool.call.a\tb", "run.event.\r\nPUB x", ""):
                assert not await bus.publish(subject, b"{}")
            assert await bus.publish("tool.call.fine", b"{}")
        assert [line["subject"] for line in logs] == ["tool.call.a b", "run.event.\r\nPUB x", ""]
    finally:
        await bus.close()
