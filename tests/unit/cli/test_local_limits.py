"""What the command line reads of this machine, asks a platform for, and waits for has limits of its own."""

import asyncio
import os
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.support.documented_limits import promise

from towpath.cli.access import policy_cases
from towpath.cli.definitions.mcp_commands import DRIFTED
from towpath.cli.runs.run_command import FOREVER_S
from towpath.cli.shared.command_client import CommandClient
from towpath.cli.shared.input_files import read_text
from towpath.cli.shared.progress import ProgressLine
from towpath.cli.shared.short_ids import RECENT_ERASURES, resolve_run_id
from towpath.client import nats
from towpath.client.client import Client
from towpath.client.http import MAX_EVENT_BYTES
from towpath.client.retry_policy import RetryBackoff
from towpath.client.settings import ClientTarget
from towpath.errors import TowpathError
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.run_limits import MAX_TIMEOUT_MS
from towpath_contracts.runs.views import GetRun, RunPage
from towpath_contracts.tools.calls import MAX_RESULT_BYTES
from towpath_contracts.tools.erasures import ListErasures


@pytest.mark.parametrize("read", [read_text, policy_cases._read])
def test_a_file_of_four_megabytes_is_read_and_no_larger_one(read: Any, tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.touch()
    os.truncate(file, 4_000_000)
    assert len(read(file)) == 4_000_000
    os.truncate(file, 4_000_001)
    with pytest.raises(ProblemError, match="larger than 4000000 bytes"):
        read(file)


async def test_a_short_id_is_looked_up_among_the_newest_thousand_runs() -> None:
    asked: list[int] = []

    class Endless(Client):
        async def runs(self, **filters: Any) -> RunPage:
            asked.append(filters["limit"])
            assert len(asked) <= 5, "older ones need the whole id"
            return page(filters["limit"])

    def page(count: int) -> RunPage:
        return RunPage.model_construct(runs=tuple(_Run(uuid4()) for _ in range(count)), next_before=uuid4())

    async with Endless("http://127.0.0.1:9") as client:
        with pytest.raises(ProblemError, match="run_not_found"):
            await resolve_run_id(client, "no-such-id")
    assert sum(asked) == 1_000


class _Run:
    def __init__(self, run_id: UUID) -> None:
        self.run_id = run_id


def test_what_is_asked_of_a_platform_is_what_it_answers() -> None:
    assert ListErasures(project="p", limit=RECENT_ERASURES).limit == 500, "a whole page"
    assert GetRun(project="", run_id=uuid4(), wait_ms=nats.WAIT_MS).wait_ms > 10_000, "few questions while a run runs"
    assert MAX_EVENT_BYTES == 2 * MAX_RESULT_BYTES, "an event holds one result, and what is around it"


def test_a_run_is_followed_as_long_as_one_may_take() -> None:
    assert FOREVER_S * 1_000 == MAX_TIMEOUT_MS


async def test_nobody_waits_longer_between_tries_than_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("towpath.client.retry_policy.FIRST_WAIT_S", 0.001)
    away = TowpathError(problem("unavailable", "away"))
    await RetryBackoff(0.5).wait(away)
    with pytest.raises(TowpathError):
        await RetryBackoff(0.5).wait(away, 0.6)


async def test_a_long_time_without_contact_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("towpath.client.retry_policy.FIRST_WAIT_S", 0.001)
    away, told = TowpathError(problem("unavailable", "away")), list[tuple[TowpathError, float]]()
    short = RetryBackoff(0.5, lambda *why: told.append(why))
    await short.wait(away)
    assert told == [], "nobody needs to know of a moment"
    monkeypatch.setattr("towpath.client.retry_policy.TOLD_AFTER_S", 0.0)
    await short.wait(away)
    await short.wait(away)
    assert [error for error, _ in told] == [away] and 0 < told[0][1] < 0.5


def test_what_is_tried_again_is_told_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    async def connected() -> None:
        target = ClientTarget(server="http://127.0.0.1:9", server_origin="test")
        async with CommandClient(target, ProgressLine("", drawn=False), at_once=True) as client:
            transport = client._transport
            assert transport.retry_notice is not None and not transport.retries
            transport.retry_notice(TowpathError(problem("unavailable", "away", remedy="Wait.")), 7.6)

    asyncio.run(connected())
    shown = capsys.readouterr()
    assert shown.err == "away; tried again for 8 s. Wait.\n" and shown.out == ""


def test_a_server_that_offers_something_else_than_was_accepted_ends_with_the_code_of_its_page() -> None:
    assert promise("mcp.md", "exit code {} on drift", DRIFTED).holds
