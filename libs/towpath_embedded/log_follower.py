"""Follows the logs of the child processes: all lines for `--logs`, or only the notices about policies.

Reading a log never holds up its writer. Control characters are taken out of a line before it is shown.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

POLL_S = 0.25
READ_LIMIT_BYTES = 256 * 1024  # per read_new_lines and file; a faster writer is followed with a delay
_POLICY = "policy"
IN_FORCE = "policy in force"
_IN_FORCE_FIELDS = ("version", "rules", "source", "applied_by")
SANDBOX_WARNING = "without a sandbox"

LineHandler = Callable[[str, str], None]


class LogFollower:
    """The logs of one folder from now on; *line* is called with the process's name and the line."""

    def __init__(self, folder: Path, line: LineHandler) -> None:
        self._folder = folder
        self._line = line
        self._read_to: dict[Path, int] = {path: path.stat().st_size for path in folder.glob("*.log")}

    async def follow(self) -> None:
        """Pass every new line on, until cancelled."""
        while True:
            self.read_new_lines()
            await asyncio.sleep(POLL_S)

    def read_new_lines(self) -> None:
        """Pass on the lines that were completed since the last call."""
        for path in sorted(self._folder.glob("*.log")):
            with contextlib.suppress(OSError):
                self._read_file(path)

    def _read_file(self, path: Path) -> None:
        begin = self._read_to.get(path, 0)
        if path.stat().st_size < begin:  # it was put aside and begun anew
            begin = 0
        with path.open("rb") as file:
            file.seek(begin)
            new = file.read(READ_LIMIT_BYTES)
        whole = new[: new.rfind(b"\n") + 1]
        if not whole and len(new) == READ_LIMIT_BYTES:
            whole = new  # one endless line: show it in pieces
        self._read_to[path] = begin + len(whole)
        for line in whole.decode(errors="replace").splitlines():
            self._line(path.stem, printable(line))


def printable(text: str) -> str:
    """Take the control characters out of *text*."""
    return "".join(character for character in text if character.isprintable())


def policy_notice(name: str, line: str) -> str | None:
    """Return the notice for a log line of TAS about a policy that was applied or refused; None for any other line."""
    if name.partition("-")[0] != "tas" or _POLICY not in line:
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    event = str(record.get("event", ""))
    if not event.startswith(_POLICY):
        return None
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
