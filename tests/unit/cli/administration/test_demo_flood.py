"""`towpath demo flood`: its own runs are waited for, however they end, and a refusal is told as such."""

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest
from tests.support.gateway.web import Asked, response, web

from towpath.cli.administration import demo_flood
from towpath.cli.administration.demo_flood import run_flood
from towpath.cli.administration.embedded_platform import EmbeddedPlatform
from towpath.cli.shared.output import OutputPrinter
from towpath.errors import TowpathError
from towpath_contracts.problems.registry import ProblemError, problem

NOW = datetime(2026, 11, 28, tzinfo=UTC).isoformat()


class Gateway:
    """A gateway whose runs have ended with *status* as soon as they are accepted; it has one of an earlier flood."""

    def __init__(self, status: str, *, refuses: bool = False) -> None:
        self._status = status
        self._refuses = refuses
        self._runs: list[Any] = [self._run({"demo": "flood"})]

    def answer(self, asked: Asked) -> bytes:
        if asked.method == "POST":
            if self._refuses:
                found = problem("forbidden", "this is a test")
                return response(found.status, found.model_dump_json().encode(), content_type="application/problem+json")
            run = self._run(json.loads(asked.body)["labels"])
            self._runs.insert(0, run)
            return response(202, json.dumps(run).encode(), content_type="application/json")
        name, _, value = parse_qs(urlsplit(asked.path).query)["label"][0].partition("=")
        found = [run for run in self._runs if run["labels"].get(name) == value]
        return response(200, json.dumps({"runs": found}).encode(), content_type="application/json")

    def _run(self, labels: dict[str, str]) -> Any:
        return {
            "run_id": str(uuid4()), "project": "default", "kind": "network", "network": "support", "version": 1,
            "snapshot_digest": "", "status": self._status, "caller": "local", "seq": 9, "labels": labels,
            "created_at": NOW, "ended_at": NOW,
        }  # fmt: skip


async def flood(gateway: Gateway, count: int) -> Any:
    async with web(gateway.answer) as server:
        process: Any = None  # the platform answers; nobody starts or stops it
        platform = EmbeddedPlatform(process, {"gateway_url": server.url("", "127.0.0.1")})
        return await run_flood(platform, OutputPrinter("table", aside=True), count)


@pytest.mark.parametrize("status", ["completed", "timed_out", "failed"])
async def test_the_runs_of_this_flood_are_counted_beside_those_of_another_one(
    status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_flood, "STANDSTILL_S", 0.0)
    found = await flood(Gateway(status), 3)
    assert (found["runs"], found["statuses"]) == (3, {status: 3})


async def test_a_run_that_is_refused_is_told_with_its_own_problem() -> None:
    with pytest.raises((TowpathError, ProblemError)) as refused:
        await flood(Gateway("completed", refuses=True), 3)
    assert refused.value.problem.code == "forbidden"
