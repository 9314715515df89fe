"""The life of calls in a real TAS process, over real NATS and Postgres."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.service_process import ServiceProcess, service_process
from tests.support.tas_caller import TasCaller, row

from towpath_embedded.nats import Nats


@dataclass
class Running:
    """A TAS with a caller beside it."""

    caller: TasCaller
    service: ServiceProcess
    dsn: str


@pytest.fixture
async def tas(nats_server: Nats, database: Callable[..., str], folder: Path) -> AsyncIterator[Running]:
    with service_process(
        "tas",
        folder,
        nats_server.url(),
        database_url=database("tas"),
        ticket_key_file=str(folder / "ticket.key"),
        embedded="1",
    ) as process:
        await process.wait_ready()
        async with TasCaller(nats_server.url()) as caller:
            await caller.set_up()
            yield Running(caller=caller, service=process, dsn=database())


async def test_a_pure_call_is_permitted_run_and_told(tas: Running) -> None:
    caller = tas.caller
    invocation = await caller.call("orders.find")
    key = await caller.report(invocation)
    await caller.confirmation(key)
    fact = await caller.fact(invocation, "tool.finished")
    assert (fact["status"], fact["result"]) == ("succeeded", {"ok": True})
    stored = await row(tas.dsn, invocation.execution_id)
    assert (stored["status"], stored["attempt"], stored["revision"]) == ("succeeded", 1, 2)
    entries = await caller.audit(execution_id=invocation.execution_id)
    assert [(entry.phase, entry.verdict) for entry in entries] == [("decision", "allow"), ("outcome", "succeeded")]
