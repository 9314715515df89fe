"""The logs of processes in a folder, one file each: followed from now on, read back, and told to a person.

Reading a log never holds up its writer. Control characters are taken out of a line before it is shown.
"""

import asyncio
import contextlib
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

POLL_S = 0.25
READ_LIMIT_BYTES = 256 * 1024  # per read_new_lines and file; a faster writer is followed with a delay
_TIME = re.compile(r"(?:\[\d+\] )?(\d{4})[-/](\d\d)[-/](\d\d)[ T](\d\d:\d\d:\d\d(?:\.\d{1,6})?)(?: UTC)? ?")
"""How nats-server and Postgres begin a line; all processes of a platform write times in UTC."""

_UNTOLD = frozenset({"event", "level", "timestamp", "role", "instance", "exception", "stack"})

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


def past_lines(file: Path) -> Iterator[str]:
    """Yield the whole lines of the log *file*, of what was put aside of it before; nothing where there is none."""
    for path in (file.with_name(f"{file.name}.1"), file):
        with contextlib.suppress(FileNotFoundError), path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.endswith("\n"):
                    yield printable(line)


def time_of_line(line: str) -> datetime | None:
    """Return when a line of a service, of nats-server or of Postgres was written; None where it does not say."""
    found = _TIME.match(line)
    text = f"{found[1]}-{found[2]}-{found[3]}T{found[4]}" if found else str((_record(line) or {}).get("timestamp", ""))
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def readable_line(line: str) -> str:
    """Return a line of a log as people read it: the time here, how serious it is, what happened, and its values."""
    at, record = time_of_line(line), _record(line)
    clock = f"{at.astimezone():%H:%M:%S}" if at is not None else " " * len("00:00:00")
    if record is None:
        found = _TIME.match(line)
        return f"{clock} {line[found.end() :] if found else line}"
    values = (f"{name}={_shown(value)}" for name, value in record.items() if name not in _UNTOLD)
    level = f"{record.get('level', '')}: " if record.get("level") not in {"info", None} else ""
    stack = str(record.get("exception") or record.get("stack") or "").strip().splitlines()
    last = [f"({stack[-1].strip()})"] if stack else []
    return " ".join([clock, f"{level}{printable(str(record['event']))}", *values, *map(printable, last)])


def _record(line: str) -> dict[str, Any] | None:
    """Return the record that a service has written as one line; None for any other line."""
    if not line.startswith("{"):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "event" in record else None


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return printable(json.dumps(text, ensure_ascii=False) if not text or " " in text else text)
