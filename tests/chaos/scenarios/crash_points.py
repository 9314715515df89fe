"""A kill at every crash point.

What must hold: every point is hit; logs, ledgers and answers are those of runs left in peace; unknown outcomes only of
irreversible calls, between the claim and the sending of the outcome.
"""

from tests.chaos.crash_points.cases import long_rounds, short_rounds
from tests.chaos.crash_points.points import list_points
from tests.chaos.crash_points.sweep import sweep
from tests.chaos.scenarios.catalogue import Figure, Scenario, ScenarioContext, ScenarioReport


async def _points(context: ScenarioContext) -> ScenarioReport:
    """The long form hits every point at both passings with each class of tools; the short form hits each once."""
    found = list_points()
    context.notice(f"{len(found)} points")
    report = await sweep(context.folder, long_rounds(found) if context.long else short_rounds(found))
    figures = {name: _figure(value) for name, value in report.figures().items()}
    return ScenarioReport.of(figures, report.problems)


def _figure(value: object) -> Figure:
    return value if isinstance(value, int | float | str) else str(value)


SCENARIOS = (Scenario(number=1, name="crash-points", summary="kill between every two lines that matter", run=_points),)
