"""The log-writer over real NATS and Postgres: history is complete whatever the stream does."""

import json
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.conftest import DatabaseUrl
from tests.support.orchestrator import run_history as h
from tests.support.orchestrator.run_log import wait_for
from tests.support.platform.history_platform import Place, new_run, open_place
from tests.support.service_process import ServiceProcess, service_process

from towpath_contracts import subjects
from towpath_contracts.decisions.request import Usage
from towpath_embedded.servers.nats import Nats


@pytest.fixture
async def place(nats_server: Nats, database: DatabaseUrl) -> AsyncIterator[Place]:
    async with open_place(nats_server, database) as opened:
        yield opened


@pytest.fixture
async def writer(place: Place, nats_server: Nats, folder: Path) -> AsyncIterator[ServiceProcess]:
    with service_process("log_writer", folder, nats_server.url(), **place.settings()) as process:
        await process.wait_ready()
        yield process


async def test_f3_a_run_that_was_reported_is_in_history_with_every_step(place: Place, writer: ServiceProcess) -> None:
    run = new_run()
    await place.log.tell(place.log.keep(run, h.whole_run(run, 5)))
    await place.complete(run)
    history = await place.history(run)
    assert history.seq == len(place.log.runs[run].entries)
    assert history.history is not None
    assert history.history["total_steps"] == len(history.steps) == 5
    assert history.history["final_status"] == "success"
    assert history.history["agent_id"] == "triage"
    assert history.history["state_snapshot"]["goal"] == "Refund my order."
    assert history.history["state_snapshot"]["final"] == {"message": "hello"}
    assert [step["success"] for step in history.steps] == [True] * 5
    assert [step["attempt_number"] for step in history.steps] == [1] * 5
    assert [step["reasoning"] for step in history.steps] == ["I must know who this is."] * 4 + ["Done."]
    assert history.steps[0]["action"]["action_details"]["tool_params"] == {"customer": "ada"}
    assert history.steps[0]["result"]["0"]["result"] == {"customer": "ada-1"}
    assert history.steps[0]["duration_ms"] == 20
    assert [call["status"] for call in history.tool_executions] == ["succeeded"] * 4
    assert history.tool_executions[0]["args"] == {"n": 0}
    assert place.log.reads == []


async def test_duplicates_and_disorder_change_nothing(place: Place, writer: ServiceProcess) -> None:
    straight, disturbed = new_run(), new_run()
    await place.log.tell(place.log.keep(straight, h.whole_run(straight, 6)))
    messages = place.log.keep(disturbed, h.whole_run(disturbed, 6))
    again = [*messages, *messages[2:5], messages[0]]
    random.Random(7).shuffle(again)
    await place.log.tell(again)
    await place.complete(straight, disturbed)
    assert await place.told(disturbed) == await place.told(straight)


async def test_lost_messages_are_read_from_the_run_log(place: Place, writer: ServiceProcess) -> None:
    middle, last, never = new_run(), new_run(), new_run()
    messages = place.log.keep(middle, h.whole_run(middle, 4))
    await place.log.tell(messages[:3] + messages[5:])
    await place.log.tell(place.log.keep(last, h.whole_run(last, 4))[:-2])
    place.log.keep(never, h.whole_run(never, 4))
    await place.complete(middle, last, never)
    assert await place.told(middle) == await place.told(last) == await place.told(never)
    assert {wanted.run_id for wanted in place.log.reads} == {middle, last, never}
    assert len((await place.history(never)).steps) == 4


