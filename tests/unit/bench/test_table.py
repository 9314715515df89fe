"""A comparison as Markdown."""

import dataclasses

import pytest

from comparison.figures import METRICS, Comparison, Summary
from comparison.table import cell, in_page, ratio_cell, text


def row(cost: float, rate: float) -> dict[str, float]:
    return {metric.key: rate if metric.is_rate else cost for metric in METRICS}


def in_process(cost: float, rate: float) -> dict[str, float]:
    return {key: value for key, value in row(cost, rate).items() if key != "cpu_ms_without_client"}


MEASURED = Comparison(
    date="2026-01-02",
    machine="one processor",
    quick=False,
    runs_together=200,
    rounds={
        "pure": {1: row(10, 1500), 2: row(12, 1700), 3: row(11, 1600)},
        "postgres": {1: in_process(1, 3000), 2: in_process(1, 3400), 3: in_process(1, 3200)},
    },
    missing={"restate": "could not be installed: npm: not found"},
    versions={"postgres": {"asyncpg": "0.32.0"}},
    cpu_share_of_others=0.04,
)


def test_a_cell_has_the_median_and_the_ends_where_they_differ() -> None:
    assert cell(Summary(1234.5, 1000, 2000), 0) == "1,234 [1,000 to 2,000]"
    assert cell(Summary(2.04, 2.01, 2.04), 1) == "2.0"
    assert cell(None, 1) == "-"


def test_a_ratio_that_is_not_established_has_a_tilde() -> None:
    assert ratio_cell(Summary(2, 1.5, 3)) == "2.00 [1.50 to 3.00]"
    assert ratio_cell(Summary(1.2, 1.1, 1.3)) == "~1.20 [1.10 to 1.30]"
    assert ratio_cell(None) == "-"


def test_the_text_has_figures_ratios_what_is_missing_and_the_circumstances() -> None:
    assert text(MEASURED).splitlines() == [
        "2026-01-02, one processor; 3 rounds. Other programs used up to 4% of the processors meanwhile.",
        "",
        (
            "|  | ms per step, alone | steps/s, 200 runs at once | CPU ms per step | CPU ms without the client"
            " | memory (PSS), MB |"
        ),
        "| --- | --- | --- | --- | --- | --- |",
        (
            "| Towpath, pure tool | 11.0 [10.0 to 12.0] | 1,600 [1,500 to 1,700] | 11.00 [10.00 to 12.00]"
            " | 11.00 [10.00 to 12.00] | 11 [10 to 12] |"
        ),
        "| bare Postgres, two commits a step | 1.0 | 3,200 [3,000 to 3,400] | 1.00 | - | 1 |",
        "",
        (
            "| Towpath's cost over that of | tool | ms per step, alone | steps/s, 200 runs at once | CPU ms per step"
            " | CPU ms without the client | memory (PSS), MB |"
        ),
        "| --- | --- | --- | --- | --- | --- | --- |",
        (
            "| bare Postgres, two commits a step | pure | 11.00 [10.00 to 12.00] | 2.00 | 11.00 [10.00 to 12.00] | -"
            " | 11.00 [10.00 to 12.00] |"
        ),
        "",
        "- not measured: Restate: could not be installed: npm: not found",
        "",
        "Peers: asyncpg 0.32.0.",
    ]


def test_a_quick_trial_says_that_it_is_none_of_the_figures() -> None:
    assert text(dataclasses.replace(MEASURED, quick=True)).startswith("**A quick trial")
    assert "quick" not in text(MEASURED)


def test_a_comparison_without_real_time_priority_says_so() -> None:
    assert "real-time priority" in text(dataclasses.replace(MEASURED, realtime=False))


def test_only_the_text_between_the_marks_of_a_page_is_replaced() -> None:
    page = "a\n<!-- figures begin -->\n\nold\n\n<!-- figures end -->\nb\n"
    assert in_page(page, "new") == page.replace("old", "new")
    assert in_page(in_page(page, "new"), "new") == in_page(page, "new")
    both = page + page.replace("figures", "scale")
    assert in_page(both, "new", "scale") == page + page.replace("figures", "scale").replace("old", "new")


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="figures begin"):
        in_page("a\n<!-- figures end -->", "new")
