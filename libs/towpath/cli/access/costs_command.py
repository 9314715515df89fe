"""`towpath costs`: what models cost, by network, agent, model, label or caller, and by day.

The sums are kept by day, so that it costs the same however many runs there were; a price that nobody knows is counted
beside them, never as nothing.
"""

import sys
from collections.abc import Mapping
from typing import Any, Literal

from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions
from towpath.cli.shared.output import Column

OTHERS = "(others)"


def _money(row: Mapping[str, Any]) -> str:
    return "unknown" if row["unpriced"] and not row["usd"] else f"${row['usd']:.4f}"


def _columns(first: Column) -> tuple[Column, ...]:
    return (
        first,
        Column("cost", _money),
        Column("tokens", "tokens"),
        Column("model calls", "model_calls"),
        Column("runs", lambda row: row["runs"] or ""),
        Column("price unknown", lambda row: row["unpriced"] or ""),
    )


async def costs(
    *,
    by: Literal["network", "agent", "model", "label", "caller", "day"] = "network",
    since: str = "7d",
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Show what was spent on models, the dearest first; of runs that go on too.

    Args:
        by: network, agent, model, label, caller or day.
        since: How many days (UTC), today among them, as 7d; or the first day, as 2026-11-26. At most 92 days.
    """
    async with common.connect() as client:
        found = await client.budgets.costs(by="network" if by == "day" else by, since=since)
    report = found.model_dump(mode="json")
    rows = report["days" if by == "day" else "names"]
    first = Column("day", "day") if by == "day" else Column(by, lambda row: row["name"] or OTHERS)
    common.out().rows("costs", rows, _columns(first), empty=f"Nothing was spent since {report['since']}.")
    if by != "day" and report["left_out"]:
        sys.stderr.write(f"{report['left_out']} more cost less than these\n")
