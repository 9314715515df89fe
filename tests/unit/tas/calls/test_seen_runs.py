"""The room that what runs have seen takes in the cache."""

from typing import Any
from uuid import UUID

import pytest

from towpath_tas.app.calls import value_origins
from towpath_tas.app.calls.value_origins import RunProvenanceCache

A, B, C = UUID(int=1), UUID(int=2), UUID(int=3)


class GrowingCache(RunProvenanceCache):
    """Reads so many characters of a run with every question, and needs no tables for it."""

    def __init__(self, chars: int) -> None:
        super().__init__()
        self._read_chars = chars

    async def _begin_all(self, _source: Any, runs: Any) -> set[UUID]:
        for run in runs.values():
            run.kept = run.has_begun = True
        return set()

    async def _read(self, _source: Any, runs: Any, **_limits: Any) -> set[UUID]:
        for run in runs.values():
            run.knowledge.chars += self._read_chars
        return set()

    async def ask(self, *run_ids: UUID, readers: bool = False) -> list[UUID]:
        """Ask for these runs; returns those that are cached then."""
        await self.of(None, dict.fromkeys(run_ids, "default"), run_ids if readers else ())  # type: ignore[arg-type]
        assert self._chars == sum(run.chars for run in self._runs.values())
        return list(self._runs)


async def test_the_run_that_nobody_asked_for_longest_goes_where_all_together_are_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(value_origins, "MAX_CHARS", 100)
    cache = GrowingCache(30)
    assert await cache.ask(A, B) == [A, B]
    assert await cache.ask(A) == [B, A]
    assert await cache.ask(C) == [A, C]  # 60 of A, which was asked for twice
    assert await cache.ask(A, C) == [C]  # A has grown to 90, and C to 60: the first goes, though it was just read


async def test_a_run_that_is_read_anew_for_its_readers_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_origins, "MAX_CHARS", 100)
    cache = GrowingCache(40)
    assert await cache.ask(A) == [A]
    assert await cache.ask(A, readers=True) == [A]
    assert await cache.ask(B) == [A, B]


async def test_so_many_runs_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_origins, "MAX_RUNS", 2)
    assert await GrowingCache(1).ask(A, B, C) == [B, C]
