"""`towpath workers`: those that are gone come last, and one that is gone is not drained."""

import asyncio
import json
from typing import Any

import pytest
from tests.support.gateway.web import Asked, response, web

from towpath.cli import main


def process(worker_id: str, name: str, state: str, heard_at: str) -> dict[str, Any]:
    return {
        "worker_id": worker_id * 32,
        "name": name,
        "toolsets": ["default"],
        "host": "here",
        "version": "0.1.0",
        "state": state,
        "started_at": "2026-11-27T08:00:00Z",
        "heard_at": heard_at,
        "calls": 0,
        "slots": 16,
    }


KNOWN = [
    process("a1", "billing", "gone", "2026-11-27T08:10:00Z"),
    process("b2", "billing", "gone", "2026-11-27T08:20:00Z"),
    process("c3", "mail", "draining", "2026-11-27T09:00:00Z"),
    process("d4", "mail", "taking", "2026-11-27T09:00:00Z"),
]


async def ask(*words: str) -> int:
    listed = response(200, json.dumps({"workers": KNOWN}).encode(), content_type="application/json")
    async with web(lambda _: listed) as server:
        return await asyncio.to_thread(main, ["workers", *words, "--server", server.url("", "127.0.0.1")])


async def test_workers_that_are_gone_are_listed_last(capsys: pytest.CaptureFixture[str]) -> None:
    assert await ask("list", "-o", "json") == 0
    listed = json.loads(capsys.readouterr().out)["workers"]
    assert [one["state"] for one in listed] == ["draining", "taking", "gone", "gone"]


async def test_of_workers_of_one_name_the_one_that_takes_calls_is_meant() -> None:
    asked: list[str] = []

    def answer(request: Asked) -> bytes:
        asked.append(request.path)
        body = {"workers": KNOWN} if request.method == "GET" else {"worker": KNOWN[3], "changed": True}
        return response(200, json.dumps(body).encode(), content_type="application/json")

    async with web(answer) as server:
        words = ["workers", "drain", "mail", "--server", server.url("", "127.0.0.1")]
        assert await asyncio.to_thread(main, words) == 0
    assert asked[-1] == f"/v1/workers/{'d4' * 32}/drain"


async def test_who_drains_a_worker_that_is_gone_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert await ask("drain", "billing") == 3
    said = capsys.readouterr().err
    assert "the worker 'billing' is gone, last heard of at 2026-11-27 08:20:00 UTC: it takes no calls" in said
    assert await ask("drain", "orders") == 3
    assert "no workers that are there are meant by 'orders'" in capsys.readouterr().err
