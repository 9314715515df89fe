"""Which lines of the logs of child processes are notices for whoever started the platform, and how they are shown."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from towpath_contracts.problems.input_faults import locate_fault
from towpath_embedded.terminal.served_tools import REGAIN_TOOL

if TYPE_CHECKING:
    from towpath_embedded.console import UpConsole
    from towpath_embedded.refused_files import RefusedFiles
    from towpath_embedded.terminal.live_view import LiveView
    from towpath_embedded.terminal.served_tools import ServedTools

Told = dict[str, Any]
"""What was told at the start, and is shown beside where everything is: the policy in force, and warnings."""

_POLICY = "policy"
IN_FORCE = "policy in force"
WARNED = "policy warning"
_IN_FORCE_FIELDS = ("version", "rules", "source", "applied_by")
SANDBOX_WARNING = "without a sandbox"
WITHOUT_TOOL = "a file has no tool"
LACKS_TOOL = "this worker lacks a tool that is called"
MOST_NAMED = 5
"""Functions of a file that are named: the rest is counted."""


def policy_notice(name: str, line: str) -> str | None:
    """Return the notice for a log line of TAS about a policy that was applied or refused; None for any other line.

    What a policy is warned about is told by its place, as faults of files are: `policy.yaml:3: …`.
    """
    if name.partition("-")[0] != "tas" or _POLICY not in line:
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    event = str(record.get("event", ""))
    if not event.startswith(_POLICY):
        return None
    if event == WARNED:
        return locate_fault(str(record.get("file", "policy")), str(record.get("warning", "")))
    hidden = {"event", "level", "timestamp", "role", "instance"}
    more = ", ".join(f"{key} {value}" for key, value in record.items() if key not in hidden)
    return f"{event}: {more}" if more else event


def policy_in_force(name: str, line: str) -> dict[str, Any] | None:
    """Return what a log line of TAS says about the policy that is in force at its start; None for any other line."""
    if name.partition("-")[0] != "tas" or IN_FORCE not in line:
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if record.get("event") != IN_FORCE:
        return None
    return {field: record[field] for field in _IN_FORCE_FIELDS if field in record}


def sandbox_notice(name: str, line: str) -> str | None:
    """Return the notice for a log line of a worker whose programs run without a sandbox; None for any other line."""
    if name.partition("-")[0] != "worker" or SANDBOX_WARNING not in line:
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if SANDBOX_WARNING not in str(record.get("event", "")):
        return None
    servers = ", ".join(map(str, record.get("servers", ())))
    told = (str(record[key]) for key in ("reason", "remedy") if record.get(key))
    return f"{name}: {record['event']}: {servers}; {'; '.join(told)}"


def tool_notice(name: str, line: str) -> str | None:
    """Return the notice for a log line of a worker about a file without tools, or a call of a tool that it lacks."""
    if name.partition("-")[0] != "worker" or (WITHOUT_TOOL not in line and LACKS_TOOL not in line):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if record.get("event") == WITHOUT_TOOL:
        return without_tool_line(str(record.get("file")), [str(one) for one in record.get("functions", ())])
    if record.get("event") == LACKS_TOOL:
        return f"{record.get('tool')} is called, and the worker here has no such tool, so the call waits: {REGAIN_TOOL}"
    return None


def without_tool_line(file: str, functions: Sequence[str]) -> str:
    """Return the line about a *file* that has nothing to serve, with its functions."""
    named = functions_in_words(functions)
    what = f"@tool stands above none of its functions ({named})" if named else "it has no function with @tool above it"
    return f"{file} has no tool: {what}. Write @tool there, and save it"


def functions_in_words(functions: Sequence[str]) -> str:
    """Return the first of the *functions* by name, and how many more there are."""
    more = len(functions) - MOST_NAMED
    return ", ".join([*functions[:MOST_NAMED], *([f"{more} more"] if more > 0 else [])])


def show_log_line(
    screen: "UpConsole",
    refused: "RefusedFiles",
    served: "ServedTools",
    views: Sequence["LiveView"],
    name: str,
    line: str,
) -> None:
    """Show a line of a log where all are shown, else what it says about policies and nothing else tells."""
    is_told = refused.read_log_line(name, line)
    served.read_log_line(name, line)
    if screen.shows_logs:
        screen.log(name, line)
    elif (warning := tool_notice(name, line)) is not None:
        screen.notice(warning, "yellow")
    elif (
        not is_told
        and not any(view.read_log_line(name, line) for view in views)
        and (notice := policy_notice(name, line)) is not None
    ):
        screen.notice(notice)


def read_at_start(
    screen: "UpConsole", refused: "RefusedFiles", served: "ServedTools", told: Told, name: str, line: str
) -> None:
    """Keep what a line of the start says of the policy and of refused files, and show what sandboxes and files lack."""
    refused.read_log_line(name, line)
    served.read_log_line(name, line)
    if (policy := policy_in_force(name, line)) is not None:
        told["policy"] = policy
    if (notice := sandbox_notice(name, line)) is not None:
        screen.notice(notice)
    if (warning := tool_notice(name, line)) is not None:
        tell_warnings(screen, told, warning)


def tell_warnings(screen: "UpConsole", told: Told, *warnings: str) -> None:
    """Show *warnings*, which the start counts where it says what it has loaded."""
    for warning in warnings:
        told["warnings"] = [*told.get("warnings", ()), warning]
        screen.notice(warning, "yellow")
