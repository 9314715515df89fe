"""What differs between two versions of a definition: member by member, long texts line by line.

Agents are told apart by their keys and tools by their names, so that one more at the beginning changes nothing else.
The work is bounded: texts with too many lines are named as changed, and not compared.
"""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

MAX_LINES = 1_000
"""Of a text that is compared line by line."""

MAX_COMPARED = 6_000
"""Lines that are compared in one go."""

CONTEXT = 2
"""Unchanged lines around those that differ."""

MAX_CHANGES = 400
SHORT_CHARS = 160
"""Of a member of an agent that is new, or gone."""

Kind = Literal["added", "removed", "changed"]
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangedLine:
    """A line of a text: `sign` is `+`, `-`, a blank, or `…` where unchanged lines are left out."""

    sign: str
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """One member that differs: both values as they are written, or for a long text the lines around what differs."""

    kind: Kind
    part: str
    member: str
    before: str = ""
    after: str = ""
    lines: tuple[ChangedLine, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """All that differs, in the order of the newer definition; `left` were too many to be shown."""

    shown: tuple[Change, ...]
    left: int


def changes_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> Changes:
    """Compare two definitions; lists of what has a key, and mappings under `tools`, are compared by those names."""
    old, new = dict(_members(before)), dict(_members(after))
    old_parts, new_parts = {path[:2] for path in old if len(path) > 2}, {path[:2] for path in new if len(path) > 2}
    found: list[Change] = []
    room = MAX_COMPARED
    for part in [*new_parts - old_parts, *old_parts - new_parts]:
        kind: Kind = "added" if part in new_parts else "removed"
        members = new if kind == "added" else old
        said = "\n".join(
            f"{path[2]}: {_short(one)}" for path, one in members.items() if path[:2] == part and path[2] != "key"
        )
        found.append(
            Change(kind, " ".join(part), "", said if kind == "removed" else "", said if kind == "added" else "")
        )
    whole = new_parts ^ old_parts
    for path in dict.fromkeys((*new, *old)):
        if path[:2] in whole and len(path) > 2:
            continue
        change, used = _change(path, old.get(path), new.get(path), room)
        room -= used
        if change is not None:
            found.append(change)
    found.sort(key=lambda change: (change.part != "", change.part, change.member != ""))
    return Changes(tuple(found[:MAX_CHANGES]), max(0, len(found) - MAX_CHANGES))


def _members(definition: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """Yield the members of a definition; those of an agent or a tool under (kind, name, member)."""
    for name, value in definition.items():
        if name == "agents" and isinstance(value, Sequence) and not isinstance(value, str):
            for agent in value:
                yield from (
                    (("agent", str(agent.get("key")), member), one)
                    for member, one in agent.items()
                    if member != "key" and not _is_empty(one)
                )
                yield ("agent", str(agent.get("key")), "key"), agent.get("key")
        elif name == "tools" and isinstance(value, Mapping):
            for tool, spec in value.items():
                yield from ((("tool", str(tool), member), one) for member, one in spec.items() if not _is_empty(one))
        elif not _is_empty(value):
            yield (name,), value


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", [], {}, ())


def _change(path: Path, before: Any, after: Any, room: int) -> tuple[Change | None, int]:
    """Return what differs at *path*, and how many lines were compared for it."""
    if before == after:
        return None, 0
    kind: Kind = "added" if _is_empty(before) else "removed" if _is_empty(after) else "changed"
    part, member = (" ".join(path[:2]), path[2]) if len(path) > 2 else ("", path[0])
    old, new = _written(before), _written(after)
    if kind == "changed" and ("\n" in old or "\n" in new):
        old_lines, new_lines = old.splitlines(), new.splitlines()
        longest, both = max(len(old_lines), len(new_lines)), len(old_lines) + len(new_lines)
        if longest > MAX_LINES or both > room:
            before, after = (f"{len(lines):,} lines, too many to compare here" for lines in (old_lines, new_lines))
            return Change(kind, part, member, before, after), 0
        return Change(kind, part, member, lines=_lines(old_lines, new_lines)), both
    return Change(kind, part, member, old, new), 0


def _lines(old: list[str], new: list[str]) -> tuple[ChangedLine, ...]:
    found = []
    for place, line in enumerate(difflib.unified_diff(old, new, lineterm="", n=CONTEXT)):
        if line.startswith("@@"):
            found += [ChangedLine("…", "")] if place > 2 else []
        elif place > 1:  # the first two name files
            found.append(ChangedLine(line[0], line[1:]))
    return tuple(found)


def _short(value: Any) -> str:
    text = " ".join(_written(value).split())
    return text if len(text) <= SHORT_CHARS else f"{text[:SHORT_CHARS]}…"


def _written(value: Any) -> str:
    """Write a value: texts as they are, lists of words in a line, all else as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False, indent=2 if isinstance(value, Mapping | list) else None)
