"""pytest finds this by its entry point: the fixtures of `towpath.testing`.

Every run of pytest loads it where Towpath is installed, so nothing of the platform is imported before a test needs it.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from towpath_testing.sync import SyncHarness


@pytest.fixture
def towpath_harness() -> "Iterator[Callable[..., SyncHarness]]":
    """Return `harness` for tests without asyncio: what it opens is closed when the test ends."""
    from towpath_testing.harness import harness  # noqa: PLC0415 - as the head says

    with ExitStack() as stack:

        def opened(*arguments: Any, **options: Any) -> "SyncHarness":
            return stack.enter_context(harness(*arguments, **options))

        yield opened
