"""The worker with the real tool-access service: permitted, claimed, run, recorded, confirmed."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.service_process import ServiceProcess, service_process
from tests.support.tas.tas_caller import TasCaller, query, row, settled
from tests.support.waiting import eventually
from tests.support.worker.running_worker import Serving, serving
from tests.support.worker.worker_tools import CALLS

from towpath_contracts import rpc
from towpath_contracts.streams import exec_consumer
from towpath_contracts.tools.access import RaiseFence
from towpath_contracts.tools.calls import ToolRequest
from towpath_embedded.servers.nats import Nats

POLICY = """
kind: Policy
rules:
  - {name: everything, tool: "*", effect: allow}
"""


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CALLS.clear()


class House:
    """Where a TAS is started, again and again on the same data."""

    def __init__(self, server: Nats, database: Callable[..., str], folder: Path) -> None:
        self.server = server
        self.dsn = database()
        self._settings = {
            "database_url": database("tas"),
            "ticket_key_file": str(folder / "ticket.key"),
            "embedded": "1",
        }
        self._folder = folder

    @asynccontextmanager
    async def tas(self) -> AsyncIterator[ServiceProcess]:
        with service_process("tas", self._folder, self.server.url(), **self._settings) as process:
            await process.wait_ready()
            yield process


@pytest.fixture
def house(nats_server: Nats, database: Callable[..., str], folder: Path) -> House:
    return House(nats_server, database, folder)


@asynccontextmanager
async def working(house: House) -> AsyncIterator[tuple[TasCaller, Serving]]:
    """A worker that is registered, and the rest of the platform beside it."""
    async with TasCaller(house.server.url()) as caller, serving(house.server.url()) as worker:
        await caller.apply(POLICY)
        await eventually(lambda: worker.worker._registration.done)
        yield caller, worker


async def ask(caller: TasCaller, tool: str, args: dict[str, Any], **changes: Any) -> ToolRequest:
    return await caller.put(caller.request(tool, toolset="default", args=args, **changes))


async def emptied(caller: TasCaller) -> None:
    await caller.quiet("TOOLEXEC", exec_consumer("default", "default").durable)


async def test_a_pure_and_an_irreversible_call_end_in_ledger_and_audit(house: House) -> None:
    async with house.tas(), working(house) as (caller, _):
        pure = await ask(caller, "add", {"a": 1, "b": 2})
        assert (await caller.fact(pure, "tool.finished"))["result"] == {"total": 3}
        paid = await ask(caller, "pay", {"amount": 5})
        fact = await caller.fact(paid, "tool.finished")
        assert (fact["status"], fact["result"]["key"]) == ("succeeded", str(paid.execution_id))
        phases = [(one.phase, one.verdict) for one in await caller.audit(execution_id=paid.execution_id)]
        assert phases == [("decision", "allow"), ("claim", "granted"), ("outcome", "succeeded")]
        await emptied(caller)
        assert ["add", f"pay {paid.execution_id}"] == CALLS


async def test_a_large_result_is_in_the_database_before_its_fact(house: House) -> None:
    async with house.tas(), working(house) as (caller, _):
        asked = await ask(caller, "large", {"size": 700_000})
        fact = await caller.fact(asked, "tool.finished")
        assert (fact["blob"], fact["result"], fact["result_bytes"]) == (True, None, 700_002)
        assert fact["preview"] == {"head": "x" * 49_152, "tail": "x" * 16_384, "size": 700_000}
        (blob,) = await query(house.dsn, "SELECT size FROM runs.blob WHERE digest = $1", fact["result_digest"])
        assert blob["size"] == 700_002


async def test_an_outcome_waits_for_a_tas_that_was_killed(house: House) -> None:
    async with house.tas() as first, working(house) as (caller, worker):
        asked = await ask(caller, "pay_slowly", {"seconds": 1.5})
        await eventually(lambda: CALLS != [])
        first.kill()
        await eventually(
            lambda: worker.count("towpath_worker_outcomes_total", tool="pay_slowly", status="succeeded") == 1
        )
        assert (await row(house.dsn, asked.execution_id))["status"] == "started"
        async with house.tas():
            assert (await caller.fact(asked, "tool.finished"))["status"] == "succeeded"
            await emptied(caller)
        assert len(CALLS) == 1


async def test_a_call_of_a_cancelled_run_is_stopped(house: House) -> None:
    async with house.tas(), working(house) as (caller, _):
        asked = await ask(caller, "pay_slowly", {"seconds": 20})
        await eventually(lambda: CALLS != [])
        answer = await caller.send(rpc.RAISE_FENCE, RaiseFence(run_id=asked.run_id, project="default", fence=1))
        assert answer.live == (asked.execution_id,)
        stored = await settled(house.dsn, asked.execution_id, "failed")
        assert stored["attempt"] == 1
        await emptied(caller)


async def test_what_a_worker_offers_is_what_tas_knows(house: House) -> None:
    async with house.tas(), working(house) as (caller, _):
        described = await caller.ask(rpc.DESCRIBE_TOOLS, project="default")
        known = {one.name: one for one in described.tools}
        assert known["add"].effect_class == "pure"
        assert known["add"].parameters["required"] == ["a", "b"]
        assert known["pay"].effect_class == "irreversible"
        assert (known["elsewhere"].toolset, known["elsewhere"].system_params) == ("second", ("who",))
