"""Adds something at the end of a list or mapping of a YAML file, whose other lines stay as they are.

Comments stay with them.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_readings.yaml_lines import locate_yaml_fault


def append_item(folder: Path, path: Path, member: str, key: str, name: str, item: str) -> None:
    """Add *item*, whose *key* is *name*, at the end of the list *member* of the file at *path* in *folder*.

    Raises ProblemError, and leaves the file as it is, where the name is taken or the list has another form.
    """
    append_items(folder, path, member, key, {name: item})


def append_items(folder: Path, path: Path, member: str, key: str, items: Mapping[str, str]) -> None:
    """Do what `append_item` does with several *items*, by their names: all of them, or none."""
    item = "".join(items.values())
    text, before = _read_file(folder / path, path)
    listed = before.get(member) if isinstance(before, dict) else None
    known = [one.get(key) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    for name in items:
        if name in known:
            raise _taken(path, member, name)
    if isinstance(listed, list):
        after = _inserted(text, member, item) if listed else _first_inserted(text, member, item)
        if parse_yaml(after, path, quiet=True) == {**before, member: [*listed, *yaml.safe_load(item)]}:
            (folder / path).write_bytes(after.encode("utf-8"))
            return
    raise _of_another_form(path, member, item, "Write the list in lines that begin with a dash.")


def with_entry(path: Path, member: str, name: str, entry: str) -> str:
    """Return the text at *path* with *entry*, which is that of *name*, at the end of the mapping *member*.

    Raises ProblemError where the name is taken or the mapping has another form.
    """
    text, before = _read_file(path, path)
    known = before.get(member) if isinstance(before, dict) else None
    if isinstance(known, dict) and name in known:
        raise _taken(path, member, name)
    if isinstance(known, dict) and known:
        after = _inserted(text, member, entry)
        if parse_yaml(after, path, quiet=True) == {**before, member: {**known, **yaml.safe_load(entry)}}:
            return after
    raise _of_another_form(path, member, entry, "Write each key of it in a line of its own.")


def with_key(path: Path, line: str) -> str:
    """Return the text at *path*, which is a mapping, with *line* at its end: a key with its value."""
    text, before = _read_file(path, path)
    ends = "\r\n" if "\r\n" in text else "\n"
    after = f"{text}{ends if text and not text.endswith(ends) else ''}{line}{ends}"
    if not isinstance(before, dict) or parse_yaml(after, path, quiet=True) != {**before, **yaml.safe_load(line)}:
        detail = f"{path} is not written so that something can be added; add it by hand:\n{line}"
        raise ProblemError(problem("request_invalid", detail, remedy="Write each key of it in a line of its own."))
    return after


def parse_yaml(text: str, path: Path, *, quiet: bool = False) -> Any:
    """Return what *text* of the file at *path* holds; None of one that is no YAML with *quiet*, else ProblemError."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        if quiet:
            return None
        raise ProblemError(problem("request_invalid", locate_yaml_fault(path, error, text))) from error


def indented(item: str, column: int) -> str:
    """Return the lines of *item* moved to the right by *column*; empty ones stay empty."""
    return "".join(f"{' ' * column}{line}" if line.strip() else line for line in item.splitlines(keepends=True))


def _read_file(place: Path, path: Path) -> tuple[str, Any]:
    text = place.read_bytes().decode("utf-8")  # with the ends of its lines, whatever they are
    return text, parse_yaml(text, path)


def _taken(path: Path, member: str, name: str) -> ProblemError:
    detail = f"{path} has {name!r} already, in {member}"
    return ProblemError(problem("files_exist", detail, remedy="Choose another name."))


def _of_another_form(path: Path, member: str, item: str, remedy: str) -> ProblemError:
    detail = f"{path} is not written so that something can be added to {member}; add it by hand:\n{item}"
    return ProblemError(problem("request_invalid", detail, remedy=remedy))


def _inserted(text: str, member: str, item: str) -> str:
    root: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    node = next(value for key, value in root.value if key.value == member)
    lines, ends = text.splitlines(keepends=True), "\r\n" if "\r\n" in text else "\n"
    end = _last_line(node) + 1
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += ends
    while not lines[end - 1].strip():  # a text in lines takes those behind it along
        end -= 1
    space = [ends] if any(not line.strip() for line in lines[node.start_mark.line : end]) else []
    added = indented(item, node.start_mark.column).replace("\n", ends)
    return "".join([*lines[:end], *space, added, *lines[end:]])


def _first_inserted(text: str, member: str, item: str) -> str:
    """Return *text* with *item* in place of the empty list that stands behind *member* in one line."""
    ends = "\r\n" if "\r\n" in text else "\n"
    added = indented(item, 2).rstrip("\n").replace("\n", ends)
    return re.sub(rf"^({member}:) *\[ *\]", lambda found: f"{found[1]}{ends}{added}", text, flags=re.MULTILINE)


def _last_line(node: Any) -> int:
    """Return the last line of a node's own text: the end of a block collection is where the next thing begins."""
    if isinstance(node, yaml.ScalarNode):
        mark = node.end_mark
        return int(mark.line - (mark.column == 0 and mark.line > node.start_mark.line))
    parts = [part for one in node.value for part in (one if isinstance(one, tuple) else (one,))]
    return max((_last_line(part) for part in parts), default=int(node.end_mark.line))
