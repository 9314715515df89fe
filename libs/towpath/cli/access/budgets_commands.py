"""`towpath budgets`: what may be spent by whom, and what is spent of it."""

from typing import Any

from cyclopts import App

from towpath.cli.shared import short_ids
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.output import Column
from towpath.client.budgets import budget_of
from towpath_contracts.budgets import BudgetAccount, BudgetKind, BudgetSet, OnSoft, format_amount

app = App(
    name="budgets",
    help="Limit what callers and the project spend; see what they and runs have spent.",
    help_epilogue=examples(
        "towpath budgets show", "towpath budgets set project --per-day --usd 20 --reason 'the month is tight'"
    ),
)


def _amount(name: str) -> Any:
    return lambda row: "" if row[name] is None else format_amount(row["unit"], row[name])


_SHOW = (
    Column("scope", "scope"),
    Column("of", "key"),
    Column("limit", _amount("limit")),
    Column("spent", _amount("spent")),
    Column("reserved", _amount("reserved")),
    Column("left", _amount("left")),
    Column("estimated", lambda row: f"{row['estimated_share']:.0%}" if row["estimated"] else ""),
    Column("set by", "set_by"),
)


@app.command(
    help_epilogue=examples(
        "towpath budgets show", "towpath budgets show --caller ann", "towpath budgets show --run 7c1e"
    )
)
async def show(
    *, caller: str | None = None, run: str | None = None, common: ConnectionOptions = CONNECTION_OPTIONS
) -> None:
    """Show limits and what is spent of them; what is reserved is asked for and not answered yet.

    Args:
        caller: Only what is limited of this caller.
        run: The accounts of one run and of its agents.
    """
    async with common.connect() as client:
        run_id = None if run is None else await short_ids.resolve_run_id(client, run)
        found = await client.budgets.show(caller=caller, run_id=run_id)
    rows = [row for account in found.accounts for row in _rows(account)]
    hint = "Nothing is limited. Set a limit: towpath budgets set --help."
    common.out().rows("budgets", rows, _SHOW, empty=hint)


@app.command(
    name="set",
    help_epilogue=examples(
        "towpath budgets set project --per-day --usd 20 --reason 'the month is tight'",
        "towpath budgets set caller ann --tokens 2000000 --soft 0.9 --on-soft gate",
    ),
)
async def set_budget(
    kind: BudgetKind,
    name: str | None = None,
    /,
    *,
    usd: float | None = None,
    tokens: int | None = None,
    model_calls: int | None = None,
    tool_calls: int | None = None,
    soft: float = 0.8,
    on_soft: OnSoft = "warn",
    per_day: bool = False,
    reason: str = "",
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Limit a caller or the project; it holds for whatever is asked from now on (needs the role `operator`).

    Args:
        kind: caller or project.
        name: Which caller; of the project it is left out.
        usd: Dollars.
        tokens: Tokens of models, input and output.
        model_calls: Calls of models.
        tool_calls: Calls of tools.
        soft: Part of a limit, once it is spent runs are warned, or wait.
        on_soft: warn, or gate: the run waits for a person.
        per_day: Count each UTC day by itself.
        reason: Why; it stands in the audit.
    """
    limits = {"usd": usd, "tokens": tokens, "model_calls": model_calls, "tool_calls": tool_calls}
    budget = budget_of({**limits, "soft": soft, "on_soft": on_soft})
    async with common.connect() as client:
        _show_budget(common, await client.budgets.set(kind, name, budget, per_day=per_day, reason=reason))


@app.command(
    help_epilogue=examples(
        "towpath budgets lift caller ann --reason 'a mistake'",
        "towpath budgets lift project --reason 'the quarter is over'",
    )
)
async def lift(
    kind: BudgetKind,
    name: str | None = None,
    /,
    *,
    per_day: bool = False,
    reason: str = "",
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Lift a limit; what is spent stays counted.

    Args:
        kind: caller or project.
        name: Which caller; of the project it is left out.
        per_day: The limit for each day.
        reason: Why; it stands in the audit.
    """
    async with common.connect() as client:
        _show_budget(common, await client.budgets.lift(kind, name, per_day=per_day, reason=reason))


def _show_budget(common: ConnectionOptions, done: BudgetSet) -> None:
    rows = [] if done.account is None else _rows(done.account)
    common.out().rows("budgets", rows, _SHOW, empty="Nothing limits it any more.")


def _rows(account: BudgetAccount) -> list[dict[str, Any]]:
    """Return a row for each unit that is limited, or was spent."""
    account_row = {"scope": account.scope, "key": account.key, "set_by": account.set_by}
    return [
        {
            **account_row,
            **unit.model_dump(mode="json"),
            "estimated_share": unit.estimated / unit.spent if unit.spent else 0.0,
        }
        for unit in account.units
        if unit.limit is not None or unit.spent or unit.reserved
    ]
