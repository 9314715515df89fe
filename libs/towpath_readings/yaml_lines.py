"""Which line of a YAML text holds what: problems name places by JSON pointers, people look for lines.

What is said of a fault is logged, and read in terminals and pages: of a line whose key, or one above it, is called
like a secret nothing is repeated, and of others signs that can't be seen, or change how the rest is read, are escaped.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import yaml

from towpath_contracts.problems.near_names import name_like
from towpath_contracts.problems.prompt_lines import split_prompt_line
from towpath_contracts.text import SECRET_NAME, name_hidden, visible_json

_OTHERWISE = "this line is indented otherwise than those it belongs to"
_HINTS = (
    ("found character '\\t'", "a tab begins this line; indent with spaces"),
    ("found character that cannot start any token", "a sign that begins no text; quote it, and indent with spaces"),
    ("did not find expected '-' indicator", _OTHERWISE),
    ("did not find expected key", _OTHERWISE),
    ("did not find expected ',' or ']'", "a list begins here with [ and is not closed with ]"),
    ("did not find expected ',' or '}'", "a mapping begins here with { and is not closed with }"),
    ("expected <block end>", _OTHERWISE),
    ("expected ',' or ']'", "a list begins here with [ and is not closed with ]"),
    ("expected ',' or '}'", "a mapping begins here with { and is not closed with }; quote a text that begins with {"),
    ("found unexpected end of stream", "a quote is opened and not closed"),
    ("found duplicate anchor", "an anchor is named twice"),
)
"""What the parser says, and what to do about it."""


_NAMED = ("name", "key")
"""Fields of networks and policies that take a name: quoted, a text that is none would be refused next."""

_BLOCK_ENDS = ("expected <block end>", "did not find expected key", "did not find expected '-' indicator")
"""What the two parsers say where a line doesn't go on as the lines before it."""

_KEY = re.compile(r"[\w.-]{1,64}")
"""A key that is repeated in what is said of its line."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""That of libyaml, where it is there: a policy may have a million characters."""

_IN_LINES = ("|", ">")
"""Styles of a text that ends where the next line is indented less."""

_TEXT_AT_FAULT = re.compile(r"'[^']*'")


def locate_yaml_fault(source: object, error: yaml.YAMLError, text: str) -> str:
    """Return what is wrong in *text*, which is no YAML, with its file and line."""
    line, what = describe_yaml_fault(error, text)
    return f"{source}:{line}: not YAML: {what}"


def describe_yaml_fault(error: yaml.YAMLError, text: str) -> tuple[int, str]:
    """Return the line of what is wrong in *text*, which is no YAML, and what to do about it."""
    said = str(getattr(error, "problem", None) or " ".join(str(error).split()))
    mark = getattr(error, "problem_mark", None)
    begun = getattr(error, "context_mark", None)
    if begun is not None and str(getattr(error, "context", "")).startswith(
        ("while parsing a flow", "while scanning a")
    ):
        mark = begun  # what is not closed is noticed lines later
    lines = text.split("\n")[: mark.line + 1] if mark is not None else []
    is_secret = _is_secret(lines)
    told = name_hidden(_TEXT_AT_FAULT.sub("'…'", said) if is_secret else said)
    hint = next((hint for words, hint in _HINTS if words in said), told)
    if mark is None:
        return 1, hint
    own = _hint_of_line(said, text, lines, mark.column, is_secret=is_secret) if mark.line < len(lines) else None
    return mark.line + 1, own or hint


def _is_secret(lines: Sequence[str]) -> bool:
    """Return whether the last of *lines*, or a key that it is below, has a name like a secret's."""
    column, found = _column_of_key(lines[-1]) if lines else 0, SECRET_NAME.search(lines[-1]) if lines else None
    for line in reversed(lines[:-1]):
        if found is not None or not column:
            break
        if line.strip() and (above := _column_of_key(line)) < column:
            column, found = above, SECRET_NAME.search(line.partition(": ")[0])
    return found is not None


def _column_of_key(line: str) -> int:
    """Return where the key of a line begins, behind the dashes of lists."""
    return len(line) - len(line.lstrip(" -"))


