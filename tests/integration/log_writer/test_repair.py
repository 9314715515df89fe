"""Reading run logs again over real NATS and Postgres: what can't be read stops neither its run nor others."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.conftest import DatabaseUrl
from tests.support.orchestrator import run_history as h
from tests.support.orchestrator.run_log import KeptRun, wait_for
from tests.support.platform.history_platform import Place, new_run, open_place
from tests.support.service_process import service_process

from towpath_embedded.servers.nats import Nats
from towpath_log_writer.app.repair import SWEEP_ROWS

DEEP = '{"type": "note_added", "deep": ' + "[" * 300 + "]" * 300 + "}"


@pytest.fixture
async def place(nats_server: Nats, database: DatabaseUrl) -> AsyncIterator[Place]:
    async with open_place(nats_server, database) as opened:
        yield opened


@pytest.mark.parametrize("spoilt", [DEEP, '"no object"'])
async def test_an_event_that_can_not_be_read_is_set_aside_and_the_log_goes_on(
    place: Place, nats_server: Nats, folder: Path, spoilt: str
) -> None:
    bad, good = new_run(), new_run()
    place.log.keep(bad, h.whole_run(bad, 5))
    place.log.spoilt = {(bad, 4): spoilt, (bad, 5): spoilt}
    with service_process("log_writer", folder, nats_server.url(), **place.settings()) as writer:
        await writer.wait_ready()
        await place.complete(bad)
        place.log.keep(good, h.whole_run(good, 3))
        await place.complete(good)
        assert writer.process.poll() is None
    skipped = await place.rows("SELECT run_id, seq, type FROM history.skipped_event ORDER BY seq")
    assert skipped == [(bad, 4, "unread"), (bad, 5, "unread")]


async def test_newer_gaps_are_found_beyond_a_log_that_can_not_be_read(
    place: Place, nats_server: Nats, folder: Path
) -> None:
    stuck, lost = new_run(), new_run()
    place.log.keep(stuck, h.whole_run(stuck, 2))
    place.log.unreadable.add(stuck)
    begin = datetime.now(UTC) - timedelta(hours=1)
    place.log.runs[stuck].updated_at = begin
    entries = place.log.runs[stuck].entries
    complete = [new_run() for _ in range(SWEEP_ROWS + 10)]
    for number, run in enumerate(complete, 1):
        moved = begin + timedelta(seconds=number)
        place.log.runs[run] = KeptRun(project="default", entries=entries, updated_at=moved)
    await place.database.execute(
        "INSERT INTO history.run_cursor (run_id, project, seq, prior_seq)"
        " SELECT run, 'default', $2, 0 FROM unnest($1::uuid[]) run",
        complete,
        len(entries),
    )
    place.log.keep(lost, h.whole_run(lost, 3))
    with service_process("log_writer", folder, nats_server.url(), **place.settings()) as writer:
        await writer.wait_ready()
        await place.complete(lost)
        assert await place.database.fetchval("SELECT since FROM history.sweep") < begin
        asked = sum(read.run_id == stuck for read in place.log.reads)
        assert 1 <= asked <= 8
        place.log.unreadable.clear()
        await place.complete(stuck)

        async def passed() -> bool:
            return bool(await place.database.fetchval("SELECT since > $1 FROM history.sweep", begin))

        await wait_for(passed)
