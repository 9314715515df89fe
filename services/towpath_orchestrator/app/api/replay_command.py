"""`python -m towpath_orchestrator replay`: the regression gate of a version that is not in service yet.

It only reads. The engine is this program's own, the runs are those of TOWPATH_DATABASE_URL (any role that may
read the run tables) or of files that `towpath runs export` wrote; no broker and no other service is needed.
"""

import argparse
import asyncio
import sys
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg

from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.runs.records import PASSES, ReplayPage, ReplayResult, ReplayRuns
from towpath_engine import ENGINE_VERSION
from towpath_orchestrator.app.api.replay_requests import ReplayRequests
from towpath_orchestrator.app.api.run_export import FileRecord, RecordFileError
from towpath_orchestrator.core.replay_check import ReplayCheck
from towpath_orchestrator.settings import OrchestratorSettings

DIVERGED, USAGE = 1, 2
PAGE_MS = 20_000


def main(arguments: list[str]) -> int:
    """Replay what *arguments* name; one JSON line per run that is not identical, then one of totals.

    Returns 0 when nothing diverged, 1 when something did, 2 for arguments or a file that can't be used.
    """
    parser = argparse.ArgumentParser("towpath_orchestrator replay", description=main.__doc__)
    parser.add_argument("run_ids", nargs="*", type=UUID, help="these runs; default: all of them")
    parser.add_argument("--file", action="append", type=Path, default=[], help="a record in a file; may be repeated")
    parser.add_argument("--each", action="store_true", help="one line for every run, identical or not")
    parser.add_argument("--since", type=datetime.fromisoformat, help="runs created since, ISO 8601 with a zone")
    parser.add_argument("--network", help="runs of this network")
    parser.add_argument("--project", default="", help="runs of this project; default: all projects")
    given = parser.parse_args(arguments)
    try:
        totals = ReplayTotals(each=given.each)
        asyncio.run(_files(given.file, totals) if given.file else _stored(given, totals))
    except (ProblemError, RecordFileError, OSError, ValueError) as error:
        _say(f"towpath_orchestrator replay: {error}", sys.stderr)
        return USAGE
    _say(totals.line())
    return DIVERGED if totals.failed else 0


class ReplayTotals:
    """Counts what was replayed. With *each* it prints every run that is added alone, not only those that differ."""

    def __init__(self, *, each: bool = False) -> None:
        self._each = each
        self.runs = self.events = self.identical = self.failed = 0
        self.verdicts: dict[str, int] = {}

    def add(self, page: ReplayPage) -> None:
        """Count a page."""
        self.runs += page.runs
        self.events += page.events
        self.identical += page.identical
        for result in page.results:
            if result.verdict != "identical":
                self.note(result)

    def add_run(self, result: ReplayResult) -> None:
        """Count one run."""
        self.runs += 1
        self.events += result.events
        if result.verdict != "identical":
            self.note(result)
            return
        self.identical += 1
        if self._each:
            _say(result.model_dump_json())

    def note(self, result: ReplayResult) -> None:
        """Print and count a run that is not identical."""
        self.verdicts[result.verdict] = self.verdicts.get(result.verdict, 0) + 1
        self.failed += result.verdict not in {*PASSES, "incomplete"}
        _say(result.model_dump_json())

    def line(self) -> str:
        """Return the totals as one JSON line."""
        body: dict[str, Any] = {"runs": self.runs, "events": self.events, "identical": self.identical}
        fields = [f'"{name}":{number}' for name, number in {**body, **dict(sorted(self.verdicts.items()))}.items()]
        return f'{{"engine_version":"{ENGINE_VERSION}",{",".join(fields)}}}'


async def _files(paths: list[Path], totals: ReplayTotals) -> None:
    for path in paths:
        try:
            result = await ReplayCheck(FileRecord(path)).run()
        except RecordFileError as error:
            msg = f"{path}: {error}"
            raise RecordFileError(msg) from error
        totals.add_run(result)


def reading_pool(dsn: str) -> "asyncpg.Pool[asyncpg.Record]":
    """Return connections that change nothing.

    Each is told so once it stands: a session that is read-only from its start is taken for one of a standby, and is
    left where `dsn` names several hosts and means the one that takes writes.
    """
    return asyncpg.create_pool(
        dsn,
        min_size=1,
        max_size=2,  # facts and events of one run are read side by side
        server_settings={"application_name": "towpath-replay"},
        setup=_read_only,  # each time, as the pool resets what a session has set
    )


async def _read_only(connection: Any) -> None:
    await connection.execute("SET default_transaction_read_only = on")


async def _stored(given: argparse.Namespace, totals: ReplayTotals) -> None:
    if given.since is not None and given.since.tzinfo is None:
        msg = "--since needs a zone, e.g. 2026-01-31T00:00:00+00:00"
        raise ValueError(msg)
    async with reading_pool(OrchestratorSettings.load().dsn()) as pool:
        gate = ReplayRequests(pool)
        for run_id in given.run_ids:
            for result in (await gate.replay(ReplayRuns(project=given.project, run_id=run_id))).results:
                totals.add_run(result)
        after: UUID | None = None
        while not given.run_ids:
            page = await gate.replay(
                ReplayRuns(
                    project=given.project, network=given.network, since=given.since, after=after, budget_ms=PAGE_MS
                )
            )
            totals.add(page)
            after = page.next_after
            if after is None:
                break


def _say(line: str, file: Any = None) -> None:
    (file or sys.stdout).write(line + "\n")
