"""Workers of two projects with the same toolset: each takes its own project's calls, and offers its tools there."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from nats.js.errors import NotFoundError
from tests.support.tas.tas_caller import TasCaller
from tests.support.tas.tas_running import Running, running
from tests.support.waiting import eventually
from tests.support.worker.running_worker import serving
from tests.support.worker.worker_process import worker_process
from tests.support.worker.worker_tools import CALLS

from towpath_contracts import rpc
from towpath_contracts.streams import exec_consumer
from towpath_embedded.servers.nats import Nats

POLICY = """
kind: Policy
rules:
  - {name: everything, tool: "*", effect: allow}
"""
PROJECTS = ("team", "team_b")
CALLS_EACH = 10


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CALLS.clear()


async def test_each_worker_gets_only_the_calls_of_its_project(
    nats_server: Nats, database: Callable[..., str], folder: Path
) -> None:
    url = nats_server.url()
    async with (
        running(nats_server, database, folder),
        serving(url, name="w-team", project="team") as first,
        serving(url, name="w-team_b", project="team_b") as second,
        TasCaller(url, "team") as one,
        TasCaller(url, "team_b") as other,
    ):
        callers = (one, other)
        await eventually(lambda: all(held.worker._registration.done for held in (first, second)))
        for caller in callers:
            await caller.apply(POLICY)
        await asyncio.gather(*(work(caller) for caller in callers for _ in range(CALLS_EACH)))
        for caller in callers:
            await caller.quiet("TOOLEXEC", exec_consumer(caller.project, "default").durable)
            done = [entry.actor for entry in await caller.audit(phase="outcome")]
            assert done == [f"w-{caller.project}"] * CALLS_EACH
        assert len(CALLS) == CALLS_EACH * len(PROJECTS)
        for held in (first, second):
            assert held.count("towpath_worker_refused_total", reason="misdirected") == 0


async def test_the_calls_of_a_project_without_a_worker_wait(
    nats_server: Nats, database: Callable[..., str], folder: Path
) -> None:
    url = nats_server.url()
    async with running(nats_server, database, folder), TasCaller(url, "team_b") as other:
        async with serving(url, name="w-team_b", project="team_b") as held:
            await eventually(lambda: held.worker._registration.done)
        await other.apply(POLICY)
        async with serving(url, name="w-team", project="team"):
            request = await other.put(other.request("pay", toolset="default", args={"amount": 1}))
            await other.dispatched(request)
            await asyncio.sleep(0.5)  # time enough for the other project's worker, had it been sent the call
            assert CALLS == []
            async with serving(url, name="w-team_b", project="team_b"):
                assert (await other.fact(request, "tool.finished"))["status"] == "succeeded"


async def test_a_worker_process_offers_its_tools_to_the_project_of_its_setting(
    nats_server: Nats, database: Callable[..., str], folder: Path
) -> None:
    async with running(nats_server, database, folder) as tas:
        with worker_process(folder, nats_server.url(), "--builtin", environment={"TOWPATH_PROJECT": "team_b"}):
            await offered(tas, "team_b")
        described = await tas.caller.ask(rpc.DESCRIBE_TOOLS, project="default")
        assert all(tool.internal for tool in described.tools), "the platform's own alone"
        js = tas.caller.nc.jetstream()
        assert (await js.consumer_info("TOOLEXEC", exec_consumer("team_b", "builtin").durable)).num_pending == 0
        with pytest.raises(NotFoundError):
            await js.consumer_info("TOOLEXEC", exec_consumer("default", "builtin").durable)


async def work(caller: TasCaller) -> None:
    """Ask for a call that needs a claim, and wait for its end."""
    request = await caller.put(caller.request("pay", toolset="default", args={"amount": 1}))
    assert (await caller.fact(request, "tool.finished"))["status"] == "succeeded"


async def offered(tas: Running, project: str) -> None:
    """Wait until TAS knows tools of *project*."""
    for _ in range(600):
        described = await tas.caller.ask(rpc.DESCRIBE_TOOLS, project=project)
        if not all(tool.internal for tool in described.tools):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"no tools of {project}")
