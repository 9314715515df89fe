"""A kill at every crash point, and the mutants that prove that it would be noticed (catalogue 1 and 21).

What must hold: every point is hit; logs, ledgers and answers are those of runs left in peace; unknown outcomes only of
irreversible calls, between the claim and the sending of the outcome; and every mutant is betrayed.
"""

from tests.chaos.mutant_trials import trial
from tests.chaos.mutants import MUTANTS

from towpath_embedded.chaos.crash_cases import long_rounds, short_rounds
from towpath_embedded.chaos.points import points
from towpath_embedded.chaos.scenarios.catalogue import Figure, Scenario, ScenarioContext, ScenarioReport
from towpath_embedded.chaos.sweep import sweep


async def _points(context: ScenarioContext) -> ScenarioReport:
    """The long form hits every point at both passings with each class of tools; the short form hits each once."""
    found = points()
    context.notice(f"{len(found)} points")
    report = await sweep(context.folder, long_rounds(found) if context.long else short_rounds(found))
    figures = {name: _figure(value) for name, value in report.figures().items()}
    return ScenarioReport.of(figures, report.problems)


def _figure(value: object) -> Figure:
    return value if isinstance(value, int | float | str) else str(value)


async def _mutants(context: ScenarioContext) -> ScenarioReport:
    """Each mutant and, as the control, the service as it is in the same crash."""
    figures: dict[str, Figure] = {}
    problems: list[str] = []
    for name in MUTANTS:
        for mutated in (False, True):
            word = "mutant" if mutated else "control"
            found = await trial(name, context.folder / f"{word[0]}{len(figures)}", mutated=mutated)
            said = ", ".join(f"{figure} {count}" for figure, count in found.figures.items()) or "nothing"
            context.notice(f"{name}, {word}: {said} found")
            figures[f"{name}_{word}_findings"] = sum(found.figures.values())
            if not found.as_it_should:
                problems.append(f"{name}, {word}: {said} found")
    return ScenarioReport.of(figures, problems)


SCENARIOS = (
    Scenario(number=1, name="crash-points", summary="kill between every two lines that matter", run=_points),
    Scenario(number=21, name="mutants", summary="take one guard out at a time; each has to be missed", run=_mutants),
)
