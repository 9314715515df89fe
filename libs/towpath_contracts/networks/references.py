"""References in the texts of a plan: `{{ result.key.field[0] }}` and `{{ bindings.name }}`.

A reference is a path and nothing else: no calls, no filters, no expressions, so there is nothing to escape from.
Reading takes time in proportion to the text.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any

RESULT, BINDINGS = "result", "bindings"

MAX_NAMED = 16
"""Names that a fault lists."""

MAX_NAME = 64
"""Characters of one of them."""

MAX_REFERENCES = 1_000
MAX_REFERENCE_CHARS = 32_768
"""References of one plan, and characters inside their braces: they are read several times, each time where the facts of
other runs wait, and a longer path has more names to look for."""

_BRACES = re.compile(r"\{\{([^{}]{0,512})\}\}")
_PATH = re.compile(r"(result|bindings)((?:\.[^.\[\]{}\s]+|\[[0-9]{1,9}\])+)")
_SEGMENT = re.compile(r"\.([^.\[\]]+)|\[([0-9]+)\]")


class UndefinedReferenceError(ValueError):
    """A reference leads nowhere, or is none; the text names it."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A path below `result` or `bindings`; `path` begins with a dot or a bracket."""

    root: str
    path: str

    @property
    def text(self) -> str:
        """The reference as it was written."""
        return f"{self.root}{self.path}"

    def name_in(self, names: Collection[str]) -> str | None:
        """Return which of *names* the path begins with: the longest, since names may have dots; None for none."""
        if not self.path.startswith("."):
            return None
        ends = [len(self.path), *(found.start() for found in _SEGMENT.finditer(self.path))]
        fitting = [name for end in ends if (name := self.path[1:end]) in names]
        return max(fitting, key=len, default=None)

    def value_in(self, values: dict[str, Any]) -> Any:
        """Return what the path leads to in *values*; raises UndefinedReferenceError."""
        name = self.name_in(values)
        if name is None:
            raise UndefinedReferenceError(undefined_message(self, list_names(values)))
        value: Any = values[name]
        for segment in _SEGMENT.finditer(self.path, len(name) + 1):
            value = self._inside(value, segment.group(1), segment.group(2))
        return value

    def _inside(self, value: Any, key: str | None, place: str | None) -> Any:
        wanted = key if key is not None else str(place)
        if isinstance(value, dict) and wanted in value:
            return value[wanted]
        if isinstance(value, list | tuple) and place is not None and int(place) < len(value):
            return value[int(place)]
        msg = f"{self.text} is not defined: there is no {wanted!r} in what stands before it"
        raise UndefinedReferenceError(msg)


@dataclass(frozen=True, slots=True)
class PlanTemplatePart:
    """A part of a template's text: words as they stand, or a reference; `fault` says why braces hold no reference."""

    text: str = ""
    reference: Reference | None = None
    fault: str = ""


def split_text(text: str) -> Iterator[PlanTemplatePart]:
    """Take *text* apart, in order. Braces that are never closed are words like any others."""
    end = 0
    for found in _BRACES.finditer(text):
        if found.start() > end:
            yield PlanTemplatePart(text=text[end : found.start()])
        yield _text_part(found.group(1).strip())
        end = found.end()
    if end < len(text) or not text:
        yield PlanTemplatePart(text=text[end:])


def _text_part(inside: str) -> PlanTemplatePart:
    path = _PATH.fullmatch(inside)
    if path is None:
        shown = inside if len(inside) <= 80 else f"{inside[:80]}…"
        return PlanTemplatePart(
            fault=f"{{{{ {shown} }}}} is no reference: write result.KEY or bindings.NAME, and fields below it"
        )
    return PlanTemplatePart(reference=Reference(path.group(1), path.group(2)))


def reference_excess(texts: Iterable[str]) -> str:
    """Say where *texts* refer to more than a plan may, before any of it is read; empty where they do not."""
    count = chars = 0
    for text in texts:
        for found in _BRACES.finditer(text):
            count += 1
            chars += len(found.group(1))
            if count > MAX_REFERENCES:
                return f"have more than {MAX_REFERENCES} references together"
            if chars > MAX_REFERENCE_CHARS:
                return f"have references of more than {MAX_REFERENCE_CHARS} characters together"
    return ""


def texts_in(value: Any) -> Iterator[str]:
    """Return every text inside *value*, keys left out; it may be nested to any depth."""
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            stack.extend(reversed(part.values()))
        elif isinstance(part, list | tuple):
            stack.extend(reversed(part))


def undefined_message(reference: Reference, known: str) -> str:
    """Return the message for a *reference* that begins with no known name; *known* lists those (`list_names`)."""
    return f"{reference.text} is not defined; {reference.root} has: {known or 'nothing yet'}"


def list_names(names: Collection[str]) -> str:
    """Return the first of *names* for people, and how many more there are; it looks at all of them."""
    first = [name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}…" for name in nsmallest(MAX_NAMED, names)]
    more = [f"and {len(names) - MAX_NAMED} more"] if len(names) > MAX_NAMED else []
    return ", ".join([*first, *more])
