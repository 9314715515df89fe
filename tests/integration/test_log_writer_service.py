"""The log-writer over real NATS and Postgres: history is complete whatever the stream does (design §4, §9, §10)."""

import json
import random
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import nats
import pytest
from tests.conftest import DatabaseUrl
from tests.support import run_history as h
from tests.support.run_log import RunLog, wait_for
from tests.support.service_process import ServiceProcess, service_process

from towpath_contracts import subjects
from towpath_contracts.deciding import DecisionKind, LlmCall, ToolLog, Usage
from towpath_contracts.ids import execution_id, request_id
from towpath_contracts.problems import ProblemError
from towpath_contracts.rpc import GET_HISTORY, GET_LLM_CALLS
from towpath_contracts.views import GetHistory, GetLlmCalls, History, LlmCalls
from towpath_embedded.nats import Nats
from towpath_fabric.bus import Bus
from towpath_fabric.settings import Settings
from towpath_fabric.streams import ensure_streams

RUN_COLUMNS = (
    "status, final_status, total_steps, total_tokens, total_cost_usd, reason, completed_at, state_snapshot - 'task_id'"
)
STEP_COLUMNS = (
    'step_number, "timestamp", ended_at, duration_ms, reasoning, action, validation, success, error, attempt_number,'
    " tokens_used, cost_usd"
)


@dataclass
class Place:
    """A log-writer's surroundings."""

    log: RunLog
    bus: Bus
    database: Any
    address: str

    async def rows(self, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self.database.fetch(query, *arguments)]

    async def seq(self, run: uuid.UUID) -> int:
        return int(await self.database.fetchval("SELECT seq FROM history.run_cursor WHERE run_id = $1", run) or 0)

    async def complete(self, *runs: uuid.UUID, within_s: float = 30.0) -> None:
        """Wait until history holds everything that the log holds of *runs*."""

        async def check() -> bool:
            held = {row[0]: row[1] for row in await self.rows("SELECT run_id, seq FROM history.run_cursor")}
            return all(held.get(run) == len(self.log.runs[run].entries) for run in runs)

        await wait_for(check, within_s)

    async def told(self, run: uuid.UUID) -> list[list[tuple[Any, ...]]]:
        """Return everything that the tables say of a run, without its own ids."""
        return [
            await self.rows(f"SELECT {RUN_COLUMNS} FROM history.agent_execution_history WHERE id = $1", run),
            await self.rows(
                f"SELECT {STEP_COLUMNS} FROM history.agent_execution_steps WHERE execution_id = $1 ORDER BY 1", run
            ),
            await self.rows(
                "SELECT step_number, call_index, tool, args::text, status, result::text, worker, requested_at,"
                " finished_at FROM history.tool_execution WHERE run_id = $1 ORDER BY 1, 2",
                run,
            ),
        ]


@pytest.fixture
async def place(nats_server: Nats, database: DatabaseUrl) -> AsyncIterator[Place]:
    nc = await nats.connect(nats_server.url())
    await ensure_streams(nc)
    log = RunLog(nc)
    await log.start()
    bus = Bus("gateway", Settings.load(nats_url=nats_server.url()))
    await bus.connect()
    pool = await asyncpg.create_pool(database(), min_size=1, max_size=2)
    yield Place(log=log, bus=bus, database=pool, address=database("log_writer"))
    await pool.close()
    await bus.close()
    await nc.close()


def settings(place: Place) -> dict[str, str]:
    return {"database_url": place.address, "history_linger_ms": "10", "history_sweep_s": "0.3"}


@pytest.fixture
async def writer(place: Place, nats_server: Nats, folder: Path) -> AsyncIterator[ServiceProcess]:
    with service_process("log_writer", folder, nats_server.url(), **settings(place)) as process:
        await process.wait_ready()
        yield process


def new_run() -> uuid.UUID:
    return uuid.UUID(int=random.getrandbits(128))


async def history_of(place: Place, run: uuid.UUID, project: str = "default", after: int = -1) -> History:
    answer = await place.bus.ask(GET_HISTORY, GetHistory(project=project, run_id=run, after_step=after))
    assert isinstance(answer, History)
    return answer


