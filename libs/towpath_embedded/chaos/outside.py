"""The outside world of fault tests: one file to which tools append a line for every effect that they really have.

A line is written with one `write` to a file opened for appending, and is synced before the tool goes on. So a line
proves an effect however the process ends, and no process can take it back.
"""

import os
from dataclasses import dataclass
from pathlib import Path

_FIELDS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEffectRecord:
    """One effect that a recording tool really had: one line of the outside file.

    One thing that happened outside. `at` is seconds since the epoch; 0 where the writer left it out.
    """

    execution_id: str
    effect_class: str
    attempt: int = 1
    at: float = 0.0
    pid: int = 0
    key: str = ""
    tool: str = ""

    def line(self) -> str:
        words = (
            *(self.execution_id, self.effect_class, str(self.attempt), f"{self.at:.6f}", str(self.pid)),
            *(self.key or "-", self.tool or "-"),
        )
        return " ".join(words) + "\n"


def append_mark(place: Path, mark: ToolEffectRecord) -> None:
    """Append *mark* and return once it is on the disk; raises OSError."""
    handle = os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, mark.line().encode())
        os.fsync(handle)
    finally:
        os.close(handle)


def read_marks(place: Path) -> tuple[ToolEffectRecord, ...]:
    """Return every mark of *place*, none where there is no file; a line may hold its first two fields alone."""
    if not place.exists():
        return ()
    return tuple(_mark(line) for line in place.read_text("utf-8").splitlines() if line.strip())


def _mark(line: str) -> ToolEffectRecord:
    words = line.split()
    if len(words) < _FIELDS:
        return ToolEffectRecord(execution_id=words[0], effect_class=words[1])
    return ToolEffectRecord(
        execution_id=words[0],
        effect_class=words[1],
        attempt=int(words[2]),
        at=float(words[3]),
        pid=int(words[4]),
        key="" if words[5] == "-" else words[5],
        tool="" if words[6] == "-" else words[6],
    )
