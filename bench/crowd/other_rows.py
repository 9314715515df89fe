"""Rows that belong to no run, of which a platform may have many: letters, notices, keys, erasures, limits, accounts."""

from pathlib import Path
from typing import Any

from towpath_fabric.postgres.pool import Queries

STATEMENTS = Queries((Path(__file__).parent / "other_rows.sql").read_text("utf-8"))


async def add_other_rows(owner: Any, each: int) -> None:
    """Add *each* rows to the tables that runs don't fill, and an account for each run."""
    for statement in ("dead_letters", "notices", "callers", "keys", "erasures"):
        await owner.execute(getattr(STATEMENTS, statement), each)
    await owner.execute(STATEMENTS.limits, min(each, 500))
    await owner.execute(STATEMENTS.accounts)
    await owner.execute(STATEMENTS.idempotency)
