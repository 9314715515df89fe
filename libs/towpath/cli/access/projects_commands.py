"""`towpath projects quota`: how many runs and tool calls the project may have, and what it may spend in a day."""

from collections.abc import Mapping
from typing import Any

from cyclopts import App

from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.output import Column
from towpath.client.budgets import budget_of
from towpath_contracts.budgets import BudgetAccountList, QuotaStatus, format_amount

app = App(
    name="projects",
    help="Limit how many runs and tool calls the project may have; see what is used.",
    help_epilogue=examples("towpath projects quota show", "towpath projects quota set --unfinished-runs 200"),
)
quota = App(
    name="quota",
    help="What the project may have: runs under way, runs of a day, tool calls, and what a day may cost.",
    help_epilogue=examples(
        "towpath projects quota show", "towpath projects quota set --unfinished-runs 200 --runs-per-day 5000"
    ),
)
app.command(quota)

_SHOW = (
    Column("limit of", "name"),
    Column("limit", lambda row: _amount(row, "limit")),
    Column("used", lambda row: _amount(row, "used")),
    Column("frees at", "frees_at"),
    Column("set by", "set_by"),
)


def _amount(row: Mapping[str, Any], name: str) -> str:
    return format_amount("usd_micros", row[name]) if row["name"] == "usd_micros_per_day" else f"{row[name]}"


@quota.command(help_epilogue=examples("towpath projects quota show", "towpath projects quota show -o json"))
async def show(*, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Show each limit of the project, what is used of it, and when it is free again; a budget of a day too."""
    async with common.connect() as client:
        _print(common, await client.quotas.show(), await client.budgets.show())


@quota.command(
    name="set",
    help_epilogue=examples(
        "towpath projects quota set --unfinished-runs 200 --runs-per-day 5000 --reason 'the free plan'",
        "towpath projects quota set --runs-per-day 5000 --usd-per-day 20 --tokens-per-day 4000000",
        "towpath projects quota set --tool-calls-per-minute 600 --tool-calls-per-day 100000",
    ),
)
async def set_quota(
    *,
    unfinished_runs: int | None = None,
    runs_per_day: int | None = None,
    tool_calls_per_minute: int | None = None,
    stored_bytes: int | None = None,
    usd_per_day: float | None = None,
    tokens_per_day: int | None = None,
    tool_calls_per_day: int | None = None,
    reason: str = "",
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Limit runs, tool calls and stored bytes of the project, in place of the quota before (needs the role `operator`).

    What a day may cost is the project's budget per day, which stays as it is where no option for it is given.

    Args:
        unfinished_runs: Runs that have not ended, child runs among them; a task beyond them is refused.
        runs_per_day: Runs that begin on one UTC day; a task beyond them is refused.
        tool_calls_per_minute: Tool calls that are let through in one minute; a run waits with a call beyond them.
        stored_bytes: Bytes of events and blobs of all its runs; a task is refused once they are more.
        usd_per_day: Dollars of one UTC day.
        tokens_per_day: Tokens of models of one UTC day, input and output.
        tool_calls_per_day: Tool calls of one UTC day; a run that wants one beyond them ends with `budget_exceeded`.
        reason: Why; it stands in the audit.
    """
    spending = {"usd": usd_per_day, "tokens": tokens_per_day, "tool_calls": tool_calls_per_day}
    counted = {
        "unfinished_runs": unfinished_runs,
        "runs_per_day": runs_per_day,
        "tool_calls_per_minute": tool_calls_per_minute,
        "stored_bytes": stored_bytes,
    }
    spends = any(limit is not None for limit in spending.values())
    counts = any(limit is not None for limit in counted.values())
    async with common.connect() as client:
        if counts or not spends:
            await client.quotas.set(**counted, reason=reason)
        if spends:
            await client.budgets.set("project", None, budget_of(spending), per_day=True, reason=reason)
        _print(common, await client.quotas.show(), await client.budgets.show())


@quota.command(
    help_epilogue=examples("towpath projects quota lift", "towpath projects quota lift --reason 'a paying customer'")
)
async def lift(*, reason: str = "", common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Lift the quota, but for a day's budget: that is lifted with `towpath budgets lift project --per-day`.

    Args:
        reason: Why; it stands in the audit.
    """
    async with common.connect() as client:
        _print(common, await client.quotas.lift(reason=reason), await client.budgets.show())


def _print(common: ConnectionOptions, status: QuotaStatus, budgets: BudgetAccountList) -> None:
    rows = [*_run_rows(status), *_budget_rows(status.project, budgets)]
    hint = f"The project {status.project} has no quota. Set one: towpath projects quota set --runs-per-day N."
    common.out().rows("quotas", rows, _SHOW, empty=hint)


def _run_rows(status: QuotaStatus) -> list[dict[str, Any]]:
    return [{**use.model_dump(mode="json"), "set_by": status.set_by} for use in status.uses]


def _budget_rows(project: str, budgets: BudgetAccountList) -> list[dict[str, Any]]:
    """Return a row for each unit that the project's budget of a day limits; what is reserved counts as used."""
    return [
        {
            "name": f"{unit.unit}_per_day",
            "limit": unit.limit,
            "used": unit.spent + unit.reserved,
            "frees_at": None,
            "set_by": account.set_by,
        }
        for account in budgets.accounts
        if account.scope == "day" and account.key.endswith(f"/project/{project}")
        for unit in account.units
        if unit.limit is not None
    ]
