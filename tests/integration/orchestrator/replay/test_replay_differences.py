"""Records of runs that go on meanwhile, and pages with runs that can't be read or that differ much."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.integration.orchestrator.replay.test_replay import change, command
from tests.integration.orchestrator.test_task_runs import ended, publish, submit, three_steps
from tests.support.orchestrator.orchestrator_peers import Peers, connected, orchestrator

from towpath_contracts import rpc
from towpath_contracts.runs.records import GetRunRecord, ReplayRuns

COPIES = """
WITH ids AS (
  SELECT i, (left($1::uuid::text, 24) || lpad(to_hex(i), 12, '0'))::uuid AS id FROM generate_series(1, 250) i),
made AS (
  INSERT INTO runs.run (run_id, project, kind, network, version, snapshot_digest, status, reason, seq, caller,
                        created_at, ended_at, updated_at)
  SELECT id, project, kind, network, version, snapshot_digest, status, reason, seq, caller,
         created_at, ended_at, updated_at
  FROM runs.run, ids WHERE run_id = $1::uuid),
facts AS (
  INSERT INTO runs.run_fact (run_id, first_seq, at, engine_version, fact)
  SELECT id, first_seq, at, engine_version, replace(fact::text, $1::uuid::text, id::text)::json
  FROM runs.run_fact, ids WHERE run_id = $1::uuid)
INSERT INTO runs.run_event (run_id, seq, at, type, event)
SELECT id, seq, at, type, replace(event::text, '"request_id":"', '"request_id":"' || repeat('x', 9000))::json
FROM runs.run_event, ids WHERE run_id = $1::uuid
"""
"""Many copies of a run, with an event that this version would write otherwise, and shorter."""


@pytest.fixture
async def peers(nats_server: Any) -> AsyncIterator[Peers]:
    async with connected(nats_server.url()) as nc:
        found = Peers(nc, three_steps)
        await found.start()
        yield found
        await found.stop()


async def test_an_export_of_a_run_that_goes_on_is_of_one_moment(
    database: Any, nats_server: Any, peers: Peers, tmp_path: Path
) -> None:
    peers.answer_tools = False
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        run_id = (await submit(peers))["run_id"]
        await peers.until(lambda: bool(peers.requests))
        text, cursor = "", ""
        while cursor is not None:
            piece = await peers.ask(rpc.RECORD, GetRunRecord(project="default", run_id=run_id, cursor=cursor))
            text, cursor = text + piece.text, piece.next
            if '"first_seq"' in text and not peers.answer_tools:
                assert cursor is not None and cursor.startswith("events:")
                peers.answer_tools = True
                await peers.finish(peers.requests[0])
                view = await ended(peers, run_id)
        wrong = await peers.raw(
            rpc.RECORD.subject,
            GetRunRecord(project="default", run_id=run_id, cursor="facts:0:0").model_dump_json().encode(),
        )
        assert json.loads(wrong.data)["code"] == "request_invalid"
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines[0]["status"] == "running" and view.status == "completed"
    assert lines[-1]["seq"] < view.seq, "it tells nothing of what came after its first piece"
    golden = tmp_path / "live.jsonl"
    golden.write_text(text, "utf-8")
    code, (found, _totals) = await command("--each", "--file", str(golden))
    assert (code, found["verdict"], found["events"]) == (0, "identical", lines[-1]["seq"])


async def test_unreadable_and_many_diverged_runs_do_not_stop_the_gate(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        damaged = (await submit(peers))["run_id"]
        await ended(peers, damaged)
        await change(database(), "INSERT INTO runs.snapshot (digest, snapshot) SELECT 'bad', '{\"old\": 1}'::json")
        await change(database(), "UPDATE runs.run SET snapshot_digest = 'bad' WHERE run_id = $1", damaged)
        whole = (await submit(peers))["run_id"]
        await ended(peers, whole)
        page = await peers.ask(rpc.REPLAY_RUNS, ReplayRuns(project="default"))
        assert (page.runs, page.identical, page.next_after) == (2, 1, None)
        (result,) = page.results
        assert (str(result.run_id), result.verdict) == (damaged, "unreadable") and "snapshot" in result.why

        await change(database(), COPIES, whole)
        seen, after, pages = 0, None, 0
        while True:
            ask = ReplayRuns(project="default", limit=500, budget_ms=20_000, after=after)
            reply = await peers.raw(rpc.REPLAY_RUNS.subject, ask.model_dump_json().encode())
            assert len(reply.data) < 1_000_000
            parsed = json.loads(reply.data)
            seen, pages = seen + parsed["runs"], pages + 1
            if parsed["next_after"] is None:
                break
            after = UUID(parsed["next_after"])
        assert (seen, pages > 1) == (252, True)
