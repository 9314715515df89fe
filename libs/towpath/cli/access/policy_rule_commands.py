"""`towpath policy rule`: one rule at a time; every change makes a new version of the whole matrix."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.output import Column, Row
from towpath.networks.spec_files import read_yaml
from towpath_contracts.tools.policy import RuleChanged

rules = App(
    name="rule",
    help="Look at one rule of the matrix, put it, or take it out.",
    help_epilogue=examples(
        "towpath policy rule show refunds-small", "towpath policy rule put refunds.yaml --note 'limit raised'"
    ),
)
Flag = Annotated[bool, Parameter(negative="")]

_APPLIED = (Column("version", "version"), Column("rules", "rules"), Column("changed", "changed"))


def add(app: App) -> None:
    """Make these commands part of `towpath policy`."""
    app.command(rules)


@rules.command(help_epilogue=examples("towpath policy rule show refunds-small", "towpath policy rule show x -o yaml"))
async def show(name: str, /, *, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Show one rule of the matrix in force.

    Args:
        name: The rule's name.
    """
    async with common.connect() as client:
        found = await client.request("GET", f"/v1/policy/rules/{name}")
    shown = {key: value for key, value in found.items() if value not in (None, "", "*")}
    common.out().record(shown, tuple(Column(key, _member(key)) for key in shown))


@rules.command(
    help_epilogue=examples(
        "towpath policy rule put refunds.yaml --note 'limit raised' --if-version 7",
        "towpath policy rule put refunds.yaml -o json",
    )
)
async def put(
    file: Path,
    /,
    *,
    note: str = "",
    if_version: int | None = None,
    dry_run: Flag = False,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Replace the rule of that name, or add it at the end; the rest of the matrix stays as it is written.

    Args:
        file: A YAML file with one rule: name, effect, tool, who, when, …
        note: Why; it stands in the audit and in the change log.
        if_version: Only while this version is in force.
        dry_run: Only check it.
    """
    rule, _, _ = read_yaml(file, "policy_invalid")
    async with common.connect() as client:
        changed = await client.policy.put_rule(rule, note=note, if_version=if_version, dry_run=dry_run)
    _show_change(changed, common)


@rules.command(
    help_epilogue=examples(
        "towpath policy rule remove refunds-small --note 'moved to the new network'",
        "towpath policy rule remove refunds-small --if-version 7",
    )
)
async def remove(
    name: str, /, *, note: str = "", if_version: int | None = None, common: ConnectionOptions = CONNECTION_OPTIONS
) -> None:
    """Take a rule out; the rest of the matrix stays as it is written.

    Args:
        name: The rule's name.
        note: Why; it stands in the audit and in the change log.
        if_version: Only while this version is in force.
    """
    async with common.connect() as client:
        changed = await client.policy.remove_rule(name, note=note, if_version=if_version)
    _show_change(changed, common)


def _show_change(changed: RuleChanged, common: ConnectionOptions) -> None:
    out = common.out()
    out.record(changed.model_dump(mode="json"), _APPLIED)
    for warning in changed.warnings:
        out.write(f"! {warning}", "yellow")
    if changed.rewritten:
        out.write("The list of rules was written anew, without its comments.", "yellow")


def _member(name: str) -> Callable[[Row], object]:
    def cell(row: Row) -> object:
        value = row[name]
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return cell
