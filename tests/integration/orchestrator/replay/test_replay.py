"""Stored runs replay byte for byte, and a record that this version would write otherwise is found."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests.integration.orchestrator.test_task_runs import ended, publish, submit, three_steps
from tests.support.orchestrator.orchestrator_peers import Peers, connected, orchestrator

from towpath_contracts import rpc
from towpath_contracts.runs.records import GetRunRecord, ReplayRuns
from towpath_orchestrator.app.api import replay_command
from towpath_orchestrator.app.api.replay_requests import MOST_OF_PROJECT


@pytest.fixture
async def peers(nats_server: Any) -> AsyncIterator[Peers]:
    async with connected(nats_server.url()) as nc:
        found = Peers(nc, three_steps)
        await found.start()
        yield found
        await found.stop()


async def change(dsn: str, statement: str, *values: Any) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement, *values)
    finally:
        await connection.close()


async def command(*words: str, **environment: str) -> tuple[int, list[dict[str, Any]]]:
    """Run the one-shot of this version; returns its exit code and what it printed."""
    env = {**os.environ, **environment}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "towpath_orchestrator", "replay", *words), env=env, stdout=asyncio.subprocess.PIPE
    )
    written, _ = await process.communicate()
    return process.returncode or 0, [json.loads(line) for line in written.splitlines()]


def in_process(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[dict[str, Any]]]:
    """Call the one-shot in this process, in a thread that has no loop: another interpreter costs half a second."""
    capsys.readouterr()
    code = replay_command.main([*words])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


async def export(peers: Peers, run_id: str) -> str:
    text, cursor = "", ""
    while cursor is not None:
        piece = await peers.ask(rpc.RECORD, GetRunRecord(project="default", run_id=run_id, cursor=cursor))
        text, cursor = text + piece.text, piece.next
    return text


async def test_stored_runs_replay_and_a_changed_record_is_found(
    database: Any, nats_server: Any, peers: Peers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        whole, other, bare, mute = [(await submit(peers))["run_id"] for _ in range(4)]
        views = [await ended(peers, run_id) for run_id in (whole, other, bare, mute)]
        ask = ReplayRuns(project="default", limit=3)
        page = await peers.ask(rpc.REPLAY_RUNS, ask)
        assert (page.runs, page.identical, page.results, str(page.next_after)) == (3, 3, (), bare)
        rest = await peers.ask(rpc.REPLAY_RUNS, ask.model_copy(update={"after": page.next_after}))
        assert (rest.runs, rest.identical, rest.next_after) == (1, 1, None)
        assert page.events + rest.events == sum(view.seq for view in views)

        golden = tmp_path / "golden.jsonl"
        golden.write_text(await export(peers, whole), "utf-8")
        await change(
            database(),
            "UPDATE runs.run_event SET event = replace(event::text, 'step 1', 'step 9')::json"
            " WHERE run_id = $1 AND type = 'instruction_issued'",
            other,
        )
        await change(database(), "DELETE FROM runs.run_fact WHERE run_id = $1 AND first_seq > 4", bare)
        await change(
            database(), "UPDATE runs.run_event SET type = 'x', event = '{\"type\": \"x\"}' WHERE run_id = $1", mute
        )
        page = await peers.ask(rpc.REPLAY_RUNS, ReplayRuns(project="default"))
        assert (page.runs, page.identical) == (4, 1)
        found = {str(result.run_id): result for result in page.results}
        assert {run_id: result.verdict for run_id, result in found.items()} == {
            other: "diverged",
            bare: "incomplete",
            mute: "unreadable",
        }
        assert found[other].seq == 5 and "fact decision.made" in found[other].why
        (line,) = found[other].differences
        assert line.endswith('/args/text: recorded "step 9", replayed "step 1"')
        one = await peers.ask(rpc.REPLAY_RUNS, ReplayRuns(project="default", run_id=whole))
        assert (one.results[0].verdict, one.results[0].events) == ("identical", views[0].seq)

        body = ReplayRuns(project="default").model_dump_json().encode()
        elsewhere = ReplayRuns(project="elsewhere").model_dump_json().encode()
        asked = (*(body for _ in range(60)), elsewhere)
        *answers, another = await asyncio.gather(*(peers.raw(rpc.REPLAY_RUNS.subject, each) for each in asked))
        codes = [json.loads(answer.data).get("code") for answer in answers]
        assert set(codes) == {None, "overloaded"}, "live runs come before replays"
        assert codes.count(None) >= MOST_OF_PROJECT
        assert json.loads(another.data).get("code") is None, "another project has places of its own"

    url = {"TOWPATH_DATABASE_URL": database("orchestrator")}
    code, lines = await command("--network", "solo", **url)
    kept, item = await asyncio.to_thread(in_process, capsys, "--file", str(golden), "--each")
    lost, _ = await asyncio.to_thread(in_process, capsys, "--file", str(tmp_path / "nothing"))
    assert code == 1
    assert lines[-1] == {
        "engine_version": one.engine_version,
        "runs": 4,
        "events": page.events,
        "identical": 1,
        "diverged": 1,
        "incomplete": 1,
        "unreadable": 1,
    }
    assert (kept, item[0]["verdict"], item[0]["events"], lost) == (0, "identical", views[0].seq, 2)


async def test_a_field_that_is_new_since_changes_no_verdict(
    database: Any, nats_server: Any, peers: Peers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        run_id = (await submit(peers))["run_id"]
        await ended(peers, run_id)
        text = await export(peers, run_id)
    assert '"debug":false' in text
    other, older = tmp_path / "other.jsonl", tmp_path / "older.jsonl"
    other.write_text(text.replace('"priority":5', '"priority": 5'), "utf-8")
    older.write_text(text.replace('"debug":false,', ""), "utf-8")  # as a version wrote it that had no such field
    words = ("--each", "--file", str(other), "--file", str(older))
    code, (first, second, totals) = await asyncio.to_thread(in_process, capsys, *words)
    assert (first["verdict"], first["seq"]) == ("identical", None)
    assert (second["verdict"], second["widened"], totals["identical"], code) == ("identical", 1, 2, 0)


async def test_a_replay_finds_the_primary_of_several_hosts_and_changes_nothing_there(database: Any) -> None:
    dsn = database("orchestrator")
    named = f"{dsn}{'&' if '?' in dsn else '?'}target_session_attrs=read-write"
    async with replay_command.reading_pool(named) as pool:
        for _ in range(2):  # a connection that was given back is as read-only as before
            assert await pool.fetchval("SELECT count(*) FROM runs.run") == 0
            with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
                await pool.execute("UPDATE runs.run SET seq = seq")