async def test_many_runs_reported_badly_are_all_complete(place: Place, writer: ServiceProcess) -> None:
    chance = random.Random(11)
    runs = [new_run() for _ in range(30)]
    messages = [message for run in runs for message in place.log.keep(run, h.whole_run(run, 5))]
    messages = [message for message in messages if chance.random() > 0.15]
    messages += chance.sample(messages, len(messages) // 5)
    chance.shuffle(messages)
    await place.log.tell(messages)
    await place.complete(*runs)
    first = await place.told(runs[0])
    for run in runs[1:]:
        assert await place.told(run) == first
    steps = await place.rows("SELECT count(*) FROM history.agent_execution_steps")
    assert steps == [(150,)]


async def test_a_log_writer_that_was_away_catches_up(place: Place, nats_server: Nats, folder: Path) -> None:
    with service_process("log_writer", folder, nats_server.url(), **place.settings()) as first:
        await first.wait_ready()
        begun = new_run()
        messages = place.log.keep(begun, h.whole_run(begun, 6))
        await place.log.tell(messages[:4])
        await wait_for(lambda: place.seq(begun))
        first.kill()
    await place.log.tell(messages[4:])
    missed, lost = new_run(), new_run()
    await place.log.tell(place.log.keep(missed, h.whole_run(missed, 6)))
    place.log.keep(lost, h.whole_run(lost, 6))
    with service_process("log_writer", folder, nats_server.url(), **place.settings()) as second:
        await second.wait_ready()
        await place.complete(begun, missed, lost)
    assert await place.told(begun) == await place.told(missed) == await place.told(lost)


async def test_two_log_writers_write_everything_once(
    place: Place, writer: ServiceProcess, nats_server: Nats, folder: Path
) -> None:
    with service_process("log_writer", folder, nats_server.url(), **place.settings()) as second:
        await second.wait_ready()
        runs = [new_run() for _ in range(10)]
        batch = [place.log.keep(run, h.whole_run(run, 8)) for run in runs]
        for number in range(len(batch[0])):
            await place.log.tell(messages[number] for messages in batch)
        await place.complete(*runs)
    first = await place.told(runs[0])
    for run in runs:
        assert await place.told(run) == first
    counted = "SELECT DISTINCT attempt_number, tokens_used FROM history.agent_execution_steps"
    assert await place.rows(counted) == [(1, 110)]


async def test_what_postgres_refuses_is_set_aside_and_the_rest_is_written(place: Place, writer: ServiceProcess) -> None:
    good, bad = new_run(), new_run()
    transitions = h.whole_run(bad, 3)
    huge = h.decided(bad, 1, {"action": "USE_TOOL"}, usage=Usage(total_tokens=2**80))
    transitions[2] = [huge, *transitions[2][1:]]
    messages = place.log.keep(bad, transitions)
    others = place.log.keep(good, h.whole_run(good, 3))
    await place.log.tell([*messages[:4], *others, *messages[4:]])
    await place.complete(good, bad)
    assert await place.rows("SELECT run_id, seq, type FROM history.skipped_event") == [(bad, 4, "decision_received")]
    history = await place.history(bad)
    assert [step["step_number"] for step in history.steps] == [1, 2, 3]
    assert history.steps[0]["reasoning"] is None
    assert len((await place.history(good)).steps) == 3


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
    messages = place.log.keep(run, h.whole_run(run, 2))
    js = place.log.nc.jetstream()
    for message in messages:
        body = message.model_dump(mode="json")
        for entry in body["entries"]:
            if entry["event"]["type"] == "run_started":
                entry["event"] = {"type": "run_started_differently", "by": "tomorrow"}
        await js.publish(subjects.run_event(run), json.dumps(body).encode())
    await place.complete(run)
    assert len((await place.history(run)).steps) == 2


async def test_lost_connections_to_postgres_lose_nothing(place: Place, writer: ServiceProcess) -> None:
    runs = [new_run() for _ in range(20)]
    batch = [place.log.keep(run, h.whole_run(run, 6)) for run in runs]
    for number in range(len(batch[0])):
        await place.log.tell(messages[number] for messages in batch)
        if number % 3 == 1:
            await place.database.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name LIKE 'towpath_log_writer %'"
            )
    await place.complete(*runs)
    first = await place.told(runs[0])
    for run in runs:
        assert await place.told(run) == first
    assert writer.process.poll() is None


async def test_a_broker_that_was_away_is_no_gap(place: Place, writer: ServiceProcess, nats_server: Nats) -> None:
    run = new_run()
    messages = place.log.keep(run, h.whole_run(run, 6))
    await place.log.tell(messages[:4])
    await wait_for(lambda: place.seq(run))
    assert nats_server.process is not None
    nats_server.process.kill()
    nats_server.process.wait()
    await nats_server.start()
    await place.complete(run)
    assert len((await place.history(run)).steps) == 6
