"""When Python looks for reference cycles: never while a process imports, rarely while a service runs.

What is imported stays for the life of the process, and of a few thousand short-lived objects per batch nearly all are
freed by reference counting. So looking for cycles in either is waste: a tenth of a start, some per cent of the work.
"""

import contextlib
import gc
from collections.abc import Iterator

RARELY = (20_000, 20, 50)
"""Thresholds of the three generations."""


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Look for no garbage meanwhile; afterwards all is as it was, in a process that is not the platform's alone too."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Look for no garbage meanwhile, and never again among what is made meanwhile."""
    with without_collections():
        try:
            yield
        finally:
            gc.freeze()


class RareCollections:
    """Collects young objects less often while any block of it goes on; the last to end puts back what was before."""

    def __init__(self) -> None:
        self._blocks = 0
        self._before = RARELY

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        """Collect less often meanwhile, unless somebody has it never done, or as rarely."""
        self._blocks += 1
        if self._blocks == 1:
            self._before = gc.get_threshold()
            if 0 < self._before[0] < RARELY[0]:
                gc.set_threshold(*RARELY)
        try:
            yield
        finally:
            self._blocks -= 1
            if not self._blocks and gc.get_threshold() == RARELY:  # else somebody has set it meanwhile
                gc.set_threshold(*self._before)


def collect_rarely() -> None:
    """Leave what has been built so far out of every later collection, and collect young objects less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*RARELY)
