"""Event streams of one key read few pages at once, and many streams look at the log less often."""

import asyncio
from contextlib import ExitStack

import pytest

from towpath_contracts.problems.registry import ProblemError
from towpath_gateway.adapters.platform_client import CHECK_S
from towpath_gateway.app import stream_pace
from towpath_gateway.app.stream_pace import PAGES_PER_KEY, StreamPace
from towpath_gateway.core.api_keys import Principal


def holder(prefix: str | None) -> Principal:
    return Principal(caller="c", actor="a", project="default", scopes=frozenset(), roles=frozenset(), key_prefix=prefix)


async def test_streams_of_one_key_wait_for_its_own_turns_alone() -> None:
    pace = StreamPace()
    with ExitStack() as streams:
        many = [streams.enter_context(pace.stream_of(holder("one"))) for _ in range(PAGES_PER_KEY + 1)]
        other = streams.enter_context(pace.stream_of(holder("two")))
        for turns in many[:-1]:
            await turns.turn.acquire()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(many[-1].turn.acquire(), 0.01)
        await asyncio.wait_for(other.turn.acquire(), 60)


def test_the_more_streams_there_are_the_longer_each_waits_between_two_looks() -> None:
    pace = StreamPace()
    with ExitStack() as streams:
        first = streams.enter_context(pace.stream_of(holder("one")))
        assert first.check_s == CHECK_S
        for _ in range(499):
            streams.enter_context(pace.stream_of(holder("two")))
        assert first.check_s == 10.0
    assert first.check_s == CHECK_S
    assert pace.streams == 0


async def test_a_new_stream_that_gets_no_turn_is_told_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_pace, "OPEN_WAIT_S", 0.01)
    with StreamPace().stream_of(holder("one")) as turns:
        for _ in range(PAGES_PER_KEY):
            await turns.turn.acquire()
        with pytest.raises(ProblemError) as refused:
            async with turns.opening():
                pytest.fail("there is no turn")
        assert (refused.value.problem.code, refused.value.problem.retryable) == ("unavailable", True)
        turns.turn.release()
        async with turns.opening():
            assert turns.turn.locked()
        assert not turns.turn.locked()
