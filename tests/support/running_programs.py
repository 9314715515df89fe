"""Finding processes of this machine by a word of their command."""

from pathlib import Path


def programs_with(word: str) -> list[int]:
    """Return the processes that have *word* as an argument."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and word.encode() in (process / "cmdline").read_bytes().split(b"\0"):
                found.append(int(process.name))
        except OSError:
            continue
    return found
