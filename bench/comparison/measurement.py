"""One measurement of one system, in a process of its own, with fresh servers; what it printed comes back."""

import asyncio
import contextlib
import json
import signal
import sys
from pathlib import Path
from typing import Any, NamedTuple

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


class Manner(NamedTuple):
    """How a system is measured: few runs only, and latencies at real-time priority."""

    quick: bool = False
    realtime: bool = True

    def words(self) -> list[str]:
        """Return the arguments that say so."""
        return [*(["--quick"] if self.quick else []), *([] if self.realtime else ["--no-realtime"])]


async def measure_towpath(tool: str, manner: Manner) -> Measured:
    """Measure Towpath with a tool of one effect class; raise MeasurementError."""
    words = [sys.executable, str(BENCH / "w1.py"), "--tools", tool, "--phases", PHASES, *manner.words()]
    measured: Measured = (await _printed(words))[tool]
    return measured


async def measure_peer(name: str, environment: Environment, manner: Manner) -> Measured:
    """Measure a peer, with the Postgres that Towpath uses, as Towpath sets it; raise MeasurementError."""
    words = [str(environment.python), "-m", f"peers.{name}", "--phases", PHASES, *manner.words()]
    if environment.server:
        words += ["--server", str(environment.server)]
        measured = await _printed(words)
        package = json.loads((environment.server.parents[1] / "package.json").read_text("utf-8"))
        return {**measured, "versions": {**measured["versions"], environment.server.name: package["version"]}}
    with temporary_folder() as folder:
        postgres = Postgres(folder / "postgres")
        try:
            await postgres.start()
            await postgres.ensure_database(DATABASE)
            assert postgres.process is not None
            place = ["--database", postgres.dsn(database=DATABASE), "--database-pid", str(postgres.process.pid)]
            return await _printed([*words, *place])
        finally:
            await postgres.stop()


async def _printed(words: list[str]) -> Measured:
    """Return the JSON line that a benchmark prints."""
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
