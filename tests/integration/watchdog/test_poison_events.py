"""An event that ended eight watchdogs in a row is skipped by the next one that gets it first, and by no other."""

from pathlib import Path

import nats
import pytest
from tests.support.orchestrator import run_history as h
from tests.support.orchestrator.run_log import RunLog, wait_for
from tests.support.poison_marks import deliver_unanswered
from tests.support.service_process import ServiceProcess, service_process

from towpath_contracts.streams import WATCHDOG_CONSUMER
from towpath_embedded.servers.nats import Nats
from towpath_fabric.ids import new_run_id
from towpath_fabric.nats.streams import ensure_streams
from towpath_watchdog.app.event_reader import SKIPPED_FROM

QUICK = {"watchdog_linger_ms": "10", "watchdog_sweep_s": "60", "watchdog_look_s": "60", "watchdog_quiet_s": "60"}


async def fates(watchdog: ServiceProcess) -> dict[str, int]:
    """Return how many messages were read and set aside."""
    lines = [line for line in (await watchdog.metrics()).splitlines() if line.startswith("towpath_watchdog_messages_t")]
    return {line.split('"')[1]: int(float(line.rpartition(" ")[2])) for line in lines}


@pytest.mark.parametrize(
    ("deaths", "expected"),
    [
        (SKIPPED_FROM - 1, {"set_aside": 1, "read": 3}),
        (SKIPPED_FROM - 2, {"read": 4}),
        (2, {"read": 4}),
    ],
    ids=["eighth delivery", "seventh", "third"],
)
async def test_what_was_delivered_so_often_is_skipped_where_it_comes_first(
    nats_server: Nats, folder: Path, deaths: int, expected: dict[str, int]
) -> None:
    connection = await nats.connect(nats_server.url())
    await ensure_streams(connection)
    log, run = RunLog(connection), new_run_id()
    await log.start()
    told = log.keep(run, h.whole_run(run, 3))[:4]
    await log.tell(told)
    await deliver_unanswered(connection, WATCHDOG_CONSUMER, messages=4, times=deaths)
    with service_process("watchdog", folder, nats_server.url(), **QUICK) as watchdog:
        await watchdog.wait_ready()

        async def is_read() -> bool:
            info = await connection.jetstream().consumer_info("EVENTS", "watchdog")
            return (info.num_pending, info.num_ack_pending) == (0, 0)

        await wait_for(is_read)
        assert await fates(watchdog) == expected
    await connection.close()
