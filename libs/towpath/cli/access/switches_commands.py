"""`towpath switches`: pause what must not go on, and let it go on again."""

import fnmatch
from typing import Any

from cyclopts import App

from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.output import Column
from towpath.cli.shared.text import one_line
from towpath_contracts.problems.near_names import suggest_name
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.switches import SwitchKind, SwitchSet

app = App(
    name="switches",
    help="Pause a project, a network, a tool or a caller; resume it.",
    help_epilogue=examples(
        "towpath switches pause tool mail.send --reason 'it mails the wrong people'", "towpath switches list"
    ),
)

_LIST = (
    Column("kind", "kind"),
    Column("name", "name"),
    Column("paused by", "paused_by"),
    Column("since", lambda row: str(row["paused_at"])[:19].replace("T", " ")),
    Column("why", lambda row: one_line(row["reason"], 80)),
)
_SET = (
    Column("switch", lambda row: f"{row['kind']} {row['name']}"),
    Column("now", "now"),
    Column("changed", lambda row: "yes" if row["changed"] else "no, it was so already"),
    Column("asked to stop", lambda row: row["stopping"] or ""),
    Column("warning", lambda row: row.get("warning") or "", is_whole=True),
)


@app.command(name="list", help_epilogue=examples("towpath switches list", "towpath switches list -o json"))
async def list_switches(*, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """List what is paused in the project, oldest first."""
    async with common.connect() as client:
        found = await client.switches.list()
    rows = [switch.model_dump(mode="json") for switch in found.switches]
    common.out().rows(
        "switches",
        rows,
        _LIST,
        empty="Nothing is paused. Pause a tool: towpath switches pause tool NAME --reason TEXT.",
    )


@app.command(
    help_epilogue=examples(
        "towpath switches pause tool mail.send --reason 'it mails the wrong people'",
        "towpath switches pause tool 'crm.*' --reason 'the vendor is down' --stop-running",
        "towpath switches pause project --reason 'we look into something'",
    )
)
async def pause(
    kind: SwitchKind,
    name: str | None = None,
    /,
    *,
    reason: str,
    stop_running: bool = False,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Hold new tool calls back: they wait, nothing of them is lost, and the time of their runs stands still.

    Args:
        kind: project, network, tool or caller.
        name: Which one; `*`, `?` and `[…]` match several. Of the project it is left out.
        reason: Why; whoever waits reads it, and it stands in the audit.
        stop_running: Also ask the calls that run to stop; of some nobody may know then whether they happened.
    """
    async with common.connect() as client:
        done = await client.switches.pause(kind, name, reason=reason, stop_running=stop_running)
        warning = await _names_nothing(client, kind, name)
    common.out().record({**_row(done, kind, name, "paused"), "warning": warning}, _SET)


@app.command(
    help_epilogue=examples(
        "towpath switches resume tool mail.send --reason mended",
        "towpath switches resume project --reason 'all clear'",
    )
)
async def resume(
    kind: SwitchKind, name: str | None = None, /, *, reason: str, common: ConnectionOptions = CONNECTION_OPTIONS
) -> None:
    """Let what waits go on: every call is asked of the rules once more, and goes out.

    Args:
        kind: project, network, tool or caller.
        name: As it was paused. Of the project it is left out.
        reason: Why; it stands in the audit.
    """
    async with common.connect() as client:
        done = await client.switches.resume(kind, name, reason=reason)
    common.out().record(_row(done, kind, name, "open"), _SET)


async def _names_nothing(client: Any, kind: str, name: str | None) -> str:
    """Say so where nothing of today is paused by *name*: it holds what comes later, or it is misspelt."""
    try:
        if kind == "tool":
            known = [spec.name for spec in (await client.tools.list()).tools]
        elif kind == "network":
            known = [version.name for version in (await client.networks.list()).networks]
        else:
            return ""
    except ProblemError:  # whoever may pause need not be allowed to look
        return ""
    if name is None or any(fnmatch.fnmatchcase(one, name) for one in known):
        return ""
    return f"no {kind} of today is named {name!r}{suggest_name(name, known)}"


def _row(done: SwitchSet, kind: str, name: str | None, now: str) -> dict[str, Any]:
    switch = None if done.switch is None else done.switch.model_dump(mode="json")
    shown = name if switch is None else switch["name"]
    return {
        "kind": kind,
        "name": shown or "",
        "now": now,
        "changed": done.changed,
        "stopping": done.stopping,
        "switch": switch,
    }
