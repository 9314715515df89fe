"""Steps on a line of time: in order, inside the line, and never hidden by one long wait."""

from datetime import UTC, datetime, timedelta

import pytest

from towpath_console.drawings.timeline import LEAST, WIDTH, TimelineRow, timeline

BEGIN = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)


def rows(*seconds: tuple[float, float | None]) -> list[TimelineRow]:
    def at(second: float | None) -> str | None:
        return None if second is None else (BEGIN + timedelta(seconds=second)).isoformat()

    return [
        TimelineRow(number, "a", 0, "calls", str(at(start)), at(end), good=True, error="", attempt=1)
        for number, (start, end) in enumerate(seconds, 1)
    ]


def test_a_day_of_waiting_does_not_hide_the_other_steps() -> None:
    bars = timeline(rows((0, 1), (1, 86_401), (86_401, 86_402)))
    assert [bar.cut for bar in bars] == [False, True, False]
    assert all(bar.width > WIDTH / 20 for bar in bars)


def test_bars_follow_each_other_inside_the_line() -> None:
    bars = timeline(rows((0, 0.1), (0.1, 0.4), (0.4, 0.4), (0.4, 2)))
    assert [bar.x for bar in bars] == sorted(bar.x for bar in bars)
    assert all(bar.x >= 0 and bar.x + bar.width <= WIDTH + LEAST for bar in bars)
    assert min(bar.width for bar in bars) >= LEAST, "also a step of no time is seen"


def test_a_step_without_an_end_lasts_until_the_last_known_time() -> None:
    first, second = timeline(rows((0, None), (1, 2)))
    assert first.x == 0 and first.x + first.width >= second.x + second.width - LEAST


def test_nothing_known_is_drawn_all_the_same() -> None:
    assert timeline([]) == []


def test_a_long_wait_takes_at_most_a_quarter_of_what_the_steps_take() -> None:
    steps = [(second, second + 1) for second in range(40)]
    bars = timeline(rows(*steps, (40, 86_440)))
    assert bars[-1].cut and bars[-1].width == pytest.approx(WIDTH / 5, abs=0.1), "which is a fifth of it all"
