"""Follows the logs of the children: all lines for `--logs`, or only what people should know.

Reading a log never holds up its writer, and a line is shown as text: control characters are taken out.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable
from pathlib import Path

POLL_S = 0.25
READ_LIMIT_BYTES = 256 * 1024  # per look and file; a faster writer is followed with a delay
_POLICY = "policy"

LineHandler = Callable[[str, str], None]


class LogFollower:
    """The logs of one folder from now on; *line* is told the process's name and the line."""

    def __init__(self, folder: Path, line: LineHandler) -> None:
        self._folder = folder
        self._line = line
        self._read_to: dict[Path, int] = {path: path.stat().st_size for path in folder.glob("*.log")}

    async def follow(self) -> None:
        """Tell every new line for ever."""
        while True:
            self.look()
            await asyncio.sleep(POLL_S)

    def look(self) -> None:
        """Tell the lines that were completed since the last look."""
        for path in sorted(self._folder.glob("*.log")):
            with contextlib.suppress(OSError):
                self._look_at(path)

    def _look_at(self, path: Path) -> None:
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
    """What to tell people about a log line of TAS: a policy that was applied or refused; None for any other line."""
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
