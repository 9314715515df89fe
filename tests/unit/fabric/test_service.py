"""A service describes what it answers, as FastStream sees its handlers, and tells the time of its machine."""

import asyncio
import json
import time
from datetime import timedelta
from pathlib import Path as FilePath
from typing import Annotated, Any

import pytest
import structlog
import uvicorn
from faststream import Path

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.rpc import GET_RUN
from towpath_contracts.runs.views import ActionDone, CancelRun, GetRun
from towpath_fabric import clock
from towpath_fabric.clock import NS, use_simulated_clock
from towpath_fabric.service import DateHeaderServerState, Service
from towpath_fabric.settings import Settings


async def get_run(request: GetRun) -> ActionDone:
    return ActionDone(detail=request.project)


async def cancel(request: CancelRun, caller: Annotated[str, Path()]) -> ActionDone:
    return ActionDone(detail=caller)


async def test_a_service_serves_the_document_of_its_subscribers() -> None:
    service = Service("orchestrator", Settings.load())
    service.bus.subscriber(GET_RUN)(get_run)
    service.bus.subscriber("task.cancel.{caller}")(cancel)
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("nothing is read of this request")

    await service.asgi()({"type": "http", "path": "/asyncapi.json", "method": "GET", "headers": []}, receive, send)
    assert sent[0]["status"] == 200
    document = json.loads(b"".join(message.get("body", b"") for message in sent[1:]))
    assert {channel["address"] for channel in document["channels"].values()} == {
        GET_RUN.subject,
        "task.cancel.{caller}",
    }
    assert {"GetRun", "CancelRun"} <= set(document["components"]["schemas"])


async def test_a_handler_has_to_take_the_message_of_its_method() -> None:
    bus = Service("orchestrator", Settings.load()).bus

    async def untyped(request: Any) -> ActionDone:
        return ActionDone(detail=str(request))

    async def hidden(_request: GetRun) -> ActionDone:
        return ActionDone()

    for handler, why in (
        (cancel, "takes GetRun, its handler CancelRun"),
        (untyped, "has to declare the message"),
        (hidden, "which FastStream would not pass"),
    ):
        try:
            bus.subscriber(GET_RUN)(handler)
        except TypeError as error:
            assert why in str(error)
        else:
            raise AssertionError(handler)


def test_a_response_has_the_date_of_its_second() -> None:
    config = uvicorn.Config(Service("orchestrator", Settings.load()).asgi(), server_header=False)
    config.load()
    state = DateHeaderServerState(config)
    seconds = 0.0
    with use_simulated_clock(lambda: seconds, 784_111_777 * NS):
        assert state.default_headers == [(b"date", b"Sun, 06 Nov 1994 08:49:37 GMT")]
        seconds = 62.5
        assert state.default_headers == [(b"date", b"Sun, 06 Nov 1994 08:50:39 GMT")]


def test_the_wall_time_is_that_of_the_files_of_this_machine(tmp_path: FilePath) -> None:
    (tmp_path / "now").touch()
    written = (tmp_path / "now").stat().st_mtime
    assert abs(clock.wall().timestamp() - written) < 60
    assert abs(clock.wall_ns() / 1e9 - written) < 60


def test_a_simulated_second_is_a_second_of_both_clocks() -> None:
    with clock.use_simulated_clock(lambda: 90.0, began_ns=0):
        assert clock.monotonic() == 90.0
        assert clock.wall().timestamp() == timedelta(minutes=1.5).total_seconds()
    assert abs(clock.monotonic() - time.monotonic()) < 60


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ProblemError(problem("broker_denied", "no right")), ("the process ends", "no right")),
        (ValueError("odd"), ("a loop failed, the process ends", None)),
    ],
)
async def test_why_a_loop_ended_the_process_is_logged_with_its_name(
    error: Exception, told: tuple[str, str | None]
) -> None:
    service = Service("orchestrator", Settings.load())
    service.problem = problem("internal", "of another loop, which ended before")
    service._server = uvicorn.Server(uvicorn.Config("app"))

    async def fails() -> None:
        raise error

    with structlog.testing.capture_logs() as logs:
        task = asyncio.create_task(fails(), name="heartbeats")
        await asyncio.wait({task})
        service._finished(task)
    assert [(one["event"], one.get("detail"), one["loop"]) for one in logs] == [(*told, "heartbeats")]
    assert service._server.should_exit
