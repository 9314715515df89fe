"""`towpath policy diff` and `shadow`: how another matrix would decide past calls, and live ones."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from towpath.cli.shared.exit_codes import OK, RUN_FAILED
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.output import Column, OutputPrinter
from towpath.cli.shared.times import parse_time
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.text import counted

Flag = Annotated[bool, Parameter(negative="")]


def _first(name: str) -> Any:
    return lambda row: row["examples"][0][name] if row["examples"] else None


_GROUPS = (
    Column("change", lambda row: row["change"].replace("_", " ")),
    Column("was", "was"),
    Column("calls", "calls"),
    Column("agent", lambda row: f"{row['network']}/{row['agent_key']}"),
    Column("tool", "tool"),
    Column("rule then", _first("rule_then")),
    Column("rule now", _first("rule_now")),
    Column("for example", _first("execution_id")),
)
_REASONS = {"forgotten": "forgotten (dropped by retention, or erased)"}


def add(app: App) -> None:
    """Make these commands part of `towpath policy`."""
    app.command(
        diff,
        help_epilogue=examples(
            "towpath policy diff proposed.yaml --since 30d", "towpath policy diff proposed.yaml --since 30d -o json"
        ),
    )
    app.command(
        shadow,
        help_epilogue=examples(
            "towpath policy shadow proposed.yaml", "towpath policy shadow --report", "towpath policy shadow off"
        ),
    )


def left_out(counts: Mapping[str, int]) -> str:
    """Return how many calls were left out for which reason; what the code of one does not say is added."""
    return ", ".join(f"{calls} {_REASONS.get(reason, reason)}" for reason, calls in sorted(counts.items()))


async def diff(
    file: Path,
    /,
    *,
    since: str | None = None,
    until: str | None = None,
    check: Flag = False,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> int:
    """Show which recorded calls a proposed matrix would have decided otherwise; nothing is changed.

    A call counts by its first decision. Calls that were refused before the matrix was asked, or by a limit, are left
    out and counted; limits are not replayed. With --check the exit code is 1 where anything differs.

    Args:
        file: A YAML file with kind: Policy.
        since: Calls from then on: 30d, 12h, or a time. All, where it isn't given.
        until: Calls up to then.
        check: End with 1 where the proposed matrix differs.
    """
    begin, end = parse_time(since, "--since"), parse_time(until, "--until")
    async with common.connect() as client:
        found = await client.policy.diff(file, since=begin, until=end)
    out = common.out()
    answer = found.model_dump(mode="json")
    if out.for_people:
        out.write(
            f"{counted(found.calls, 'call')} weighed against version {found.version}; limits: {found.limits}", "bold"
        )
        if found.left_out:
            out.write(f"left out: {left_out(found.left_out)}")
        out.rows("groups", answer["groups"], _GROUPS, empty="Nothing would have been decided otherwise.")
    else:
        out.data(answer)
    return RUN_FAILED if check and found.groups else OK


async def shadow(
    file: str | None = None, /, *, report: Flag = False, note: str = "", common: ConnectionOptions = CONNECTION_OPTIONS
) -> None:
    """Weigh live calls by a second matrix beside the one in force; it is never obeyed.

    Args:
        file: A YAML file with kind: Policy; `off` ends the shadow; without either it is reported.
        report: Show what it would have decided otherwise since it was set.
        note: Why; it stands in the audit.
    """
    if report and file is not None:
        raise ProblemError(problem("request_invalid", "--report goes without a file"))
    async with common.connect() as client:
        if file is None:
            view = await client.policy.shadow()
        elif file == "off":
            view = await client.policy.end_shadow(note=note)
        else:
            view = await client.policy.set_shadow(file, note=note)
    _show(view.model_dump(mode="json"), common.out())


def _show(view: Mapping[str, Any], out: OutputPrinter) -> None:
    if not out.for_people:
        out.data(dict(view))
        return
    if not view["digest"]:
        out.write("No shadow was ever set: towpath policy shadow FILE.")
        return
    state = "on" if view["on"] else "off"
    out.write(
        f"{state}: {counted(view['rules'], 'rule')} from {view['source']}, set by {view['set_by']} at {view['set_at']}",
        "bold",
    )
    more = " (the newest)" if view["more"] else ""
    out.write(f"{view['divergences']} live calls decided otherwise{more}; limits: not replayed")
    out.rows("groups", view["groups"], _GROUPS, empty="Every call was decided as the shadow would have.")