async def test_a_run_that_was_told_is_in_history_with_every_step(place: Place, writer: ServiceProcess) -> None:
    run = new_run()
    await place.log.tell(place.log.keep(run, h.whole_run(run, 5)))
    await place.complete(run)
    history = await history_of(place, run)
    assert history.seq == len(place.log.runs[run].entries)
    assert history.history is not None
    assert history.history["total_steps"] == len(history.steps) == 5
    assert history.history["final_status"] == "success"
    assert history.history["agent_id"] == "triage"
    assert history.history["state_snapshot"]["goal"] == "Refund my order."
    assert history.history["state_snapshot"]["final"] == {"message": "hello"}
    assert [step["success"] for step in history.steps] == [True] * 5
    assert [step["attempt_number"] for step in history.steps] == [1] * 5
    assert history.steps[0]["result"]["0"]["result"] == {"customer": "ada-1"}
    assert history.steps[0]["duration_ms"] == 20
    assert [call["status"] for call in history.tool_executions] == ["succeeded"] * 4
    assert history.tool_executions[0]["args"] == {"n": 0}
    assert place.log.reads == []


async def test_history_is_shown_only_to_its_project(place: Place, writer: ServiceProcess) -> None:
    run = new_run()
    await place.log.tell(place.log.keep(run, h.whole_run(run, 2, "mine"), "mine"))
    await place.complete(run)
    assert len((await history_of(place, run, "mine")).steps) == 2
    with pytest.raises(ProblemError) as refused:
        await history_of(place, run, "theirs")
    assert refused.value.problem.code == "run_not_found"
    theirs = await place.bus.ask(GET_LLM_CALLS, GetLlmCalls(project="theirs", run_id=run))
    assert theirs.calls == ()


async def test_duplicates_and_disorder_change_nothing(place: Place, writer: ServiceProcess) -> None:
    straight, disturbed = new_run(), new_run()
    await place.log.tell(place.log.keep(straight, h.whole_run(straight, 6)))
    told = place.log.keep(disturbed, h.whole_run(disturbed, 6))
    again = [*told, *told[2:5], told[0]]
    random.Random(7).shuffle(again)
    await place.log.tell(again)
    await place.complete(straight, disturbed)
    assert await place.told(disturbed) == await place.told(straight)


async def test_lost_messages_are_read_from_the_run_log(place: Place, writer: ServiceProcess) -> None:
    middle, last, never = new_run(), new_run(), new_run()
    told = place.log.keep(middle, h.whole_run(middle, 4))
    await place.log.tell(told[:3] + told[5:])
    await place.log.tell(place.log.keep(last, h.whole_run(last, 4))[:-2])
    place.log.keep(never, h.whole_run(never, 4))
    await place.complete(middle, last, never)
    assert await place.told(middle) == await place.told(last) == await place.told(never)
    assert {wanted.run_id for wanted in place.log.reads} == {middle, last, never}
    assert len((await history_of(place, never)).steps) == 4