def _hint_of_line(said: str, text: str, lines: list[str], column: int, *, is_secret: bool) -> str | None:
    """Return what is wrong with the last of *lines*, with which *text* begins.

    The parser says the same of an indentation and of a text.
    """
    line = lines[-1].rstrip()
    before = line[:column]
    is_colon = "mapping values are not allowed" in said
    if not is_colon and not any(words in said for words in _BLOCK_ENDS):
        return None
    above = _open_above(text, len(lines) - 1)
    if above.text is not None and not above.text.plain:
        return f"the quoted text that begins in line {above.text.start_mark.line + 1} ends before this text"
    if is_colon:
        if ": " not in before:
            return _indented_otherwise(lines, above, is_secret=is_secret)
        key, value = _split_value(line)
        if key in _NAMED and not is_secret and (name := name_like(value, "_./-")):
            return f"a colon and a space inside a text. A name has neither; write {key}: {name}"
        return f"a colon and a space inside a text; {_quote_it(line, is_secret=is_secret)}"
    if not before.strip():
        return _indented_otherwise(lines, above, is_secret=is_secret)
    if _split_value(line)[1].startswith("{"):
        return f"a text that begins with {{ is read as a mapping; {_quote_it(line, is_secret=is_secret)}"
    return "the value ends before this text; quote the whole of it"


def _split_value(line: str) -> tuple[str, str]:
    """Return the key of a line, without the dash of a list, and the value behind its first colon, without a comment."""
    key, _, value = line.strip().removeprefix("- ").partition(":")
    return key.strip(), value.partition(" #")[0].strip()


def _quote_it(line: str, *, is_secret: bool) -> str:
    """Return how the value of *line* is written; of a secret it is not repeated."""
    key, value = _split_value(line)
    return "quote the whole of it" if is_secret else f"quote it: {name_hidden(key)}: {visible_json(value)}"


def _indented_otherwise(lines: Sequence[str], above: "_Above", *, is_secret: bool) -> str:
    """Return that the last of *lines* is indented otherwise than what it belongs beside *above*, and by how much.

    The parser says the same where the line goes on with a text that began above it, and has a colon in it.
    """
    own = _begun_in(lines[-1])
    if own is None:
        return _OTHERWISE
    begin = above.text.start_mark if above.text is not None else None
    if begin is not None and not (own.key or own.is_entry):
        return _colon_in_lines(begin.line + 1, above.is_open, is_secret=is_secret)
    beside = _nearest(own, above.is_open)
    if not beside:
        return _OTHERWISE
    more = ""
    if begin is not None and len(lines[begin.line][begin.column :].split()) > 1:
        more = f". If it goes on with the text of line {begin.line + 1}, quote the whole of that"
    begins = f"{own.shown(is_secret=is_secret) or 'this line'} begins in column {own.column}"
    if len(beside) > 1:
        either = ", or ".join(
            f"to column {one.column}, beside {one.shown(is_secret=is_secret) or 'what begins there'}" for one in beside
        )
        return f"{begins}, where nothing above it does: indent this line {either}{more}"
    (one,) = beside
    spaces = abs(one.column - own.column)
    by = f"{spaces if spaces > 1 else 'one'} {'more ' if one.column > own.column else ''}space{'s' * (spaces > 1)}"
    return (
        f"{begins}, but {one.shown(is_secret=is_secret) or 'the one'} above it, which it belongs beside, in column "
        f"{one.column}: indent this line by {by}{' less' if one.column < own.column else ''}{more}"
    )


class _Begun(NamedTuple):
    """What begins in a line, and where: an entry of a list with its dash, or a key."""

    column: int
    key: str
    """Empty where it is not to be shown."""

    is_entry: bool
    is_indentless: bool = False
    """Whether it is an entry in the column of the key that its list belongs to."""

    def shown(self, *, is_secret: bool) -> str:
        """Return what it is called; of a secret nothing."""
        if self.is_entry:
            return "the dash"
        return f"`{name_hidden(self.key)}`" if self.key and not is_secret else ""


class _Above(NamedTuple):
    """What is open still where a line begins."""

    is_open: list[_Begun]
    text: yaml.ScalarToken | None
    """The text, quoted or plain, that goes on in the line; None where none does."""


def _colon_in_lines(line: int, is_open: Sequence[_Begun], *, is_secret: bool) -> str:
    """Return that the text which begins in *line* has a colon in a later one, and how it is written."""
    told = f"a colon and a space inside the text that begins in line {line}; quote the whole of it"
    if is_secret or not is_open or not (is_open[-1].is_entry or is_open[-1].key):
        return told
    begins = "-" if is_open[-1].is_entry else f"{name_hidden(is_open[-1].key)}:"
    return f"{told}, or write it in the lines below `{begins} |`"


