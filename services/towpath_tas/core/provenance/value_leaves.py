"""The values inside a value, each with its place, and where a value was seen."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ValueSource:
    """Where a value was seen: `tool` is empty for the task, and names what is no tool where there is no step."""

    tool: str = ""
    step: int = 0


@dataclass(frozen=True, slots=True)
class ValueLeaf:
    path: str
    names: tuple[str, ...]
    value: Any


def leaves(
    value: Any, path: str = "", names: tuple[str, ...] = (), *, keys: bool = False, known: frozenset[str] = frozenset()
) -> Iterator[ValueLeaf]:
    """Yield every value inside *value*; with *keys* also names of members that are data, not in *known*."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            below = f"{path}.{name}" if path else str(name)
            if keys and name not in known:
                yield ValueLeaf(f"{below} (name)", (*names, str(name)), name)
            yield from leaves(inner, below, (*names, str(name)), keys=keys, known=known)
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{place}]", names, keys=keys, known=known)
    elif value is not None or names:
        yield ValueLeaf(path, names, value)


def covers(pattern: tuple[str, ...], names: tuple[str, ...]) -> bool:
    if len(pattern) > len(names):
        return False
    return all(wanted in {"*", name} for wanted, name in zip(pattern, names, strict=False))
