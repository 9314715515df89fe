"""What agents send that is no fact, or of no run, costs few statements, and counts as their own project's."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.integration.orchestrator.test_task_runs import ended, publish, submit, three_steps
from tests.support.orchestrator.orchestrator_peers import Peers, connected, orchestrator
from tests.support.statement_count import transactions
from tests.support.tas.tas_caller import query
from tests.support.waiting import all_sent

from towpath_contracts import subjects
from towpath_contracts.facts import DecisionFailedFact

FLOOD = 2_000
FEW = FLOOD // 5
"""One statement for each message would be FLOOD; a run of three steps and what a service asks anyhow is less."""


@pytest.fixture
async def peers(nats_server: Any) -> AsyncIterator[Peers]:
    async with connected(nats_server.url()) as nc:
        found = Peers(nc, three_steps)
        await found.start()
        yield found
        await found.stop()


def no_fact(_: UUID) -> bytes:
    return b"{}"


def of_no_run(run_id: UUID) -> bytes:
    told = {"request_id": run_id, "attempt": 1, "code": "model_timeout", "message": "no answer", "model": "m"}
    return DecisionFailedFact(run_id=run_id, **told).model_dump_json().encode()


@pytest.mark.parametrize("make", [no_fact, of_no_run])
async def test_a_flood_of_what_is_no_fact_costs_few_statements(
    database: Any, nats_server: Any, peers: Peers, make: Any
) -> None:
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await publish(peers)
        mine = (await submit(peers))["run_id"]
        await ended(peers, mine)
        pool = subjects.agent_pool("theirs", "echo")
        await peers.nc.publish(subjects.agent_inbox(pool, UUID(mine)), b"{}")
        for _ in range(FLOOD):
            run_id = uuid4()
            await peers.nc.publish(subjects.agent_inbox(pool, run_id), make(run_id))
        await all_sent(peers.nc)
        await ended(peers, (await submit(peers))["run_id"])
    assert await transactions(database()) < FEW
    owners = await query(
        database(), "SELECT project, count(*) AS letters FROM runs.dead_letter GROUP BY project ORDER BY project"
    )
    assert owners == [{"project": "theirs", "letters": 1_000}], "none is of the project whose run was named"