async def test_many_runs_told_badly_are_all_complete(place: Place, writer: ServiceProcess) -> None:
    chance = random.Random(11)
    runs = [new_run() for _ in range(30)]
    told = [message for run in runs for message in place.log.keep(run, h.whole_run(run, 5))]
    told = [message for message in told if chance.random() > 0.15]
    told += chance.sample(told, len(told) // 5)
    chance.shuffle(told)
    await place.log.tell(told)
    await place.complete(*runs)
    first = await place.told(runs[0])
    for run in runs[1:]:
        assert await place.told(run) == first
    steps = await place.rows("SELECT count(*) FROM history.agent_execution_steps")
    assert steps == [(150,)]


async def test_a_log_writer_that_was_away_catches_up(place: Place, nats_server: Nats, folder: Path) -> None:
    with service_process("log_writer", folder, nats_server.url(), **settings(place)) as first:
        await first.wait_ready()
        begun = new_run()
        told = place.log.keep(begun, h.whole_run(begun, 6))
        await place.log.tell(told[:4])
        await wait_for(lambda: place.seq(begun))
        first.kill()
    await place.log.tell(told[4:])
    missed, lost = new_run(), new_run()
    await place.log.tell(place.log.keep(missed, h.whole_run(missed, 6)))
    place.log.keep(lost, h.whole_run(lost, 6))
    with service_process("log_writer", folder, nats_server.url(), **settings(place)) as second:
        await second.wait_ready()
        await place.complete(begun, missed, lost)
    assert await place.told(begun) == await place.told(missed) == await place.told(lost)


async def test_two_log_writers_tell_everything_once(
    place: Place, writer: ServiceProcess, nats_server: Nats, folder: Path
) -> None:
    with service_process("log_writer", folder, nats_server.url(), **settings(place)) as second:
        await second.wait_ready()
        runs = [new_run() for _ in range(10)]
        told = [place.log.keep(run, h.whole_run(run, 8)) for run in runs]
        for number in range(len(told[0])):
            await place.log.tell(messages[number] for messages in told)
        await place.complete(*runs)
    first = await place.told(runs[0])
    for run in runs:
        assert await place.told(run) == first
    counted = "SELECT DISTINCT attempt_number, tokens_used FROM history.agent_execution_steps"
    assert await place.rows(counted) == [(1, 110)]


async def test_what_postgres_refuses_is_set_aside_and_the_rest_is_told(place: Place, writer: ServiceProcess) -> None:
    good, bad = new_run(), new_run()
    transitions = h.whole_run(bad, 3)
    huge = h.decided(bad, 1, {"action": "USE_TOOL"}, usage=Usage(total_tokens=2**80))
    transitions[2] = [huge, *transitions[2][1:]]
    told = place.log.keep(bad, transitions)
    others = place.log.keep(good, h.whole_run(good, 3))
    await place.log.tell([*told[:4], *others, *told[4:]])
    await place.complete(good, bad)
    assert await place.rows("SELECT run_id, seq, type FROM history.skipped_event") == [(bad, 4, "decision_received")]
    history = await history_of(place, bad)
    assert [step["step_number"] for step in history.steps] == [1, 2, 3]
    assert history.steps[0]["reasoning"] is None
    assert len((await history_of(place, good)).steps) == 3


async def test_texts_that_postgres_can_not_hold_are_kept_with_a_mark(place: Place, writer: ServiceProcess) -> None:
    run = new_run()
    transitions = h.whole_run(run, 2)
    transitions[2] = [h.decided(run, 1, {"action": "USE_TOOL", "action_reasoning": "a\x00b"}), *transitions[2][1:]]
    transitions[3] = [h.finished(run, 1, result={"text": "nul \x00", "n": float("inf")}), *transitions[3][1:]]
    await place.log.tell(place.log.keep(run, transitions))
    await place.complete(run)
    step = (await history_of(place, run)).steps[0]
    assert step["reasoning"] == "a\ufffdb"
    assert step["result"]["0"]["result"] == {"text": "nul \ufffd", "n": "Infinity"}
    assert await place.rows("SELECT * FROM history.skipped_event") == []


async def test_messages_that_can_not_be_read_stop_nothing(place: Place, writer: ServiceProcess) -> None:
    js = place.log.nc.jetstream()
    run = new_run()
    hostile = json.dumps({"run_id": str(run), "project": "a\x00b", "entries": []}).encode()
    for body in (b"no json", b"{}", b'{"run_id": "x"}', hostile):
        await js.publish(subjects.run_event(run), body)
        await js.publish(subjects.LOG_LLM_CALL, body)
    await place.log.tell(place.log.keep(run, h.whole_run(run, 2)))
    await place.complete(run)
    assert 'fate="unreadable",stream="EVENTS"} 4.0' in await writer.metrics()


async def test_events_of_a_newer_orchestrator_are_passed_over(place: Place, writer: ServiceProcess) -> None:
    run = new_run()
    told = place.log.keep(run, h.whole_run(run, 2))
    js = place.log.nc.jetstream()
    for message in told:
        body = message.model_dump(mode="json")
        for entry in body["entries"]:
            if entry["event"]["type"] == "run_started":
                entry["event"] = {"type": "run_started_differently", "by": "tomorrow"}
        await js.publish(subjects.run_event(run), json.dumps(body).encode())
    await place.complete(run)
    assert len((await history_of(place, run)).steps) == 2


async def test_lost_connections_to_postgres_lose_nothing(place: Place, writer: ServiceProcess) -> None:
    runs = [new_run() for _ in range(20)]
    told = [place.log.keep(run, h.whole_run(run, 6)) for run in runs]
    for number in range(len(told[0])):
        await place.log.tell(messages[number] for messages in told)
        if number % 3 == 1:
            await place.database.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name = 'towpath_log_writer'"
            )
    await place.complete(*runs)
    first = await place.told(runs[0])
    for run in runs:
        assert await place.told(run) == first
    assert writer.process.poll() is None


