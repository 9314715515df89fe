"""New ids: the only place that makes them.

A run id is a UUIDv7 (RFC 9562, section 5.7), so that ids sort by time and a range of ids is a range of time. The time
is the platform's: rows are found, and partitions chosen, by it.
"""

import contextlib
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from uuid import UUID

from towpath_fabric.clock import platform_ns


@dataclass(slots=True)
class _Draw:
    bits: Callable[[int], int]


_draw = _Draw(secrets.randbits)


def new_run_id() -> UUID:
    """Return a fresh UUIDv7: 48 bits of milliseconds, 74 random bits."""
    milliseconds = platform_ns() // 1_000_000
    value = (milliseconds & ((1 << 48) - 1)) << 80 | _draw.bits(80)
    value = value & ~(0xF << 76) | (0x7 << 76)
    value = value & ~(0x3 << 62) | (0x2 << 62)
    return UUID(int=value)


@contextlib.contextmanager
def use_random_bits(bits: Callable[[int], int]) -> Iterator[None]:
    """Make new ids from *bits* until the block ends: a simulation's seed gives the same ids every time."""
    before, _draw.bits = _draw.bits, bits
    try:
        yield
    finally:
        _draw.bits = before
