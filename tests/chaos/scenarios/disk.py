"""The disks under the broker and under Postgres run full, each in turn, and get room again.

What must hold: a full database means a clear refusal within seconds (503 with Retry-After); a full broker may only
cost time; nothing accepted is lost; all ends by itself once there is room. Needs the right to mount a small disk.
"""

import asyncio
import contextlib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.chaos.load.findings import ScenarioFindings, post_run
from tests.chaos.load.steady_load import SteadyLoad
from tests.chaos.scenarios.broker import SLOWLY_MS, finish
from tests.chaos.scenarios.catalogue import Scenario, ScenarioContext, ScenarioReport

from towpath_fabric.clock import monotonic

BROKER_MB: Final = 24
DATABASE_MB: Final = 192
"""A fresh cluster takes 40 MB, its log may keep 80 MB."""

REFUSED_WITHIN_S: Final = 5.0
FULL_S: Final = 6.0
BLOCK: Final = 64 * 1024


@contextmanager
def small_disk(place: Path, megabytes: int) -> Iterator[None]:
    """Mount a disk of *megabytes* at *place* until the block ends; raises OSError where that is not allowed."""
    place.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", "tmpfs", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(done.stderr.strip())
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], capture_output=True, check=False)


def fill(place: Path) -> Path:
    """Fill the disk of *place* to the last byte; return the file that does it."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (BLOCK, 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass
    return ballast


async def broker_full(work: SteadyLoad, findings: ScenarioFindings, *, runs: int) -> None:
    """Fill the broker's disk under *runs*, look, and give it room again."""
    await work.submit(runs, steps=8, delay_ms=SLOWLY_MS)
    ballast = await asyncio.to_thread(fill, work.platform.nats.store)
    try:
        answer = await post_run(work, "broker-full")
        findings.require(
            answer.status in (202, 429, 503), f"with a full broker a run was answered {answer.status} {answer.code}"
        )
        findings.figures["broker_full_answer"] = answer.status
        findings.figures["broker_full_answer_s"] = round(answer.took_s, 2)
        await asyncio.sleep(FULL_S)
        unfinished = len(work.run_ids) - (await work.ended() or 0)
        findings.figures["unfinished_with_full_broker"] = unfinished
    finally:
        ballast.unlink()
    began = monotonic()
    await work.until_ended(timeout_s=240)
    findings.figures["ended_after_broker_had_room_s"] = round(monotonic() - began, 2)


async def database_full(work: SteadyLoad, findings: ScenarioFindings, *, runs: int, cluster: Path) -> None:
    """Fill the database's disk under *runs*, look for clear refusals, and give it room again."""
    await work.submit(runs, steps=8, delay_ms=SLOWLY_MS)
    ballast = await asyncio.to_thread(fill, cluster)
    accepted, refused, longest, first_s = 0, 0, 0.0, None
    began = monotonic()
    try:
        while monotonic() - began < 60 and (first_s is None or monotonic() - began < first_s + FULL_S):
            answer = await post_run(work, f"database-full-{accepted + refused}", steps=20)
            if answer.status == 202:
                accepted += 1
                continue  # there is room left in a segment of the log
            refused += 1
            first_s = monotonic() - began if first_s is None else first_s
            longest = max(longest, answer.took_s)
            findings.require(answer.refused_clearly, f"with a full database a run was answered with {answer}")
            await asyncio.sleep(0.3)
    finally:
        ballast.unlink()
    findings.require(refused > 0, "the database never noticed that its disk is full")
    findings.require(longest <= REFUSED_WITHIN_S, f"a refusal took {longest:.1f} s")
    findings.figures.update(
        accepted_before_full=accepted, refused_while_full=refused, longest_refusal_s=round(longest, 2)
    )
    began = monotonic()
    await work.platform.wait_ready(120)
    findings.figures["ready_after_database_had_room_s"] = round(monotonic() - began, 2)
    await work.until_ended(timeout_s=240)
    findings.figures["ended_after_database_had_room_s"] = round(monotonic() - began, 2)
    findings.figures["postgres_restarts"] = work.platform.processes["postgres"].restarts


async def _full(context: ScenarioContext) -> ScenarioReport:
    data = context.folder / "d"
    data.mkdir(parents=True)
    for place in (context.folder, data, data / "postgres"):
        place.mkdir(exist_ok=True)
        place.chmod(0o711)  # the database's user passes through
    cluster = data / "postgres" / "cluster"
    findings = ScenarioFindings()
    runs = 60 if context.long else 20
    try:
        with small_disk(data / "nats" / "store", BROKER_MB), small_disk(cluster, DATABASE_MB):
            async with SteadyLoad(context.folder, notice=context.notice) as work:
                await broker_full(work, findings, runs=runs)
                await database_full(work, findings, runs=runs, cluster=cluster)
                return await finish(work, findings)
    except OSError as error:
        return ScenarioReport.impossible(f"no small disk can be mounted: {error}")


SCENARIOS = (
    Scenario(
        number=7, name="disk-full", summary="full disks under broker and database", run=_full, needs_privileges=True
    ),
)