async def test_a_broker_that_was_away_is_no_gap(place: Place, writer: ServiceProcess, nats_server: Nats) -> None:
    run = new_run()
    told = place.log.keep(run, h.whole_run(run, 6))
    await place.log.tell(told[:4])
    await wait_for(lambda: place.seq(run))
    assert nats_server.process is not None
    nats_server.process.kill()
    nats_server.process.wait()
    await nats_server.start()
    await place.complete(run)
    assert len((await history_of(place, run)).steps) == 6


async def test_a_long_history_comes_in_pages(place: Place, writer: ServiceProcess) -> None:
    run = new_run()
    transitions = h.whole_run(run, 40)
    for step in range(1, 40):
        place_of = 2 * step + 1
        large = h.finished(run, step, result={"text": "x" * 60_000})
        transitions[place_of] = [large, *transitions[place_of][1:]]
    told = place.log.keep(run, transitions)
    await place.log.tell(told[:20])  # the rest must be read in pages that fit into a message
    await place.complete(run, within_s=60)
    steps: list[Any] = []
    calls: list[Any] = []
    after: int | None = -1
    pages = 0
    while after is not None:
        page = await history_of(place, run, after=after)
        steps += page.steps
        calls += page.tool_executions
        after = page.next_after_step
        pages += 1
    assert [step["step_number"] for step in steps] == list(range(1, 41))
    assert len(calls) == 39
    assert all(len(call["result"]["text"]) == 60_000 for call in calls)
    assert pages > 1


async def test_model_calls_are_told_from_logs_and_where_these_are_missing_from_events(
    place: Place, writer: ServiceProcess
) -> None:
    run = new_run()
    await place.log.tell(place.log.keep(run, h.whole_run(run, 3)))
    js = place.log.nc.jetstream()
    bodies = {"prompt": "What now?\x00", "raw_text": '{"action": "RESPOND"}'}
    for number in (1, 2):
        call = LlmCall(
            request_id=request_id(run, 2, "decide", 1),
            run_id=run,
            project="default",
            attempt=1,
            call=number,
            step=2,
            agent_key="triage",
            kind=DecisionKind.DECIDE,
            model="gemini:gemini-2.5-flash",
            started_at=h.BEGIN,
            duration_ms=12,
            usage=h.USAGE,
            cost=h.COST,
            prompt_digest="sha256:p",
            raw_digest="sha256:r",
            **bodies,
        )
        for _ in range(2):  # delivered twice, told once
            await js.publish(subjects.LOG_LLM_CALL, call.model_dump_json().encode())
    await place.complete(run)

    async def calls() -> LlmCalls:
        answer = await place.bus.ask(GET_LLM_CALLS, GetLlmCalls(project="default", run_id=run))
        assert isinstance(answer, LlmCalls)
        return answer

    async def all_told() -> bool:
        return len((await calls()).calls) == 4

    await wait_for(all_told)
    told = (await calls()).calls
    assert [call["step_number"] for call in told] == [1, 2, 2, 3]
    assert [call.get("prompt") for call in told] == [None, "What now?\ufffd", "What now?\ufffd", None]
    assert told[0]["model"] == "scripted:task"
    assert told[0]["total_tokens"] == 110
    assert told[1]["raw_text"] == '{"action": "RESPOND"}'


async def test_what_a_tool_wrote_is_kept_once(place: Place, writer: ServiceProcess) -> None:
    run = new_run()
    line = ToolLog(
        execution_id=execution_id(run, 1, 0),
        run_id=run,
        project="default",
        tool="crm.lookup",
        worker="w",
        at=h.BEGIN,
        message="found\x00 her",
        fields={"n": 1},
    )
    js = place.log.nc.jetstream()
    for _ in range(3):
        await js.publish(subjects.LOG_TOOL, line.model_dump_json().encode())
    query = "SELECT message, fields::text FROM history.tool_log"

    async def kept() -> bool:
        return await place.rows(query) == [("found\ufffd her", '{"n":1}')]

    await wait_for(kept)


async def test_the_log_writer_may_change_nothing_but_history(place: Place) -> None:
    connection = await asyncpg.connect(place.address)
    try:
        for forbidden in (
            "SELECT * FROM runs.run",
            "DELETE FROM history.agent_execution_history",
            "SELECT * FROM tas.audit_entry",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(forbidden)
    finally:
        await connection.close()
