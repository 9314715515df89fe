"""Subjects with wildcards, and who takes which: `*` stands for one token, and a last `>` for the rest.

Every message is looked up, and patterns differ mostly in how they begin: an index by the first tokens leaves one or two
to be compared.
"""

from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


class SubjectPattern:
    """Which subjects a consumer or a subscription takes."""

    def __init__(self, text: str) -> None:
        self._tokens = text.split(".")
        # What precedes the first wildcard: most subjects differ in it, or end with it.
        self._literal = text.partition("*")[0].removesuffix(">")
        self._exact = self._literal == text
        self._takes_rest = self._tokens[-1] == ">"

    @property
    def begin(self) -> str | None:
        """The first two tokens of whatever fits, as `begin_of` returns them; None where a wildcard is among them."""
        begin = self._tokens[:2]
        return None if "*" in begin or ">" in begin else ".".join(begin)

    def fits(self, subject: str) -> bool:
        """Return whether *subject* is one of them."""
        if self._exact:
            return subject == self._literal
        if not subject.startswith(self._literal):
            return False
        tokens = subject.split(".")
        if self._takes_rest:
            return len(tokens) >= len(self._tokens) and _equal(self._tokens[:-1], tokens)
        return len(tokens) == len(self._tokens) and _equal(self._tokens, tokens)


def _equal(pattern: list[str], tokens: list[str]) -> bool:
    return all(want in ("*", token) for want, token in zip(pattern, tokens, strict=False))


def begin_of(subject: str) -> str:
    """Return the first two tokens of a subject, or the only one."""
    return ".".join(subject.split(".", 2)[:2])


class SubjectIndex(Generic[ItemT]):
    """Items, each with the pattern of the subjects that it takes."""

    def __init__(self) -> None:
        self._by_begin: dict[str, list[tuple[SubjectPattern, ItemT]]] = {}
        self._others: list[tuple[SubjectPattern, ItemT]] = []

    def add(self, pattern: str, item: ItemT) -> None:
        """Have *item* found for the subjects that *pattern* fits."""
        self._list_of(read := SubjectPattern(pattern)).append((read, item))

    def remove(self, pattern: str, item: ItemT) -> None:
        """Find *item* no more; nothing is done where it is not found now."""
        entries = self._list_of(SubjectPattern(pattern))
        entries[:] = [entry for entry in entries if entry[1] != item]

    def find(self, subject: str) -> list[ItemT]:
        """Return the items that take *subject*; of those whose patterns begin alike in the order of their coming."""
        entries = self._by_begin.get(begin_of(subject), self._others)
        if self._others and entries is not self._others:
            entries = [*entries, *self._others]
        return [item for pattern, item in entries if pattern.fits(subject)]

    def _list_of(self, pattern: SubjectPattern) -> list[tuple[SubjectPattern, ItemT]]:
        return self._others if pattern.begin is None else self._by_begin.setdefault(pattern.begin, [])
