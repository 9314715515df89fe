"""What an orchestrator had committed and not sent goes on within seconds, not after a decision's lease."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import nats.errors
import pytest
from tests.support.orchestrator.orchestrator_peers import NETWORK, Peers, connected, orchestrator, respond, use
from tests.support.tcp_proxy import tcp_proxy

from towpath_contracts import rpc
from towpath_contracts.networks.spec import PublishNetwork
from towpath_contracts.runs.views import GetRun, ListRuns
from towpath_contracts.tasks import SubmitTask
from towpath_fabric.crash_points import VARIABLE
from towpath_fabric.postgres.database_hosts import hosts_of

PATIENCE_S = 60
"""Less than the lease of a decision (75 s), after which it is asked for again anyway."""


@pytest.fixture
async def peers(nats_server: Any) -> AsyncIterator[Peers]:
    async with connected(nats_server.url()) as nc:
        found = Peers(nc, lambda request: use("once") if request.step < 2 else respond("done"))
        await found.start()
        yield found
        await found.stop()


async def begin(peers: Peers, key: str) -> None:
    await peers.ask(rpc.PUBLISH_NETWORK, PublishNetwork(project="default", actor="test", spec=NETWORK))
    task = SubmitTask(network="solo", user_message="hello", idempotency_key=key)
    await peers.nc.publish("task.submit", task.model_dump_json().encode(), reply=peers.nc.new_inbox())


async def completed(peers: Peers) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            # A question may go to the replica that dies with it.
            with contextlib.suppress(nats.errors.TimeoutError):
                (run,) = (await peers.ask(rpc.LIST_RUNS, ListRuns(project="default"))).runs
                view = await peers.ask(rpc.GET_RUN, GetRun(project="default", run_id=run.run_id, wait_ms=2_000))
                if view.ended_at is not None:
                    assert (view.status, view.reason) == ("completed", "responded")
                    return


@pytest.mark.parametrize("passing", ["1", "2", "3"])
async def test_effects_that_were_not_sent_are_sent_when_the_fact_comes_again(
    database: Any, nats_server: Any, peers: Peers, tmp_path: Path, passing: str
) -> None:
    crash = {VARIABLE: str(tmp_path)}
    async with (
        orchestrator(database("orchestrator"), nats_server.url(), **crash) as first,
        orchestrator(database("orchestrator"), nats_server.url(), **crash) as second,
    ):
        (tmp_path / "orchestrator.committed").write_text(passing)
        await begin(peers, "fact")
        ends = {asyncio.ensure_future(first.ended(PATIENCE_S)), asyncio.ensure_future(second.ended(PATIENCE_S))}
        _, waiting = await asyncio.wait(ends, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        assert len(waiting) == 1
        await completed(peers)


async def test_a_run_that_was_stored_and_never_begun_is_begun_by_the_next_process(
    database: Any, nats_server: Any, peers: Peers, tmp_path: Path
) -> None:
    async with orchestrator(database("orchestrator"), nats_server.url(), **{VARIABLE: str(tmp_path)}) as first:
        (tmp_path / "orchestrator.submit_committed").write_text("")
        await begin(peers, "submit")
        await first.ended(PATIENCE_S)
    async with orchestrator(database("orchestrator"), nats_server.url()):
        await completed(peers)


async def test_what_was_stored_without_an_answer_is_sent_when_the_same_process_tries_again(
    database: Any, nats_server: Any, peers: Peers
) -> None:
    """The broker does not deliver the fact a second time: its process has it, and says so."""
    dsn = database("orchestrator")
    (host, port), *_ = hosts_of(dsn)
    parts = urlsplit(dsn)
    owner = await asyncpg.connect(database())
    stored = "SELECT count(*) FROM runs.run_event WHERE type = 'tool_call_finished'"
    async with tcp_proxy(Path(host, f".s.PGSQL.{port}") if host.startswith("/") else port) as proxy:
        login = parts.netloc.rpartition("@")[0]
        address = f"{parts.scheme}://{login}@127.0.0.1:{proxy.port}{parts.path}"
        async with orchestrator(address, nats_server.url()):
            proxy.mutes_at = b'"tool_call_finished"'
            await begin(peers, "unanswered")
            async with asyncio.timeout(PATIENCE_S):
                await proxy.muted.wait()
                while not await owner.fetchval(stored):  # noqa: ASYNC110 - a level
                    await asyncio.sleep(0.01)
            proxy.cut()
            await completed(peers)
    await owner.close()
