"""Who may know what a tool returns, as its author declares it.

What nobody has declared may be known to nobody, as far as rules can tell: a declaration only opens. An unclear one is
refused, never read as "anybody".
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from towpath_contracts.base import MessagePart

ANYBODY = "anybody"
"""Declares that a text is public."""

Path = Annotated[str, Field(pattern=r"^[^.\s]+(\.[^.\s]+)*$", max_length=256)]
"""A place in arguments or in a result, such as `items.account`: each item's `account` where `items` is a list."""

MAX_NAMES = 256
_LISTS = frozenset({"names", "fields", "args"})
_FORMS = 'write "anybody", a list of names, or {"fields": "path in the output"}; several parts are a list of those'


class OutputReaders(MessagePart):
    """Who may know one part of an output: what stands at the path `of` and beneath; all of it where that is empty.

    Where a list stands at `of`, or on the way there, each of its items is a part of its own. Readers are `names`, and
    what stands at the paths `fields` of the part and at the paths `args` of the call's arguments. With none of them
    nobody may know it. Of several parts that hold a text the deepest counts.
    """

    of: Annotated[str, Field(pattern=r"^([^.\s]+(\.[^.\s]+)*)?$", max_length=256)] = ""
    anybody: bool = False
    names: tuple[Annotated[str, Field(min_length=1, max_length=320)], ...] = Field(default=(), max_length=MAX_NAMES)
    fields: tuple[Path, ...] = Field(default=(), max_length=16)
    args: tuple[Path, ...] = Field(default=(), max_length=16)

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        if self.anybody and (self.names or self.fields or self.args):
            msg = "what anybody may know has no other readers"
            raise ValueError(msg)
        if ANYBODY in self.names:
            msg = f'"{ANYBODY}" stands alone, not in a list of names'
            raise ValueError(msg)
        return self

    def covers(self, other: "OutputReaders") -> bool:
        """Return whether this lets at least those know who may know by *other*, whatever a call returns."""
        if self.of != other.of:
            return False
        return self.anybody or (
            not other.anybody
            and set(self.names) >= set(other.names)
            and set(self.fields) >= set(other.fields)
            and set(self.args) >= set(other.args)
        )

    def __str__(self) -> str:
        """Say it in few words, for people."""
        who = [*self.names[:5], *(f"whom {path} names" for path in (*self.fields, *self.args))]
        told = ANYBODY if self.anybody else ", ".join(who) or "nobody"
        return f"{told} ({self.of})" if self.of else told


def declared_readers(written: Any) -> tuple[OutputReaders, ...]:
    """Return the parts of a declaration in any form that people write; raises ValueError, also for unknown words."""
    if written is None:
        return ()
    if written == ANYBODY:
        return (OutputReaders(anybody=True),)
    if isinstance(written, Mapping | OutputReaders):
        return (_part(written),)
    if isinstance(written, str) or not isinstance(written, Sequence):
        msg = f"{written!r} does not say who may know the output: {_FORMS}"
        raise ValueError(msg)  # noqa: TRY004 - pydantic makes a problem with its place of a ValueError alone
    if written and all(isinstance(part, Mapping | OutputReaders) for part in written):
        return tuple(map(_part, written))
    return (_part({"names": written}),)


def _part(written: Mapping[str, Any] | OutputReaders) -> OutputReaders:
    if isinstance(written, OutputReaders):
        return written
    unknown = set(written) - set(OutputReaders.model_fields)
    if unknown:
        msg = f"readers have no {', '.join(sorted(map(str, unknown)))}: {_FORMS}"
        raise ValueError(msg)
    lists = {name: (value,) if name in _LISTS and isinstance(value, str) else value for name, value in written.items()}
    return OutputReaders.model_validate(lists)
