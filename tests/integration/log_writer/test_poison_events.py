"""Events and logs whose handling ended the log-writer each time are skipped, and everything beside them is stored."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.conftest import DatabaseUrl
from tests.support.orchestrator import run_history as h
from tests.support.orchestrator.run_log import wait_for
from tests.support.platform.history_platform import Place, new_run, open_place
from tests.support.poison_marks import DEATHS, accuse, deliver_unanswered
from tests.support.service_process import service_process

from towpath_contracts import subjects
from towpath_contracts.decisions.request import ToolLog
from towpath_contracts.streams import EVENTS_CONSUMER, LOGS_CONSUMER
from towpath_embedded.servers.nats import Nats

MARKS = "history.handling_mark"


@pytest.fixture
async def place(nats_server: Nats, database: DatabaseUrl) -> AsyncIterator[Place]:
    async with open_place(nats_server, database) as opened:
        yield opened


async def test_a_poisonous_event_is_skipped_and_read_from_the_log_of_its_run(
    place: Place, nats_server: Nats, database: DatabaseUrl, folder: Path
) -> None:
    run, other = new_run(), new_run()
    told = place.log.keep(run, h.whole_run(run, 2))
    await place.log.tell([*told, *place.log.keep(other, h.whole_run(other, 2))])
    messages = await deliver_unanswered(place.log.nc, EVENTS_CONSUMER, messages=3)
    await accuse(database(), messages[1], DEATHS, table=MARKS)
    await accuse(database(), messages[2], DEATHS - 1, table=MARKS)
    with service_process("log_writer", folder, nats_server.url(), **place.settings()) as writer:
        await writer.wait_ready()
        await writer.counted('towpath_history_messages_total{fate="set_aside",stream="EVENTS"}')
        await place.complete(run, other)
        assert 'towpath_history_messages_total{fate="set_aside",stream="EVENTS"} 1.0' in await writer.metrics()
        await wait_for(lambda: is_acknowledged(place, "EVENTS"))
    assert run in {wanted.run_id for wanted in place.log.reads}
    assert await place.told(run) == await place.told(other)
    assert await place.rows(f"SELECT deaths FROM {MARKS} WHERE deaths > 0 OR begun_by IS NOT NULL") == [(DEATHS,)]


def line(run: str, text: str) -> ToolLog:
    return ToolLog.model_validate(
        {
            "run_id": run,
            "execution_id": new_run(),
            "project": "default",
            "toolset": "orders",
            "tool": "orders.find",
            "worker": "w1",
            "at": datetime.now(UTC),
            "level": "info",
            "message": text,
            "fields": {},
        }
    )


async def test_a_poisonous_log_is_skipped_and_those_beside_it_are_kept(
    place: Place, nats_server: Nats, database: DatabaseUrl, folder: Path
) -> None:
    run = str(new_run())
    for text in ("a", "poison", "b"):
        body = line(run, text).model_dump_json().encode()
        await place.log.nc.jetstream().publish(subjects.log_tool("default", "orders"), body)
    messages = await deliver_unanswered(place.log.nc, LOGS_CONSUMER, messages=3)
    await accuse(database(), messages[1], DEATHS, table=MARKS)
    with service_process("log_writer", folder, nats_server.url(), **place.settings()) as writer:
        await writer.wait_ready()
        await writer.counted('towpath_history_messages_total{fate="set_aside",stream="LOGS"}')
        await wait_for(lambda: is_acknowledged(place, "LOGS"))
    assert await place.rows("SELECT message FROM history.tool_log ORDER BY 1") == [("a",), ("b",)]


async def is_acknowledged(place: Place, stream: str) -> bool:
    info = await place.log.nc.jetstream().consumer_info(stream, "log_writer")
    return (info.num_pending, info.num_ack_pending) == (0, 0)


async def test_marks_of_a_day_ago_are_removed(
    place: Place, nats_server: Nats, database: DatabaseUrl, folder: Path
) -> None:
    await place.database.execute(
        f"INSERT INTO {MARKS} (stream, sequence, deaths, last) VALUES ('LOGS', 1, 3, now() - interval '25 hours'),"
        " ('LOGS', 2, 3, now() - interval '23 hours')"
    )

    async def is_removed() -> bool:
        return await place.rows(f"SELECT sequence FROM {MARKS}") == [(2,)]

    with service_process("log_writer", folder, nats_server.url(), **place.settings()):
        await wait_for(is_removed)
