"""The commands of a block in a shell, as a reader would type them one after another."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

_JOINED = re.compile(r"\\\n\s*")
_VARIABLE = re.compile(r"[A-Z][A-Z_]*=")
_FUNCTION = re.compile(r'(\w+)\(\) \{ (.*) "\$@"; \}')


class ShellCommand(NamedTuple):
    """One command: its words, its variables, the file that its output goes to, and whether only success leads to it."""

    words: tuple[str, ...]
    variables: tuple[tuple[str, str], ...] = ()
    into: str = ""


Given = Mapping[str, str | Sequence[str]]
"""Values for words of a page such as RUN; of several values each command takes the next."""


def shell_commands(text: str, given: Given) -> Iterator[ShellCommand]:
    """Return the commands of *text* with the values *given*; what `[…]` leaves open to the reader is taken.

    A function of the shell that puts words before others is one too.
    """
    left = {word: [values] if isinstance(values, str) else [*values] for word, values in given.items()}
    functions: dict[str, list[str]] = {}
    for line in _JOINED.sub(" ", text).splitlines():
        if found := _FUNCTION.fullmatch(line):
            functions[found[1]] = shlex.split(found[2])
            continue
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&<>")
        lexer.whitespace_split = True
        words: list[str] = []
        into, is_file = "", False
        for word in lexer:
            if not words and word in functions:
                words = [*functions[word]]
            elif word in {"&&", ";"}:
                yield from _command(words, into, left)
                words, into = [], ""
            elif word == ">":
                is_file = True
            elif is_file:
                into, is_file = word, False
            else:
                words.append(word)
        yield from _command(words, into, left)


def _command(words: list[str], into: str, left: dict[str, list[str]]) -> Iterator[ShellCommand]:
    variables = []
    while words and _VARIABLE.match(words[0]):
        name, _, value = words[0].partition("=")
        variables.append((name, left[value][0] if value in left else value))
        words = words[1:]
    if words:
        bare = [word.removeprefix("[").removesuffix("]") if _is_optional(word) else word for word in words]
        meant = tuple(left[word][0] if word in left else word for word in bare)
        for word in {*bare} & left.keys():
            if len(left[word]) > 1:
                left[word].pop(0)
        yield ShellCommand(meant, tuple(variables), into)


def _is_optional(word: str) -> bool:
    return (word.startswith("[") and "," not in word) or (word.endswith("]") and "[" not in word)
