"""When Python looks for reference cycles."""

import gc

import pytest

from towpath_fabric import garbage_collector


def test_nothing_is_looked_for_while_it_is_paused() -> None:
    assert gc.isenabled()
    frozen = gc.get_freeze_count()
    with garbage_collector.paused():
        assert not gc.isenabled()
        kept: list[list[object]] = [[] for _ in range(1_000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() - frozen >= len(kept)


def test_an_import_that_fails_leaves_it_as_it_was() -> None:
    with pytest.raises(ImportError), garbage_collector.paused(), garbage_collector.paused():
        raise ImportError
    assert gc.isenabled()
