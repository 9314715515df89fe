"""What Postgres does for the pages of the console: the plans of statements as they were executed (`auto_explain`)."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

SERVICES = ("orchestrator", "tas", "gateway", "log_writer")
SETTINGS = {
    "session_preload_libraries": "auto_explain",
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_timing": "off",
    "auto_explain.log_format": "json",
    "auto_explain.log_nested_statements": "on",
}
BEGINS = re.compile(r" ms  plan:$")


class TableRead(NamedTuple):
    """One look at a table: in which statement, how, and how many rows it has read, with those that it did not want."""

    statement: str
    table: str
    how: str
    rows: float


class PlanLog:
    """The log of a Postgres that explains what services ask; each look gives what was asked since the last."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._read = 0

    async def begin(self, owner: Any) -> None:
        """Have the sessions of all services explained from now on; those that are open end, and are opened anew."""
        for service in SERVICES:
            for name, value in SETTINGS.items():
                await owner.execute(f"ALTER ROLE towpath_{service} SET {name} = '{value}'")
        await owner.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = ANY ($1::text[])",
            [f"towpath_{service}" for service in SERVICES],
        )
        self.table_reads()

    def table_reads(self) -> list[TableRead]:
        """Return what was read since the last look."""
        with self._log.open(encoding="utf-8") as file:
            file.seek(self._read)
            text = file.read()
            self._read = file.tell()
        return [read for plan in _plans(text) for read in _table_reads(plan)]


def _plans(text: str) -> Iterator[dict[str, Any]]:
    """Give the plans of a log; the lines of one are indented."""
    lines: list[str] | None = None
    for line in [*text.splitlines(), ""]:
        if lines is not None and line.startswith("\t"):
            lines.append(line)
            continue
        if lines:
            yield json.loads("".join(lines))
        lines = [] if BEGINS.search(line) else None


def _table_reads(plan: dict[str, Any]) -> Iterator[TableRead]:
    statement = " ".join(plan["Query Text"].split())
    for part in _parts(plan["Plan"]):
        if "Relation Name" in part and not part["Relation Name"].startswith("pg_"):
            each = part["Actual Rows"] + part.get("Rows Removed by Filter", 0)
            each += part.get("Rows Removed by Index Recheck", 0)
            yield TableRead(statement, part["Relation Name"], part["Node Type"], each * part["Actual Loops"])


def _parts(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from _parts(inner)


async def sizes(owner: Any) -> dict[str, int]:
    """Return how many rows the tables of all schemas have, by their names, as they were analysed."""
    rows = await owner.fetch("SELECT relname, n_live_tup FROM pg_stat_user_tables")
    return {row["relname"]: row["n_live_tup"] for row in rows}