def _begun_in(line: str) -> _Begun | None:
    """Return what begins first in *line*: an entry, or a key; None where neither does."""
    written = line.strip()
    column = len(line) - len(line.lstrip(" ")) + 1
    if written == "-" or written.startswith("- "):
        return _Begun(column, "", is_entry=True)
    key, colon, _ = written.partition(":")
    key = key.strip("'\"")
    return _Begun(column, key if _KEY.fullmatch(key) else "", is_entry=False) if colon else None


def _open_above(text: str, line: int) -> _Above:
    """Return what is open in *text* where *line* begins, counted from 0, as the parser has read what is above it.

    What looks like a key inside a text or between brackets is none. A list may stand in the column of its key: its
    entries end with the next key there.
    """
    is_open: list[_Begun] = []
    brackets, is_key = 0, False
    try:
        for token in yaml.scan(text, Loader=_LOADER):
            if token.start_mark.line >= line:
                break
            if isinstance(token, yaml.FlowMappingStartToken | yaml.FlowSequenceStartToken):
                brackets += 1
            elif isinstance(token, yaml.FlowMappingEndToken | yaml.FlowSequenceEndToken):
                brackets -= 1
            elif not brackets:
                _follow(token, is_open, is_key=is_key)
            is_key = isinstance(token, yaml.KeyToken)
            goes_on = token.end_mark.line >= line and not brackets
            if goes_on and isinstance(token, yaml.ScalarToken) and token.style not in _IN_LINES:
                return _Above(is_open, token)
    except yaml.YAMLError:  # it is about this line, or one below it
        pass
    return _Above(is_open, None)


def _follow(token: yaml.Token, is_open: list[_Begun], *, is_key: bool) -> None:
    """Bring *is_open* behind *token*; with *is_key* that is a key itself."""
    column = token.start_mark.column + 1
    if isinstance(token, yaml.KeyToken | yaml.BlockEndToken) and is_open and is_open[-1].is_indentless:
        is_open.pop()
    match token:
        case yaml.BlockMappingStartToken():
            is_open.append(_Begun(column, "", is_entry=False))
        case yaml.BlockSequenceStartToken():
            is_open.append(_Begun(column, "", is_entry=True))
        case yaml.BlockEntryToken() if is_open and not is_open[-1].is_entry:
            is_open.append(_Begun(column, "", is_entry=True, is_indentless=True))
        case yaml.BlockEndToken() if is_open:
            is_open.pop()
        case yaml.ScalarToken() if is_key and is_open:
            is_open[-1] = is_open[-1]._replace(key=token.value if _KEY.fullmatch(token.value) else "")
        case _:
            pass


def _nearest(own: _Begun, is_open: Sequence[_Begun]) -> list[_Begun]:
    """Return what of the same kind begins nearest to the column of *own*, one to the right of it before one left."""
    alike = sorted((one for one in is_open if one.is_entry == own.is_entry), key=lambda one: -one.column)
    nearest = min((abs(one.column - own.column) for one in alike), default=0)
    return [one for one in alike if nearest and abs(one.column - own.column) == nearest]


class LineNumbers:
    """Knows the line of every JSON pointer of one YAML document."""

    def __init__(self, root: yaml.Node | None) -> None:
        self._line: dict[str, int] = {"": 1}
        self._text: dict[str, int] = {}
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
        if isinstance(node, yaml.ScalarNode) and node.style == "|":
            self._text.setdefault(pointer, node.start_mark.line + 1)
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

    def first_of(self, pointer: str) -> int:
        """Return the line where *pointer* is given for the first time."""
        return self._line[pointer]

    def of(self, pointer: str) -> int:
        """Return the line of *pointer* (the second one, where it is given twice), or of the nearest thing around it."""
        if pointer in self.duplicates:
            return self.duplicates[pointer]
        while pointer not in self._line:
            pointer = pointer.rpartition("/")[0]
        return self._line[pointer]

    def of_prompt(self, pointer: str, detail: str) -> tuple[int, str] | None:
        """Return where the line of the prompt at *pointer* stands that *detail* names, and what is said of it.

        None where it names none, or the prompt is not written line by line.
        """
        line, said = split_prompt_line(detail)
        begin = self._text.get(pointer)
        return None if line is None or begin is None else (begin + line, said)
