"""`towpath runs prune`: old runs go, counted first, in batches that the platform carries out one after the other."""

import asyncio
import re
from collections import Counter
from typing import Annotated, Any

from cyclopts import Parameter

from towpath.cli.shared.confirmation import require_yes
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions
from towpath.cli.shared.output import Column
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.tools.retention import EndedStatus, PrunedRuns
from towpath_fabric.clock import monotonic

LOOK_S = 1.0
"""How often the batch that is under way is looked at."""

MOST_WAITED_S = 900
"""Of one batch, which takes seconds to minutes: where nothing goes on for so long, a service is down."""

_COUNTED = (
    Column("ended before", "before"),
    Column("runs", "runs"),
    Column("families", "families"),
    Column("bytes, about", lambda row: f"{row['bytes']:,}"),
    Column("families that stay", lambda row: ", ".join(f"{why} {count}" for why, count in row["kept"].items()) or "0"),
    Column("pruned", "pruned"),
    Column("next", "next"),
)


async def prune(
    *,
    older_than: str,
    status: list[EndedStatus] | None = None,
    network: str | None = None,
    reason: str = "",
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    yes: Annotated[bool, Parameter(negative="")] = False,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Delete what is stored of runs that ended long ago: counted first, and not before you say yes.

    A run goes with the runs below it and its whole thread; one with an open gate or a call that is not settled stays.
    Its id and status stay, and all of its audit. Nothing brings it back.

    Args:
        older_than: How long ago they ended, in days: 90d; at least 7d.
        status: Only runs that ended so; may be repeated.
        network: Only runs of this network.
        reason: Why; it stands in the audit.
        dry_run: Count, and change nothing.
        yes: Don't ask; a script has to say it.
    """
    wanted: dict[str, Any] = {"older_than_days": _days(older_than), "statuses": status or [], "network": network}
    out = common.out()
    async with common.connect() as client:
        counted = await _count(client, wanted)
        if dry_run or not counted["runs"]:
            following = (
                "Nothing was pruned; have it done without --dry-run." if counted["runs"] else "No run is so old."
            )
            out.record({**counted, "pruned": 0, "next": following}, _COUNTED)
            return
        require_yes(f"Prune {counted['runs']} runs that ended before {counted['before'][:10]}?", yes=yes)
        pruned, behind = 0, None
        with out.progress("Pruning runs") as shown:
            while True:
                body = {**wanted, "dry_run": False, "reason": reason, "behind": behind and str(behind)}
                found = await _next_batch(client, body)
                pruned, behind = pruned + found.runs, found.next_behind
                shown.count(pruned, "runs", of=counted["runs"])
                if behind is None:
                    break
    following = "The last of them go within minutes: towpath erasures list --status confirmed"
    out.record({**counted, "pruned": pruned, "next": following}, _COUNTED)


async def _next_batch(client: Any, body: dict[str, Any]) -> PrunedRuns:
    """Have the next batch chosen, once the one before is gone; raises ProblemError where that takes too long."""
    began = monotonic()
    while True:
        try:
            return PrunedRuns.model_validate(await client.request("POST", "/v1/runs/prune", body=body))
        except ProblemError as error:
            if error.problem.code != "prune_under_way" or monotonic() - began > MOST_WAITED_S:
                raise
        await asyncio.sleep(LOOK_S)


async def _count(client: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return what would go of all that is old enough."""
    runs = families = size = 0
    kept: Counter[str] = Counter()
    behind = None
    while True:
        found = PrunedRuns.model_validate(
            await client.request(
                "POST", "/v1/runs/prune", body={**wanted, "dry_run": True, "behind": behind and str(behind)}
            )
        )
        runs, families, behind = runs + found.runs, families + found.families, found.next_behind
        size += found.bytes or 0
        kept.update(found.kept)
        if behind is None:
            counted = {"before": found.before.isoformat(), "runs": runs, "families": families, "bytes": size}
            return {**counted, "kept": dict(kept)}


def _days(text: str) -> int:
    """Return how many days a text like 90d says; raises ProblemError for any other."""
    days = re.fullmatch(r"([0-9]{1,6})d?", text)
    if days is None:
        raise ProblemError(problem("request_invalid", f"--older-than {text} is no number of days: 90d"))
    return int(days[1])
