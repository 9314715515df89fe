"""Charts of the last hour: states as they were, sums as what was added, gaps where nobody knew."""

from itertools import pairwise
from typing import Any

from tests.support.console.recorded_api import RecordedApi, asked_of, drawn

from towpath_console.pages.metrics_view import added, chart, metrics_view


def sample(number: int, **more: Any) -> dict[str, Any]:
    at = f"2026-11-26T14:{number // 4 % 60:02}:00Z"
    return {"at": at, "waits": 0, "in_flight": 1, "gates": 2, "model_calls": 0, "tokens": 0, "usd": 0.0, **more}


def test_what_was_added_begins_anew_with_each_day_and_a_gap_costs_nothing() -> None:
    assert added([5, 8, None, 9, 2, 2]) == [None, 3, None, 1, 2, 0]


def test_an_hour_has_at_most_sixty_bars_and_keeps_its_peak() -> None:
    samples = [sample(number, waits=99 if number == 100 else 1, tokens=number) for number in range(240)]
    waits = chart("waits", "Waits", samples, is_state=True)
    assert (len(waits.bars), waits.last, waits.most) == (60, 1, 99)
    assert all(bar.x + bar.width < after.x for bar, after in pairwise(waits.bars)), "each stands apart"
    tokens = chart("tokens", "Tokens", samples, is_state=False)
    assert (tokens.total, tokens.most) == (239, 1)


def test_a_few_samples_are_thin_bars_at_the_right_where_the_newest_stand() -> None:
    few = chart("waits", "Waits", [sample(number, waits=1) for number in range(3)], is_state=True)
    assert len(few.bars) == 3
    assert all(100 / 30 * 0.7 < bar.width < 100 / 30 for bar in few.bars) and few.bars[0].x > 90
    many = chart("waits", "Waits", [sample(number, waits=1) for number in range(31)], is_state=True)
    assert many.bars[0].x < 1


async def test_the_page_says_where_metrics_are_also_before_the_first_sample() -> None:
    answer = {"every_s": 15.0, "samples": [], "refused": None}
    html = drawn(await metrics_view(asked_of(RecordedApi(**{"/v1/metrics/samples": answer}))))
    assert "no sample yet" in html and "/metrics" in html and "refused" not in html
    answer = {"every_s": 15.0, "samples": [sample(0, usd=1.0), sample(1, usd=1.5, gates=None)], "refused": 7}
    html = drawn(await metrics_view(asked_of(RecordedApi(**{"/v1/metrics/samples": answer}))))
    assert "$0.50" in html and "unknown" in html and "7 requests were refused" in html
