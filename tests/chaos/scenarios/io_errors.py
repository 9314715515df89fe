"""Writes and syncs fail under Postgres and under the broker, injected with strace.

What must hold: nothing is acknowledged that is not on the disk; what fails is started again by itself; no accepted run
is lost. Needs strace and the right to trace.
"""

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tests.chaos.load.findings import ScenarioFindings, process_tree
from tests.chaos.load.steady_load import SteadyLoad
from tests.chaos.scenarios.broker import SLOWLY_MS, finish
from tests.chaos.scenarios.catalogue import Scenario, ScenarioContext, ScenarioReport

from towpath_fabric.clock import monotonic

INJECTIONS: Final[dict[str, tuple[str, str, str]]] = {
    "postgres_sync_eio": ("postgres", "fsync,fdatasync", "error=EIO:when=6..8"),
    "postgres_write_enospc": ("postgres", "pwrite64,pwritev", "error=ENOSPC:when=12..14"),
    "nats_write_enospc": ("nats", "pwrite64", "error=ENOSPC:when=20..22"),
    "nats_sync_eio": ("nats", "fsync,fdatasync", "error=EIO:when=1..2"),
}
"""By name: whose calls, which calls, and which of them fail and how, counted in each thread."""

LONG_ENOUGH_S: Final = 8.0
INJECTED: Final = "(INJECTED)"


@asynccontextmanager
async def injected(pids: Sequence[int], calls: str, how: str, log: Path) -> AsyncIterator[None]:
    """Let *calls* of *pids* and their children fail as *how* names, until the block ends; OSError where it can't be."""
    command = ["strace", "-f", "-qq", "-o", str(log), "-e", f"trace={calls}", "-e", f"inject={calls}:{how}"]
    for pid in pids:
        command += ["-p", str(pid)]
    tracer = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        await asyncio.sleep(0.5)
        if tracer.returncode is not None:
            output = await tracer.stderr.read() if tracer.stderr is not None else b""
            raise OSError(output.decode(errors="replace").strip())
        yield
    finally:
        if tracer.returncode is None:
            tracer.terminate()  # strace lets go of what it traces
        await tracer.communicate()


async def fail_io(work: SteadyLoad, findings: ScenarioFindings, name: str, *, runs: int) -> int:
    """Let the calls of one injection fail under fresh *runs*; return how many failed."""
    server, calls, how = INJECTIONS[name]
    unit = work.platform.postgres if server == "postgres" else work.platform.nats
    assert unit.process is not None
    log = work.outside.parent / f"{name}.strace"
    before = work.platform.processes[server].restarts
    async with injected(process_tree(unit.process.pid), calls, how, log):
        await work.submit(runs, steps=8, delay_ms=SLOWLY_MS)
        end = monotonic() + LONG_ENOUGH_S
        while monotonic() < end and await work.ended() != len(work.run_ids):  # noqa: ASYNC110 - a level
            await asyncio.sleep(0.2)
    began = monotonic()
    await work.platform.wait_ready(120)
    await work.until_ended(timeout_s=240)
    failed = log.read_text(errors="replace").count(INJECTED)
    findings.figures[f"{name}_failed_calls"] = failed
    findings.figures[f"{name}_ended_after_s"] = round(monotonic() - began, 2)
    findings.figures[f"{name}_restarts"] = work.platform.processes[server].restarts - before
    return failed


async def _io_errors(context: ScenarioContext) -> ScenarioReport:
    if shutil.which("strace") is None:
        return ScenarioReport.impossible("strace is not installed")
    findings = ScenarioFindings()
    async with SteadyLoad(context.folder, notice=context.notice) as work:
        try:
            for name in INJECTIONS:
                failed = await fail_io(work, findings, name, runs=60 if context.long else 20)
                # The broker syncs every two minutes and at its end only (default sync): there may be nothing to fail.
                findings.require(failed > 0 or name == "nats_sync_eio", f"{name} never struck")
        except OSError as error:
            return ScenarioReport.impossible(f"no process can be traced here: {error}")
        return await finish(work, findings)


SCENARIOS = (
    Scenario(
        number=6,
        name="io-errors",
        summary="writes and syncs of the servers fail",
        run=_io_errors,
        needs_privileges=True,
    ),
)
