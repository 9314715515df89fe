"""Medians and ratios of a comparison."""

import pytest

from comparison.figures import METRICS, Comparison, Summary, figures_of, is_established, ratios, summaries, summary
from comparison.systems import PEERS, TOWPATH

MEASURED = {
    "alone": {"ms_per_step_p50": 12.5},
    "together": {"steps_per_s": 300.0, "cpu_ms_per_step": 4.5, "cpu_ms_per_step_without_client": 4.25},
    "memory": {"pss_mb": 512.0},
}


def figures(cost: float, rate: float) -> dict[str, float]:
    """Return figures that all cost the same."""
    return {metric.key: rate if metric.is_rate else cost for metric in METRICS}


def comparison(rounds: dict[str, dict[int, dict[str, float]]]) -> Comparison:
    return Comparison(date="2026-01-02", machine="one", quick=False, runs_together=200, rounds=rounds)


def test_every_figure_is_read_from_a_measurement() -> None:
    assert figures_of("restate", MEASURED) == {
        "alone_ms": 12.5,
        "steps_per_s": 300.0,
        "cpu_ms": 4.5,
        "cpu_ms_without_client": 4.25,
        "memory_mb": 512.0,
    }


@pytest.mark.parametrize("system", [*TOWPATH, *PEERS])
def test_a_system_in_one_process_with_its_client_has_no_figure_without_it(system: str) -> None:
    in_process = system in {"postgres", "langgraph", "dbos"}
    assert ("cpu_ms_without_client" in figures_of(system, MEASURED)) is not in_process


def test_a_summary_has_the_median_and_both_ends() -> None:
    assert summary([3.0, 1.0, 8.0]) == (3.0, 1.0, 8.0)
    assert summary([4.0, 2.0]) == (3.0, 2.0, 4.0)


def test_systems_stand_in_one_order_and_only_where_they_were_measured() -> None:
    found = summaries(comparison({"dbos": {1: figures(1, 1)}, "pure": {1: figures(2, 2), 2: figures(4, 1)}}))
    assert list(found) == ["pure", "dbos"]
    assert found["pure"]["cpu_ms"] == Summary(3, 2, 4)


def test_a_ratio_is_of_cost_so_a_rate_is_turned_round() -> None:
    found = ratios(comparison({"pure": {1: figures(6, 100)}, "dbos": {1: figures(3, 400)}}))["pure", "dbos"]
    assert {key: ratio.median for key, ratio in found.items()} == {
        "alone_ms": 2,
        "steps_per_s": 4,
        "cpu_ms": 2,
        "cpu_ms_without_client": 2,
        "memory_mb": 2,
    }


def test_a_ratio_is_made_within_each_round() -> None:
    """The second round was five times as slow for both: the ratio is the same, and no mixture of rounds is made."""
    found = ratios(
        comparison({"pure": {1: figures(2, 1), 2: figures(10, 1)}, "dbos": {1: figures(1, 1), 2: figures(5, 1)}})
    )
    assert found["pure", "dbos"]["alone_ms"] == (2, 2, 2)


def test_a_round_that_a_peer_missed_gives_no_ratio() -> None:
    found = ratios(comparison({"pure": {1: figures(2, 1), 2: figures(9, 1)}, "dbos": {1: figures(1, 1)}}))
    assert found["pure", "dbos"]["cpu_ms"] == (2, 2, 2)
    assert ratios(comparison({"pure": {2: figures(9, 1)}, "dbos": {1: figures(1, 1)}})) == {}


@pytest.mark.parametrize(
    ("ratio", "established"),
    [
        (Summary(1.5, 1.2, 1.9), True),
        (Summary(1.49, 1.4, 1.6), False),
        (Summary(2.0, 0.9, 3.0), False),
        (Summary(0.5, 0.4, 0.9), True),
        (Summary(0.7, 0.6, 0.8), False),
        (Summary(0.5, 0.4, 1.1), False),
    ],
)
def test_a_ratio_is_established_when_it_is_far_from_one_and_on_one_side_in_every_round(
    ratio: Summary, established: bool
) -> None:
    assert is_established(ratio) is established
