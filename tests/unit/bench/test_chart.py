"""A comparison as an SVG."""

import dataclasses
import re
from xml.etree import ElementTree as ET

from comparison.chart import BAR_WIDTH, SHOWN, svg
from comparison.figures import METRICS, Comparison

SVG = "{http://www.w3.org/2000/svg}"


def row(cost: float, rate: float) -> dict[str, float]:
    return {metric.key: rate if metric.is_rate else cost for metric in METRICS}


MEASURED = Comparison(
    date="2026-01-02",
    machine="one <fast> processor & more",
    quick=False,
    runs_together=200,
    rounds={"pure": {1: row(10, 100)}, "irreversible": {1: row(12, 80)}, "dbos": {1: row(4, 90)}},
)


def drawn(comparison: Comparison) -> ET.Element:
    return ET.fromstring(svg(comparison))


def words(comparison: Comparison) -> list[str]:
    return ["".join(part.itertext()) for part in drawn(comparison).iter(f"{SVG}text")]


def test_there_is_a_bar_for_each_figure_of_each_system_and_the_longest_is_full() -> None:
    bars = list(drawn(MEASURED).iter(f"{SVG}rect"))
    assert len(bars) == len(SHOWN) * 3
    widths = [float(bar.attrib["width"]) for bar in bars[:3]]
    assert widths == [round(BAR_WIDTH * 10 / 12, 1), BAR_WIDTH, round(BAR_WIDTH * 4 / 12, 1)]


def test_the_bars_of_towpath_stand_out() -> None:
    assert [bar.attrib["class"] for bar in drawn(MEASURED).iter(f"{SVG}rect")][:3] == ["ours", "ours", "theirs"]


def test_a_peer_has_the_ratios_of_each_measured_tool_and_a_tilde_where_they_are_not_established() -> None:
    found = [line for line in words(MEASURED) if line.endswith(" times")]
    assert found == ["2.5 / 3.0 times", "~0.90 / ~1.1 times", "2.5 / 3.0 times", "2.5 / 3.0 times"]


def test_date_and_machine_are_named() -> None:
    assert words(MEASURED)[-1] == "2026-01-02, one <fast> processor & more"


def test_a_quick_trial_says_that_it_is_no_measurement() -> None:
    assert words(dataclasses.replace(MEASURED, quick=True))[-1].startswith("Quick trial, no measurement.")


def test_colours_follow_the_theme_of_the_reader_and_nothing_is_drawn_behind() -> None:
    text = svg(MEASURED)
    light, dark = text.split("@media (prefers-color-scheme:dark)")
    for style in ("text{", ".ours{", ".theirs{", ".small{", ".open{", ".line{"):
        assert style in light
        assert style in dark
    assert re.search(r'fill="|style="', text) is None


def test_a_comparison_without_peers_or_without_anything_is_drawn_too() -> None:
    assert len(list(drawn(dataclasses.replace(MEASURED, rounds={})).iter(f"{SVG}rect"))) == 0
    alone = dataclasses.replace(MEASURED, rounds={"pure": {1: row(1, 1)}})
    assert not [line for line in words(alone) if line.endswith(" times")]
