"""Reads what a docstring says about a function and its parameters.

Three forms are read (`Args:` with indented names, `:param name:`, and `Parameters` underlined with dashes); text
in no known form stays in the description; nothing here ever fails.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_SECTION = re.compile(
    r"^(args|arguments|parameters|params|returns?|raises|yields?|examples?|notes?|warnings?|see also|attributes):?\s*$",
    re.IGNORECASE,
)
_PARAMETER_SECTIONS = frozenset({"args", "arguments", "parameters", "params"})
_GOOGLE = re.compile(r"^\*{0,2}(?P<name>\w+)\s*(\([^)]*\))?\s*:\s*(?P<text>.*)$")
_NUMPY = re.compile(r"^\*{0,2}(?P<name>\w+)\s*(:.*)?$")
_SPHINX = re.compile(r"^:param\s+(?:[^:]*\s)?\*{0,2}(?P<name>\w+)\s*:\s*(?P<text>.*)$")
_SPHINX_OTHER = re.compile(r"^:(type|returns?|rtype|raises?)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Docstring:
    """What a docstring says: the description (sections left out) and one text per parameter."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict)


def parse_docstring(function: Callable[..., object]) -> Docstring:
    """Return what the docstring of *function* says; empty where there is none."""
    lines = inspect.cleandoc(function.__doc__ or "").splitlines()
    description: list[str] = []
    found: dict[str, str] = {}
    for kind, block in _sections(lines):
        if kind is None:
            description.extend(_take_sphinx(block, found))
        elif kind in _PARAMETER_SECTIONS:
            _take_entries(block, found)
    return Docstring(description="\n".join(description).strip(), parameters=found)


def _sections(lines: list[str]) -> Iterator[tuple[str | None, list[str]]]:
    """Cut *lines* at section headings; the first part has no heading."""
    kind: str | None = None
    block: list[str] = []
    skip = False
    for index, line in enumerate(lines):
        if skip:
            skip = False
            continue
        following = lines[index + 1] if index + 1 < len(lines) else ""
        underlined = bool(re.fullmatch(r"-{3,}", following.strip()))
        heading = _SECTION.match(line)
        if heading and (line.rstrip().endswith(":") or underlined):
            yield kind, block
            kind, block, skip = heading.group(1).lower(), [], underlined
        elif kind is not None and not underlined and line and not line.startswith((" ", "\t")) and _is_prose(block):
            yield kind, block
            kind, block = None, ["", line]  # an unindented line ends a section: what follows is description again
        else:
            block.append(line)
    yield kind, block


def _is_prose(block: list[str]) -> bool:
    """Say whether the section so far was indented under its heading, so that an unindented line leaves it."""
    written = [line for line in block if line.strip()]
    return bool(written) and all(line.startswith((" ", "\t")) for line in written)


def _take_entries(block: list[str], found: dict[str, str]) -> None:
    """Read `name: text` (or NumPy's name line with text below), continued by deeper lines."""
    written = [line for line in block if line.strip()]
    if not written:
        return
    indent = min(len(line) - len(line.lstrip()) for line in written)
    name = ""
    for line in written:
        own = len(line) - len(line.lstrip()) == indent
        match = (_GOOGLE.match(line.strip()) if indent else _NUMPY.match(line.strip())) if own else None
        if match:
            name = match.group("name")
            found[name] = (match.groupdict().get("text") or "").strip()
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()


def _take_sphinx(block: list[str], found: dict[str, str]) -> list[str]:
    """Take `:param name: text` fields out of *block*; return what is left."""
    left: list[str] = []
    name: str | None = None
    for line in block:
        match = _SPHINX.match(line.strip())
        if match:
            name = match.group("name")
            found[name] = match.group("text").strip()
        elif _SPHINX_OTHER.match(line.strip()):
            name = ""
        elif name is not None and line.startswith((" ", "\t")):
            if name:
                found[name] = f"{found[name]} {line.strip()}".strip()
        else:
            name = None
            left.append(line)
    return left
