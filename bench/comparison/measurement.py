"""One measurement of one system, in a process of its own, with fresh servers; what it printed comes back."""

import asyncio
import contextlib
import json
import signal
import sys
from pathlib import Path
from typing import Any

from comparison.environments import Environment, last_line
from towpath_embedded.servers.postgres import Postgres
from towpath_embedded.servers.postgres_identity import temporary_folder

BENCH = Path(__file__).parents[1]
DATABASE = "w1"
LONGEST_S = 1800
PHASES = "alone,together,memory"

Measured = dict[str, Any]


class MeasurementError(Exception):
    """The system could not be measured, with the reason."""


async def measure_towpath(tool: str, *, quick: bool) -> Measured:
    """Measure Towpath with a tool of one effect class; raise MeasurementError."""
    words = [sys.executable, str(BENCH / "w1.py"), "--tools", tool, "--phases", PHASES]
    measured: Measured = (await _printed(words, quick=quick))[tool]
    return measured


async def measure_peer(name: str, environment: Environment, *, quick: bool) -> Measured:
    """Measure a peer, with the Postgres that Towpath uses, as Towpath sets it; raise MeasurementError."""
    words = [str(environment.python), "-m", f"peers.{name}", "--phases", PHASES]
    if environment.server:
        words += ["--server", str(environment.server)]
        measured = await _printed(words, quick=quick)
        package = json.loads((environment.server.parents[1] / "package.json").read_text("utf-8"))
        return {**measured, "versions": {**measured["versions"], environment.server.name: package["version"]}}
    with temporary_folder() as folder:
        postgres = Postgres(folder / "postgres")
        try:
            await postgres.start()
            await postgres.ensure_database(DATABASE)
            assert postgres.process is not None
            place = ["--database", postgres.dsn(database=DATABASE), "--database-pid", str(postgres.process.pid)]
            return await _printed([*words, *place], quick=quick)
        finally:
            await postgres.stop()


async def _printed(words: list[str], *, quick: bool) -> Measured:
    """Return the JSON line that a benchmark prints."""
    if quick:
        words = [*words, "--quick"]
    process = await asyncio.create_subprocess_exec(
        *words, cwd=BENCH, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        out, errors = await asyncio.wait_for(process.communicate(), LONGEST_S)
    except TimeoutError as error:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)  # it stops its servers
        await process.wait()
        raise MeasurementError(f"took longer than {LONGEST_S} s") from error
    if process.returncode:
        raise MeasurementError(last_line(errors.decode(errors="replace")))
    measured: Measured = json.loads(out.decode().splitlines()[-1])
    return measured
