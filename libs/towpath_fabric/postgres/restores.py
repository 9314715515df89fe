"""What is said to a database that was restored from a backup, as its owner, before any service works on it.

The backup does not know what was done after it was made, so its unfinished runs would do that again. `mark_restored`
lists them for tool access, which has a person asked before each of their calls that is not pure.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_fabric.postgres.database_hosts import DatabaseHosts
from towpath_fabric.postgres.migrations import check_applied

_SERVICES = """
SELECT DISTINCT application_name AS name FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND (usename LIKE 'towpath\\_%' OR application_name LIKE 'towpath%')
ORDER BY 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreMarks:
    """How many runs were marked, and how many of their calls had no outcome; `already` if it had been said before."""

    lost_since: datetime
    runs: int
    calls: int
    projects: int
    already: bool


async def refuse_running(connection: Any) -> None:
    """Raise ProblemError `services_running` where processes of Towpath are connected to the database."""
    names = [row["name"] or "a connection without a name" for row in await connection.fetch(_SERVICES)]
    if names:
        raise ProblemError(problem("services_running", f"connected are {', '.join(names)}"))


async def refuse_future(connection: Any, lost_since: datetime) -> None:
    """Raise ProblemError `request_invalid` for a time that is still to come by the database's clock."""
    if lost_since > await connection.fetchval("SELECT clock_timestamp()"):
        raise ProblemError(problem("request_invalid", f"{lost_since.isoformat()} is still to come"))


async def mark_restored(dsn: str, lost_since: datetime, by: str) -> RestoreMarks:
    """Mark every run that is not final: what it did after *lost_since* is not known. The second time changes nothing.

    Raises ProblemError: `request_invalid` for a time that is still to come, `database_not_migrated`, and
    `services_running`.
    """
    connection = await DatabaseHosts(dsn).connect()
    try:
        await check_applied(connection)
        await refuse_running(connection)
        await refuse_future(connection, lost_since)
        row = await connection.fetchrow("SELECT * FROM tas.mark_restored($1, $2)", lost_since, by)
        return RestoreMarks(
            lost_since=lost_since,
            runs=row["runs"],
            calls=row["calls"],
            projects=row["projects"],
            already=not row["marked_now"],
        )
    finally:
        await connection.close()
