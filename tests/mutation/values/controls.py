"""Runs again without a mutation what failed with one: only a test that passes then has noticed the mutant.

A control imports the same modules anew and runs the same tests in the same order, so it meets whatever else a trial
does to a test: what earlier tests leave behind, another Python, or a machine that is too busy.
"""

from collections.abc import Sequence
from pathlib import Path

from tests.mutation.values.forked_trials import ForkedTrials, Sources, TrialReport


class Controls:
    """The controls of a campaign; what fails in one is added to `failing`, which no trial runs any more."""

    def __init__(self, trials: ForkedTrials, failing: set[str]) -> None:
        self._trials = trials
        self._failing = failing
        self._passed: set[tuple[tuple[str, ...], frozenset[str]]] = set()

    def killer(self, report: TrialReport, sources: Sources, places: Sequence[str], limit_s: float) -> str | None:
        """Return the test that noticed the mutation of *sources* when *places* ran; None where one fails without, too.

        Of a trial that did not end all of *places* run again; where that does not end either, nothing was noticed.
        """
        if not report.failed:
            return None
        again = report.ran or list(places)
        key = tuple(again), frozenset(sources)
        if key not in self._passed:
            control = self._trials.run(
                unmutated(sources), again, until_failure=False, limit_s=limit_s, leave_out=self._failing
            )
            if control.ended:
                self._failing.update(control.failed)
            if control.failed:
                return None
            self._passed.add(key)
        return report.failed[0] if report.ended else f"{places[0]} ({report.failed[0]})"


def unmutated(sources: Sources) -> dict[str, tuple[Path, bytes]]:
    """Return the modules of *sources* as they are."""
    return {name: (path, path.read_bytes()) for name, (path, _) in sources.items()}
