"""A process is killed between every two lines that matter, once each, and no run shows a trace of it.

The long form, every point at both passings with each class of tools: `python -m tests.chaos.crash_points.sweep --long`.
"""

from pathlib import Path

from tests.chaos.crash_points.cases import short_rounds
from tests.chaos.crash_points.points import list_points
from tests.chaos.crash_points.sweep import sweep
from tests.chaos.crash_points.tasks import CLASSES, OWN_TOOL


async def test_every_crash_point_is_hit_and_nothing_is_lost_doubled_or_different(folder: Path) -> None:
    found = list_points()
    report = await sweep(folder, short_rounds(found))
    figures = f"{report.figures()}\n" + "\n".join(report.problems)
    assert report.problems == [], figures
    assert {kill.point for kill in report.kills} == {point.name for point in found}, figures
    assert report.explained, "one worker was killed in an irreversible call on purpose\n" + figures
    assert {unknown.effect_class for unknown in report.explained} == {"irreversible"}, figures
    assert report.tools == {OWN_TOOL, *(f"crash.{name}" for name in CLASSES)}, figures
