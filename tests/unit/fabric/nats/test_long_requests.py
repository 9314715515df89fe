"""Long requests are read one at a time, with pauses; one with more lists and objects than is usual is not read."""

import asyncio
import json
import time
from types import SimpleNamespace
from typing import Any

import pytest

from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.workers import RegisterTools
from towpath_fabric.nats import long_requests
from towpath_fabric.nats.long_requests import LONG_BYTES, LongReadings, LongRequestReader

BODY: dict[str, Any] = {"toolset": "desk", "worker": "w", "owner": "o", "tools": []}


def message(project: str = "shop", **more: Any) -> Any:
    raw = SimpleNamespace(subject=f"svc.tas.register_tools.{project}.desk")
    return SimpleNamespace(body=json.dumps({**BODY, **more}).encode(), raw_message=raw)


def reader(max_brackets: int = 100) -> Any:
    return LongRequestReader(max_brackets, lambda subject, _: subject.split(".")[-2]).decoder(RegisterTools)


async def test_more_brackets_than_an_honest_request_has_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_requests, "read_request", lambda *_: pytest.fail("it was read"))
    for many in ([[]] * 101, [{}] * 101):
        with pytest.raises(ProblemError, match="more than 100 lists and objects"):
            await reader()(message(junk=many))


async def test_a_request_is_read_whether_it_is_long_or_not() -> None:
    for length in (1, 2 * LONG_BYTES):
        assert (await reader()(message(owner="x" * length))).owner == "x" * length
    with pytest.raises(ProblemError, match="request_invalid"):
        await reader()(message(owner=7, junk="x" * LONG_BYTES))


async def test_long_requests_leave_the_others_most_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[float] = []

    def read(*_: Any) -> RegisterTools:
        began.append(time.monotonic())
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass
        return RegisterTools.model_validate(BODY)

    monkeypatch.setattr(long_requests, "read_request", read)
    decode = reader()
    await asyncio.gather(*(decode(message(project, junk="x" * LONG_BYTES)) for project in ("a", "a", "a", "b")))
    assert len(began) == 4 and began[-1] - began[0] >= 3 * 0.02 * (1 + long_requests.PAUSES) * 0.9


async def test_long_messages_of_one_moment_are_read_one_after_the_other_and_short_ones_at_once() -> None:
    readings, order = LongReadings(), list[str]()

    def read(data: bytes) -> int:
        order.append("read")
        return len(data)

    async def other() -> None:
        for _ in range(40):
            await asyncio.sleep(0)
            order.append("other")

    sizes = (1, *[LONG_BYTES + 1] * 6)
    answers = await asyncio.gather(*[readings.read("p", b"x" * size, read) for size in sizes], other())
    assert answers[: len(sizes)] == list(sizes)
    assert order[:2] == ["read", "read"]
    later = "".join("r" if one == "read" else "o" for one in order[2:])
    assert "rr" not in later, "others go on between two of them"
