"""`towpath logs`: what the processes of the platform in this folder have written, of one or of all, in order of time.

It reads files and asks no platform, so it works while one can't answer, and after its end. Nothing is read that another
user made, or could have put there.
"""

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NamedTuple

from cyclopts import Parameter, validators

from towpath.cli.shared.confirmation import Flag
from towpath.cli.shared.options import STATE
from towpath.cli.shared.output import Format, OutputPrinter, print_notice
from towpath.cli.shared.times import parse_time
from towpath_contracts.problems.near_names import suggest_or_list
from towpath_contracts.problems.registry import ProblemError, problem

LINES = 100
"""Lines that are shown where nobody says how many, nor since when."""

NAME_WIDTH = 14
"""Of the process's name before its line, as `towpath up --logs` has it."""

_BEFORE_ALL = datetime.min.replace(tzinfo=UTC)


class LogLine(NamedTuple):
    """A line of a process; one that says no time has that of the line before it."""

    at: datetime
    process: str
    text: str


async def logs(
    *services: str,
    follow: Annotated[bool, Parameter(name=("--follow", "-f"), negative="")] = False,
    since: str | None = None,
    lines: Annotated[int | None, Parameter(name=("--lines", "-n"), validator=validators.Number(gte=0))] = None,
    data: Path = STATE,
    output: Annotated[Format | None, Parameter(name=("--output", "-o"))] = None,
    as_json: Annotated[Flag, Parameter(name="--json")] = False,
) -> None:
    """Show what the processes of the platform in this folder have written, oldest first.

    Args:
        services: Only of these, such as orchestrator, nats or postgres, and of all replicas of a service.
        follow: Go on with what they write from now on, until Ctrl-C or the platform's end.
        since: Only from this moment on: 10m, 2h or 2026-11-01T08:00.
        lines: So many of the last lines; 100, or all of them with --since.
        data: The data folder of the platform, where it was started with --data.
        output: How to print; lines to read, else json, jsonl or yaml.
        as_json: The same as -o json.
    """
    from towpath.client.settings import running_state, starting_platform
    from towpath_fabric.telemetry.log_follower import POLL_S, LogFollower

    folder = _log_folder(data)
    wanted = _processes(folder, services)
    begin = parse_time(since, "--since")
    form: Format = output or ("json" if as_json else "table")
    form = "jsonl" if follow and form in {"json", "yaml"} else form  # there is no end to wait for
    out = OutputPrinter(form)
    follower = LogFollower(folder, lambda name, text: _show(name, text, out, wanted))
    _print(_past(folder, wanted, begin, lines), out)

    def is_up() -> bool:
        return running_state(data) is not None or starting_platform(data) is not None

    runs = is_up()
    if not runs:
        print_notice(f"no platform runs on {data}: these lines are of the last one there, which has ended")
    while follow and runs:
        follower.read_new_lines()
        await asyncio.sleep(POLL_S)
        runs = is_up()
        if not runs:
            follower.read_new_lines()
            print_notice("the platform has ended")


def _log_folder(data: Path) -> Path:
    """Return the folder with the logs; raises ProblemError where there is none, or one that others can write."""
    from towpath.client.settings import is_mine

    folder = data / "logs"
    if not folder.is_dir():
        detail = f"no platform has kept logs in {data}"
        remedy = "Start one: towpath up. One with --ephemeral keeps them, until it ends, in the folder that its banner "
        remedy += "names (Data): towpath logs --data FOLDER."
        raise ProblemError(problem("not_found", detail, remedy=remedy))
    if others := [str(path) for path in (data, folder, *folder.glob("*.log*")) if not is_mine(path)]:
        detail = f"{', '.join(others)}: another user's, or writable by others, so nothing there is read"
        raise ProblemError(problem("data_folder_shared", detail))
    return folder


def _processes(folder: Path, services: tuple[str, ...]) -> frozenset[str]:
    """Return the processes with a log that *services* name, all without one; raises ProblemError for an unknown one."""
    known = sorted(path.stem for path in folder.glob("*.log"))
    found: set[str] = set()
    for service in services:
        name = service.replace("log-writer", "log_writer")
        named = {process for process in known if name in {process, process.partition("-")[0]}}
        if not named:
            hint = suggest_or_list(name, known, shown=str)
            raise ProblemError(problem("not_found", f"no process called {service} has a log here{hint}", remedy=_ALL))
        found |= named
    return frozenset(found or known)


_ALL = "Without a name all are shown: towpath logs."


def _past(folder: Path, processes: frozenset[str], begin: datetime | None, count: int | None) -> list[LogLine]:
    """Return the last *count* lines of *processes* from *begin* on, in order of time."""
    if count is None and begin is None:
        count = LINES
    logs = [
        deque(itertools.dropwhile(lambda line: begin is not None and line.at < begin, _lines(folder, name)), count)
        for name in sorted(processes)
    ]
    merged = heapq.merge(*logs, key=lambda line: line.at)
    return list(merged)[-count if count else 0 :] if count != 0 else []


def _lines(folder: Path, process: str) -> Iterator[LogLine]:
    from towpath_fabric.telemetry.log_follower import past_lines, time_of_line

    at = _BEFORE_ALL
    for text in past_lines(folder / f"{process}.log"):
        at = max(at, time_of_line(text) or at)
        yield LogLine(at, process, text)


def _print(found: list[LogLine], out: OutputPrinter) -> None:
    if out.format in {"json", "yaml"}:
        out.data({"lines": [{"process": line.process, "line": line.text} for line in found]})
        return
    for line in found:
        _show(line.process, line.text, out, frozenset({line.process}))


def _show(process: str, text: str, out: OutputPrinter, wanted: frozenset[str]) -> None:
    from towpath_fabric.telemetry.log_follower import readable_line

    if process not in wanted:
        return
    if out.for_people:
        print(f"{process:<{NAME_WIDTH}}{readable_line(text)}", flush=True)
    else:
        out.line({"process": process, "line": text})
