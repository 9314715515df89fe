"""The power goes: Postgres and the broker lie on disks that lose whatever was not synced.

What must hold: no committed row is lost, the broker may lose anything, every run ends, no effect happens twice.
The control must lose rows: the same cut under a Postgres with `fsync` off.
"""

import asyncio
import contextlib
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import asyncpg
from tests.chaos.load.findings import ScenarioFindings
from tests.chaos.load.steady_load import DATABASE_ERRORS, SteadyLoad
from tests.chaos.scenarios.broker import SLOWLY_MS, finish
from tests.chaos.scenarios.catalogue import Scenario, ScenarioContext, ScenarioReport
from tests.support.places import ROOT

from towpath_contracts.problems.registry import ProblemError
from towpath_embedded.servers.postgres import Postgres

ANSWER_S: Final = 30.0
CONTROL_ROWS: Final = 300


class MountedLossyDisk:
    """A mounted lossy disk; see `tests.chaos.servers.lossy_disk`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self) -> str:
        """Return its next line of output; OSError where it has ended."""
        assert self._process.stdout is not None
        output = await asyncio.wait_for(self._process.stdout.readline(), ANSWER_S)
        if not output:
            raise OSError("the lossy disk has ended")
        return output.decode().strip()

    async def cut(self) -> int:
        """Forget what was not synced; return how many writes that were."""
        self._process.send_signal(signal.SIGUSR1)
        return int((await self.line()).removeprefix("cut "))


def make_traversable(place: Path) -> None:
    """Make *place* a folder that the database's user may pass through."""
    place.mkdir(parents=True, exist_ok=True)
    place.chmod(0o711)


@asynccontextmanager
async def mounted_lossy_disk(place: Path) -> AsyncIterator[MountedLossyDisk]:
    """Mount a lossy disk at *place* until the block ends; OSError where that can't be done."""
    make_traversable(place)
    command = (sys.executable, "-m", "tests.chaos.servers.lossy_disk", str(place))
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, start_new_session=True, cwd=ROOT
    )
    disk = MountedLossyDisk(process)
    try:
        try:
            await disk.line()
        except OSError as error:
            output = await process.stderr.read() if process.stderr is not None else b""
            raise OSError(output.decode(errors="replace").strip().rpartition("\n")[2]) from error
        yield disk
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


class RowWriter:
    """Commits numbers one by one and remembers which commits were acknowledged."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.acknowledged: set[int] = set()

    async def write(self, count: int | None = None) -> None:
        """Write until the database goes, or *count* numbers."""
        number = len(self.acknowledged)
        with contextlib.suppress(*DATABASE_ERRORS):
            connection = await asyncpg.connect(self._dsn, timeout=ANSWER_S)
            try:
                await connection.execute("CREATE TABLE IF NOT EXISTS public.power (n bigint)")
                while count is None or number < count:
                    number += 1
                    await connection.execute("INSERT INTO public.power VALUES ($1)", number)
                    self.acknowledged.add(number)
            finally:
                connection.terminate()

    async def lost(self) -> int:
        """Return how many acknowledged numbers are not there."""
        connection = await asyncpg.connect(self._dsn, timeout=ANSWER_S)
        try:
            rows = await connection.fetch("SELECT n FROM public.power")
        finally:
            await connection.close()
        return len(self.acknowledged - {row["n"] for row in rows})


async def lose_power(
    work: SteadyLoad, findings: ScenarioFindings, disks: Any, *, runs: int, cuts: int, seed: int
) -> None:
    """Cut the power of both servers *cuts* times at random moments, each under fresh *runs*."""
    chance = random.Random(seed)
    writer = RowWriter(work.platform.dsn())
    forgotten = dict.fromkeys(disks, 0)
    longest = 0.0
    for _ in range(cuts):
        await work.submit(runs, delay_ms=SLOWLY_MS)
        writing = asyncio.create_task(writer.write(), name="write rows")
        await asyncio.sleep(chance.uniform(0.3, 1.5))
        await asyncio.gather(*(work.platform.hold(name) for name in disks))
        for name, disk in disks.items():
            forgotten[name] += await disk.cut()
        for name in disks:
            work.platform.release(name)
        await writing
        await work.platform.wait_ready(120)
        while (known := await work.events()) is None:  # noqa: ASYNC110 - the database does not report it
            await asyncio.sleep(0.1)
        longest = max(longest, await work.resumed(known))
    await work.until_ended(timeout_s=240)
    lost = await writer.lost()
    findings.require(lost == 0, f"{lost} of {len(writer.acknowledged)} acknowledged commits are gone")
    findings.require(all(forgotten.values()), f"a disk never forgot anything: {forgotten}")
    findings.figures.update(cuts=cuts, acknowledged=len(writer.acknowledged), acknowledged_lost=lost)
    findings.figures.update({f"{name}_writes_forgotten": count for name, count in forgotten.items()})
    findings.figures["longest_stop_s"] = round(longest, 2)


async def control(folder: Path, findings: ScenarioFindings) -> None:
    """Do the same to a Postgres that does not sync: it has to lose, or the disk forgets nothing."""
    make_traversable(folder)
    async with mounted_lossy_disk(folder / "cluster") as disk:
        careful = Postgres(folder)
        await careful.start()
        await careful.ensure_database()
        await careful.stop()
        careless = Postgres(folder, durable=False)
        await careless.start()
        writer = RowWriter(careless.dsn())
        try:
            await writer.write(CONTROL_ROWS)
            assert careless.process is not None
            careless.process.kill()
            await asyncio.to_thread(careless.process.wait)
            await disk.cut()
            try:
                await careless.start()
                lost: int | str = await writer.lost()
            except (ProblemError, *DATABASE_ERRORS) as error:
                lost = f"all: the database is damaged ({type(error).__name__})"
        finally:
            await careless.stop()
    findings.figures.update(control_acknowledged=len(writer.acknowledged), control_lost=lost)
    findings.require(
        bool(writer.acknowledged) and lost != 0, "without fsync nothing was lost: the disk does not forget"
    )


async def _power(context: ScenarioContext) -> ScenarioReport:
    if not os.access("/dev/fuse", os.R_OK | os.W_OK) or not context.privileged:
        return ScenarioReport.impossible("a FUSE file system needs /dev/fuse and root")
    data = context.folder / "d"
    for place in (context.folder, data, data / "postgres"):
        make_traversable(place)
    findings = ScenarioFindings()
    try:
        await control(context.folder / "control", findings)
        async with (
            mounted_lossy_disk(data / "nats" / "store") as nats,
            mounted_lossy_disk(data / "postgres" / "cluster") as postgres,
            SteadyLoad(context.folder, notice=context.notice) as work,
        ):
            disks = {"postgres": postgres, "nats": nats}
            sizes = {"runs": 40, "cuts": 12} if context.long else {"runs": 15, "cuts": 3}
            await lose_power(work, findings, disks, seed=context.seed, **sizes)
            return await finish(work, findings)
    except OSError as error:
        return ScenarioReport.impossible(f"no disk that forgets can be mounted: {error}")


SCENARIOS = (
    Scenario(
        number=5, name="power-loss", summary="disks forget what was not synced", run=_power, needs_privileges=True
    ),
)
