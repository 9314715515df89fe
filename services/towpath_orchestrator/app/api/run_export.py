"""Records of runs: read from Postgres or from a file, and written as JSON lines.

An event or fact leaves here as the bytes that are stored. The file is one header line, then the facts, then the
events; each line begins with its body, so that the body's bytes can be cut out again.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from towpath_contracts.problems.json_syntax import describe_json_error
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.records import RunRecordPiece
from towpath_engine.replay_diff import RecordedEvent
from towpath_fabric.postgres.pool import Queries
from towpath_orchestrator.adapters.run_store import let_others
from towpath_orchestrator.core.replay_check import RecordedFact, RecordHeader

QUERIES = Queries.load("towpath_orchestrator.adapters", "records.sql")

FORMAT = 1
PAGE_ROWS = 64
"""Rows read at a time; one has at most half a MiB."""

PIECE_CHARS = 200_000
"""Of one piece of an export. JSON in JSON is at most twice as long, and a character at most three bytes."""

_FACT, _EVENT, _HEADER = '{"fact":', '{"event":', '{"towpath_record":'
_PARTS = ("header", "snapshot", "facts", "events")
"""Of an export, in order; the header and the snapshot are one line."""


def erased_problem(run_id: UUID, row: Mapping[str, Any]) -> ProblemError:
    """Return what whoever asks for a run that was erased is told; *row* says whether retention did it."""
    how = "pruned, as old runs are," if row["pruned"] else "erased"
    said = f"run {run_id} was {how} at {row['erased_at'].isoformat()}"
    return ProblemError(problem("run_erased", said, run_id=str(run_id)))


class DatabaseRecord:
    """A run in Postgres, as far as its log went when it was opened: facts and events of one moment."""

    def __init__(self, pool: Any, row: Any, snapshot_text: str | None) -> None:
        self._pool = pool
        self._seq: int = row["seq"]
        self.header = RecordHeader(
            run_id=row["run_id"],
            network=row["network"],
            version=row["version"],
            status=row["status"],
            reason=row["reason"],
            snapshot_text=snapshot_text,
        )

    @classmethod
    async def open(cls, pool: Any, run_id: UUID, project: str | None) -> "DatabaseRecord":
        """Open the record of a run of *project*; raises ProblemError `run_not_found`, `run_erased`."""
        row = await pool.fetchrow(QUERIES.record, run_id, project)
        if row is None:
            raise ProblemError(
                problem("run_not_found", f"no run {run_id}" + (f" in the project {project}" if project else ""))
            )
        if row["erased_at"] is not None:
            raise erased_problem(run_id, row)
        return cls(pool, row, await pool.fetchval(QUERIES.record_snapshot, row["snapshot_digest"]))

    async def events(self, after: int = 0) -> AsyncIterator[RecordedEvent]:
        """Yield events after seq *after*."""
        while True:
            rows = await self._pool.fetch(QUERIES.record_events, self.header.run_id, after, self._seq, PAGE_ROWS)
            for row in rows:
                after = row["seq"]
                yield RecordedEvent(seq=after, at=row["at"], text=row["event"])
                await let_others(row["event"])
            if len(rows) < PAGE_ROWS:
                return

    async def facts(self, after: int = 0) -> AsyncIterator[RecordedFact]:
        """Yield facts whose first event is after seq *after*."""
        while True:
            rows = await self._pool.fetch(QUERIES.record_facts, self.header.run_id, after, self._seq, PAGE_ROWS)
            for row in rows:
                after = row["first_seq"]
                yield RecordedFact(
                    first_seq=after, at=row["at"], engine_version=row["engine_version"], text=row["fact"]
                )
                await let_others(row["fact"])
            if len(rows) < PAGE_ROWS:
                return

    async def piece(self, cursor: str) -> RunRecordPiece:
        """Return the next piece of the export.

        *cursor* is part, seq before, how much of a line was given, and how far the log went at the first piece: the
        run may go on meanwhile, and a later piece must not hold more than the earlier ones.
        """
        if cursor:
            part, after, skip, seq = _cursor(cursor)
            self._seq = min(self._seq, seq)
        else:
            part, after, skip = _PARTS[0], 0, 0
        text = ""
        async for line, line_seq in self._lines(part, after):
            rest = line[skip:]
            room = PIECE_CHARS - len(text)
            if len(rest) > room:
                return self._piece(text + rest[:room], f"{part}:{after}:{skip + room}")
            text, after, skip = text + rest, line_seq, 0
        following = _PARTS[_PARTS.index(part) + 1 :]
        return self._piece(text, f"{following[0]}:0:0" if following else None)

    def _piece(self, text: str, following: str | None) -> RunRecordPiece:
        cursor = None if following is None else f"{following}:{self._seq}"
        return RunRecordPiece(run_id=self.header.run_id, text=text, next=cursor)

    async def _lines(self, part: str, after: int) -> AsyncIterator[tuple[str, int]]:
        if part == "header":
            yield self._header(), 0
        elif part == "snapshot":
            yield f"{self.header.snapshot_text or 'null'}}}\n", 0
        elif part == "facts":
            async for fact in self.facts(after):
                about = f'"first_seq":{fact.first_seq},"at":"{fact.at.isoformat()}"'
                version = json.dumps(fact.engine_version)
                yield f'{_FACT}{fact.text},{about},"engine_version":{version}}}\n', fact.first_seq
        else:
            async for event in self.events(after):
                yield f'{_EVENT}{event.text},"seq":{event.seq},"at":"{event.at.isoformat()}"}}\n', event.seq

    def _header(self) -> str:
        """Begin the first line. It fits one piece: its status is of the first moment. The snapshot never changes."""
        header = self.header
        about = {
            "run_id": str(header.run_id),
            "network": header.network,
            "version": header.version,
            "status": header.status,
            "reason": header.reason,
        }
        return f'{_HEADER}{FORMAT},{json.dumps(about)[1:-1]},"snapshot":'


def _cursor(text: str) -> tuple[str, int, int, int]:
    part, *numbers = text.split(":")
    if part not in _PARTS or len(numbers) != 3 or not all(n.isascii() and n.isdecimal() for n in numbers):
        raise ProblemError(problem("request_invalid", "the cursor is none that was given out"))
    after, skip, seq = map(int, numbers)
    return part, after, skip, seq


class RecordFileError(Exception):
    """The file is no record; the text says where and why."""


class FileRecord:
    """A record in a file that `towpath runs export` wrote; read line by line, twice."""

    def __init__(self, path: Path) -> None:
        """Read the header; raises RecordFileError, OSError."""
        self._path = path
        line = next(self._rows(), "")
        try:
            about = json.loads(line)
            if about["towpath_record"] != FORMAT:
                msg = f"it has format {about['towpath_record']}; this version reads format {FORMAT}"
                raise RecordFileError(msg)
            self.header = RecordHeader(
                run_id=UUID(about["run_id"]),
                network=str(about["network"]),
                version=int(about["version"]),
                status=str(about["status"]),
                reason=str(about["reason"]),
                snapshot_text=None if about["snapshot"] is None else json.dumps(about["snapshot"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            msg = f"line 1 is no header of a record: {str(error).partition(chr(10))[0]}"
            raise RecordFileError(msg) from error

    def _rows(self) -> Iterator[str]:
        with self._path.open(encoding="utf-8", newline="\n") as file:
            for line in file:
                yield line.removesuffix("\n")

    def _bodies(self, prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the body's bytes and the rest of every line that begins with *prefix*."""
        for number, line in enumerate(self._rows(), start=1):
            if not line.startswith((_FACT, _EVENT, _HEADER)):
                msg = f"line {number} is no part of a record"
                raise RecordFileError(msg)
            if not line.startswith(prefix):
                continue
            try:
                _body, end = json.JSONDecoder().raw_decode(line, len(prefix))
                about = json.loads("{" + line[end + 1 :])
            except ValueError as error:
                msg = f"line {number} is not JSON: {describe_json_error(error)}"
                raise RecordFileError(msg) from error
            yield line[len(prefix) : end], about

    async def events(self) -> AsyncIterator[RecordedEvent]:
        """Yield the events of the file."""
        for text, about in self._bodies(_EVENT):
            yield RecordedEvent(seq=int(about["seq"]), at=datetime.fromisoformat(about["at"]), text=text)

    async def facts(self) -> AsyncIterator[RecordedFact]:
        """Yield the facts of the file."""
        for text, about in self._bodies(_FACT):
            yield RecordedFact(
                first_seq=int(about["first_seq"]),
                at=datetime.fromisoformat(about["at"]),
                engine_version=str(about["engine_version"]),
                text=text,
            )
