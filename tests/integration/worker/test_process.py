"""The worker as a process: modules and files, readiness, a clean end, a sudden end."""

import asyncio
import signal
from pathlib import Path

import pytest
from tests.support.tas.tas_peer import GRANTED, TasPeer
from tests.support.waiting import eventually
from tests.support.worker.worker_process import worker_process

from towpath_contracts.tools.calls import ClaimAnswer
from towpath_embedded.servers.nats import Nats

TOOLS = '''
"""Tools that leave a line in a file for every call that begins and for every one that ends."""
import asyncio, os, time
from pathlib import Path
from beside import PLACE
from towpath import tool, ToolContext

def leave(word, ctx):
    with PLACE.open("a") as file:
        file.write(f"{word} {ctx.execution_id}\\n")

@tool(effect_class="irreversible", toolset="marks")
async def mark(seconds: float, ctx: ToolContext) -> str:
    """Leave a mark."""
    leave("began", ctx)
    await asyncio.sleep(seconds)
    leave("ended", ctx)
    return "marked"

@tool(effect_class="idempotent", toolset="marks", timeout="300ms")
def stuck(ctx: ToolContext) -> None:
    """Block for a minute."""
    leave("began", ctx)
    time.sleep(60)
'''


@pytest.fixture
def tools(folder: Path) -> Path:
    """A file of tools with a module beside it, as a user has them."""
    (folder / "beside.py").write_text(f"from pathlib import Path\nPLACE = Path({str(folder / 'marks.txt')!r})\n")
    (folder / "marks.py").write_text(TOOLS)
    (folder / "marks.txt").touch()
    return folder / "marks.py"


def marks(folder: Path, word: str) -> list[str]:
    return [line for line in (folder / "marks.txt").read_text().splitlines() if line.startswith(word)]


async def test_a_worker_serves_a_file_and_a_module_and_the_builtin_toolset(
    nats_server: Nats, folder: Path, tools: Path
) -> None:
    url = nats_server.url()
    arguments = (str(tools), "tests.support.worker.effect_tools", "--builtin")
    environment = {"TOWPATH_TEST_EFFECTS": str(folder / "effects")}
    async with TasPeer(url) as tas:
        with worker_process(folder, url, *arguments, environment=environment) as worker:
            await worker.wait_ready()
            assert {one.toolset for one in tas.registered} == {"marks", "builtin"}
            assert (await tas.call("echo", {"value": [1, "two"]}, toolset="builtin")).result == [1, "two"]
            assert (await tas.call("mark", {"seconds": 0}, toolset="marks")).result == "marked"
            assert (await tas.call("mark.pure", {"n": 3}, toolset="marks")).result == {"n": 3}
            assert "Z" in (await tas.call("clock.now", {}, toolset="builtin")).result["iso"].replace("+00:00", "Z")
            worker.terminate()
            assert await worker.ended() == 0


async def test_ctrl_c_ends_a_worker_without_a_traceback(nats_server: Nats, folder: Path, tools: Path) -> None:
    async with TasPeer(nats_server.url()):
        with worker_process(folder, nats_server.url(), str(tools)) as worker:
            await worker.wait_ready()
            worker.process.send_signal(signal.SIGINT)
            assert await worker.ended() == 0
            assert "Traceback" not in worker.log.read_text()


async def test_ctrl_c_ends_a_worker_whose_broker_is_gone_without_a_traceback(
    nats_server: Nats, folder: Path, tools: Path
) -> None:
    async with TasPeer(nats_server.url()):
        with worker_process(folder, nats_server.url(), str(tools)) as worker:
            await worker.wait_ready()
            await nats_server.stop()
            await asyncio.sleep(1)  # the worker has to notice, else it drains what it takes for a connection
            worker.process.send_signal(signal.SIGINT)
            assert await worker.ended() == 0
            assert "Traceback" not in worker.log.read_text()
            await nats_server.start()


async def test_a_terminated_worker_takes_nothing_new_and_finishes_what_it_began(
    nats_server: Nats, folder: Path, tools: Path
) -> None:
    url = nats_server.url()
    async with TasPeer(url) as tas:
        with worker_process(folder, url, str(tools), "--concurrency", "1") as worker:
            await worker.wait_ready()
            running = await tas.dispatch(tas.invocation("mark", {"seconds": 3}, toolset="marks"))
            await eventually(lambda: marks(folder, "began") != [])
            waiting = await tas.dispatch(tas.invocation("mark", {"seconds": 0}, toolset="marks"))
            worker.terminate()
            assert (await tas.outcome(running)).status == "succeeded"
            await worker.ended()
            assert tas.outcomes_of(waiting) == []
            assert len(marks(folder, "ended")) == 1
        with worker_process(folder, url, str(tools)) as other:
            await other.wait_ready()
            assert (await tas.outcome(waiting, within_s=60)).status == "succeeded"
            await tas.all_acknowledged("marks")


async def test_a_thread_that_never_ends_does_not_keep_the_process(nats_server: Nats, folder: Path, tools: Path) -> None:
    url = nats_server.url()
    async with TasPeer(url) as tas:
        with worker_process(folder, url, str(tools), environment={"TOWPATH_STOP_GRACE_S": "2"}) as worker:
            await worker.wait_ready()
            failure = (await tas.call("stuck", toolset="marks", effect_class="idempotent")).failure
            assert failure is not None
            assert failure.code == "tool_timeout"
            worker.terminate()
            await worker.ended(within_s=40)


async def test_a_killed_worker_costs_an_irreversible_call_nothing_but_its_answer(
    nats_server: Nats, folder: Path, tools: Path
) -> None:
    """TAS grants one claim; whoever gets the delivery after the kill is refused and does nothing."""
    url = nats_server.url()
    async with TasPeer(url) as tas:
        granted: list[object] = []

        def once(asked: object) -> ClaimAnswer:
            granted.append(asked)
            return GRANTED if len(granted) == 1 else ClaimAnswer(granted=False, reason="claimed")

        tas.claim = once
        with worker_process(folder, url, str(tools)) as worker:
            await worker.wait_ready()
            call = tas.invocation("mark", {"seconds": 60}, toolset="marks", effect_class="irreversible")
            await tas.dispatch(call)
            await eventually(lambda: marks(folder, "began") != [])
            worker.process.kill()
            await worker.ended()
        with worker_process(folder, url, str(tools)) as other:
            await other.wait_ready()
            await tas.dispatch(call)  # what the broker would do after the ack wait of 20 s
            await eventually(lambda: len(tas.claims) == 2)
            await other.counted('towpath_worker_refused_total{reason="claim"}')
        assert len(marks(folder, "began")) == 1
        assert tas.outcomes_of(call) == []


async def test_a_worker_with_nothing_to_serve_says_so_and_ends(folder: Path) -> None:
    for arguments, found in (
        ([], "no tool to serve"),
        (["no.such"], "no module no.such"),
        (["./no.py"], "no.py is not there"),
    ):
        with worker_process(folder, "nats://127.0.0.1:1", *arguments) as worker:
            assert await worker.ended() == 2
            assert found in worker.log.read_text()
            assert "Traceback" not in worker.log.read_text()
