"""Compares arguments with those that are expected: what is not named may be anything."""

from typing import Any


def includes(found: Any, expected: Any) -> bool:
    """Return whether *found* has everything of *expected*, in objects inside of objects too."""
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(
            name in found and includes(found[name], one) for name, one in expected.items()
        )
    return bool(found == expected) and isinstance(found, bool) == isinstance(expected, bool)
