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


def test_young_objects_are_collected_less_often_until_the_last_of_overlapping_blocks_ends() -> None:
    before = gc.get_threshold()
    rare = garbage_collector.RareCollections()
    first, second = rare.block(), rare.block()
    try:
        gc.set_threshold(700, 10, 10)
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert gc.get_threshold() == garbage_collector.RARELY
        second.__exit__(None, None, None)
        assert gc.get_threshold() == (700, 10, 10)
    finally:
        gc.set_threshold(*before)


@pytest.mark.parametrize("own", [(0, 10, 10), (50_000, 5, 5)])
def test_thresholds_of_one_s_own_stay(own: tuple[int, int, int]) -> None:
    before = gc.get_threshold()
    rare = garbage_collector.RareCollections()
    try:
        gc.set_threshold(*own)
        with rare.block():
            assert gc.get_threshold() == own
        assert gc.get_threshold() == own
        gc.set_threshold(700, 10, 10)
        with rare.block():
            gc.set_threshold(*own)
        assert gc.get_threshold() == own
    finally:
        gc.set_threshold(*before)
