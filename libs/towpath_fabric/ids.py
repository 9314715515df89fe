"""New ids: the only place that draws them.

Law: a run id is a UUIDv7 (RFC 9562 §5.7), so that ids sort by time and a range of ids is a range of time (design §9).
"""

import secrets
import time
from uuid import UUID


def new_run_id() -> UUID:
    """Return a fresh UUIDv7: 48 bits of milliseconds, 74 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds & ((1 << 48) - 1)) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | (0x7 << 76)
    value = value & ~(0x3 << 62) | (0x2 << 62)
    return UUID(int=value)
