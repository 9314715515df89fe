"""A process is killed between every two lines that matter, once each, and no run shows a trace of it.

The long form, every point at both passings with each class of tools: `python -m towpath_embedded.chaos.sweep --long`.
"""

from pathlib import Path

from towpath_embedded.chaos.crash_cases import short_rounds
from towpath_embedded.chaos.crash_runs import CLASSES, OWN_TOOL
from towpath_embedded.chaos.points import points
from towpath_embedded.chaos.sweep import sweep


async def test_every_crash_point_is_hit_and_nothing_is_lost_doubled_or_different(folder: Path) -> None:
    found = points()
    report = await sweep(folder, short_rounds(found))
    figures = f"{report.figures()}\n" + "\n".join(report.problems)
    assert report.problems == [], figures
    assert {kill.point for kill in report.kills} == {point.name for point in found}, figures
    assert report.explained, "one worker was killed in an irreversible call on purpose\n" + figures
    assert {unknown.effect_class for unknown in report.explained} == {"irreversible"}, figures
    assert report.tools == {OWN_TOOL, *(f"crash.{name}" for name in CLASSES)}, figures
