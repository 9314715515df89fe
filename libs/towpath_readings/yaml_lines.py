"""Which line of a YAML text holds what: problems name places by JSON pointers, people look for lines."""

from collections.abc import Iterator

import yaml

_HINTS = (
    ("found character '\\t'", "a tab begins this line; indent with spaces"),
    ("found character that cannot start any token", "a sign that begins no text; quote it, and indent with spaces"),
    ("did not find expected '-' indicator", "this line is indented otherwise than those it belongs to"),
    ("did not find expected key", "this line is indented otherwise than those it belongs to"),
    ("did not find expected ',' or ']'", "a list begins here with [ and is not closed with ]"),
    ("did not find expected ',' or '}'", "a mapping begins here with { and is not closed with }"),
    ("mapping values are not allowed", "a colon where none may stand; quote the text, or look at the indentation"),
    ("expected <block end>", "this line is indented otherwise than those it belongs to"),
    ("expected ',' or ']'", "a list begins here with [ and is not closed with ]"),
    ("expected ',' or '}'", "a mapping begins here with { and is not closed with }; quote a text that begins with {"),
    ("found unexpected end of stream", "a quote is opened and not closed"),
    ("found duplicate anchor", "an anchor is named twice"),
)
"""What the parser says, and what to do about it."""


def describe_yaml_fault(error: yaml.YAMLError) -> tuple[int, str]:
    """Return the line of what is wrong in a text that is no YAML, and what to do about it."""
    said = str(getattr(error, "problem", None) or " ".join(str(error).split()))
    mark = getattr(error, "problem_mark", None)
    begun = getattr(error, "context_mark", None)
    if begun is not None and str(getattr(error, "context", "")).startswith(
        ("while parsing a flow", "while scanning a")
    ):
        mark = begun  # what is not closed is noticed lines later
    hint = next((hint for words, hint in _HINTS if words in said), said)
    if "expected <block end>" in said and _text_before(mark):
        hint = "the value ends before this text; quote the whole of it"
    return (mark.line + 1 if mark is not None else 1), hint


def _text_before(mark: yaml.Mark | None) -> bool:
    """Return whether something stands in the line before the place."""
    if mark is None or mark.buffer is None:
        return False
    return bool(mark.buffer[: mark.pointer].rpartition("\n")[2].strip())


class LineNumbers:
    """Knows the line of every JSON pointer of one YAML document."""

    def __init__(self, root: yaml.Node | None) -> None:
        self._line: dict[str, int] = {"": 1}
        self.duplicates: dict[str, int] = {}
        self._walked: set[int] = set()
        if root is not None:
            for pointer, line in self._walk(root, ""):
                self._line.setdefault(pointer, line)

    def _walk(self, node: yaml.Node, pointer: str) -> Iterator[tuple[str, int]]:
        yield pointer, node.start_mark.line + 1
        if id(node) in self._walked:  # an alias: walking it again could go on for ever
            return
        self._walked.add(id(node))
        if isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                name = str(key.value)
                if name in seen:
                    self.duplicates[f"{pointer}/{name}"] = key.start_mark.line + 1
                seen.add(name)
                yield f"{pointer}/{name}", key.start_mark.line + 1
                yield from self._walk(value, f"{pointer}/{name}")
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                yield from self._walk(value, f"{pointer}/{index}")

    def of(self, pointer: str) -> int:
        """Return the line of *pointer* (the second one, where it is given twice), or of the nearest thing around it."""
        if pointer in self.duplicates:
            return self.duplicates[pointer]
        while pointer not in self._line:
            pointer = pointer.rpartition("/")[0]
        return self._line[pointer]
