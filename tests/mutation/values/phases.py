"""The order of a run: measure the tests, try values by modules, try what is left with all tests, check the tests."""

import importlib
import os
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.mutation.values.campaign import WHOLE_S, Campaign, Mutant, Verdicts
from tests.mutation.values.forked_trials import ForkedTrials, in_session
from tests.mutation.values.import_graph import ImportGraph, read_graph
from tests.mutation.values.inventory import Value
from tests.mutation.values.nearest_tests import READERS, UnitTests
from tests.mutation.values.results import Results

from towpath_fabric import garbage_collector

FIRST = ("towpath_engine", "towpath_contracts", "towpath_tas")
"""The packages that are tried first."""


class Phases:
    """A run over some values of the checkout *root*, whose results are added to those that there are."""

    def __init__(self, root: Path, results: Results) -> None:
        self._root = root
        self._results = results
        self._began = time.monotonic()
        self._ended = False

    def run(self, values: Sequence[Value], *, measure: bool, near: bool, far: bool) -> None:
        """Try *values* with the tests that read them, then with the nearest, then what is left with all unit tests."""
        graph = read_graph(self._root)

        def drive(session: pytest.Session) -> None:
            with garbage_collector.paused():
                _import_others(graph)
            trials = ForkedTrials(session, graph)
            if measure:
                self._measure(trials)
            campaign = self._campaign(trials, graph)
            done = self._read(campaign, values)
            if near:
                self._near(campaign, values, done)
            if far:
                self._far(campaign, values)
            self._check(campaign)
            self._ended = True

        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as scratch:
            in_session(drive, self._root, Path(scratch) / "tests")
        if not self._ended:
            raise RuntimeError("pytest ended before all was tried")

    def _campaign(self, trials: ForkedTrials, graph: ImportGraph) -> Campaign:
        tests = UnitTests(graph, self._results.seconds, self._root)
        known = dict(self._results.verdicts.noticed)
        return Campaign(trials, graph, tests, self._results.failing, known)

    def _measure(self, trials: ForkedTrials) -> None:
        report = trials.run({}, ["tests/unit"], until_failure=False, limit_s=WHOLE_S)
        if not report.ended:
            raise RuntimeError(f"all unit tests without a mutation: {report.failed[0]}")
        self._results.seconds, self._results.failing = report.seconds, set(report.failed)
        self._results.keep()
        self._say(f"{sum(report.seconds.values()):.0f} s of tests; {len(report.failed)} fail as it is")
        for test, why in report.why.items():
            self._say(f"{test} fails: {why}")

    def _read(self, campaign: Campaign, values: Sequence[Value]) -> dict[str, str]:
        """Try all with the tests that compare values with what is checked in or told to users; return what they notice.

        They are short and notice each value by a test of its own, so hundreds are mutated at once: of one field, and of
        one variable, one mutant at a time, and variables apart from the fields that they may bound.
        """
        found: dict[str, str] = {}
        for mutants in _rounds(values) if (self._root / READERS).exists() else ():
            self._results.verdicts.tried |= {mutant.name for mutant in mutants}
            for mutant, test in campaign.together(mutants, [READERS]):
                found[mutant.name] = test
                self._results.add(Verdicts(noticed={mutant.name: test}, tried={mutant.name}))
            self._say(f"{len(mutants)} at once with tests that read them: {len(found)} noticed so far")
        for mutant in (Mutant(value, code) for value in values for code in value.mutants):
            if mutant.name not in found and (test := campaign.alone(mutant)) is not None:  # two may hide each other
                found[mutant.name] = test
                self._results.add(Verdicts(noticed={mutant.name: test}, tried={mutant.name}))
        self._say(f"{len(found)} noticed by tests that read them")
        return found

    def _near(self, campaign: Campaign, values: Sequence[Value], done: Mapping[str, str]) -> None:
        modules: dict[str, list[Value]] = defaultdict(list)
        for value in values:
            if all(Mutant(value, code).name in done for code in value.mutants):
                names = [Mutant(value, code).name for code in value.mutants]
                self._results.add(Verdicts(noticed={name: done[name] for name in names}, tried=set(names)))
            else:
                modules[value.module].append(value)
        ordered = sorted(modules, key=lambda name: (_turn(name), name))
        for number, name in enumerate(ordered, 1):
            verdicts = campaign.module_verdicts(modules[name], done)
            self._results.add(verdicts, anew=modules[name])
            self._say(f"{number}/{len(ordered)} {name}: {len(verdicts.noticed)} of {len(verdicts.tried)} noticed")

    def _far(self, campaign: Campaign, values: Sequence[Value]) -> None:
        survivors = _first_survivors(values, self._results.verdicts)
        if not survivors:
            return
        self._say(f"{len(survivors)} at once with all unit tests")
        for mutant, test in campaign.together(survivors, ["tests/unit"]):
            self._results.add(Verdicts(noticed={mutant.name: test}, tried={mutant.name}))
            self._say(f"{mutant.name} noticed by {test}")

    def _check(self, campaign: Campaign) -> None:
        """Take back what was noticed by tests that are gone, or fail without a mutation where all is imported anew."""
        noticed = self._results.verdicts.noticed
        found = campaign.unreliable(list(noticed.values())) | self._results.failing
        wrong = {name for name, test in noticed.items() if test in found}
        self._results.add(Verdicts(tried=wrong))
        self._say(
            f"{len(found)} tests fail without a mutation, or are gone; {len(wrong)} mutants are to be tried again"
        )

    def _say(self, text: str) -> None:
        used = sum(os.times()[:4])
        sys.stderr.write(f"{time.monotonic() - self._began:6.0f} s, {used:5.0f} s of CPU: {text}\n")
        sys.stderr.flush()


def _turn(module: str) -> int:
    package = module.partition(".")[0]
    return FIRST.index(package) if package in FIRST else len(FIRST)


def _rounds(values: Sequence[Value]) -> list[list[Mutant]]:
    """Divide the mutants: in one round no two are of one variable or field, nor are there both variables and fields."""
    rounds: dict[tuple[bool, int], list[Mutant]] = defaultdict(list)
    taken: Counter[tuple[str, str]] = Counter()
    for value in values:
        for code in value.mutants:
            place = value.module, value.owner
            rounds[value.kind == "constant", taken[place]].append(Mutant(value, code))
            taken[place] += 1
    return [rounds[key] for key in sorted(rounds)]


def _first_survivors(values: Sequence[Value], verdicts: Verdicts) -> list[Mutant]:
    mutants = ([Mutant(value, code) for code in value.mutants] for value in values)
    return [survivors[0] for made in mutants if (survivors := [one for one in made if verdicts.survives(one)])]


def _import_others(graph: ImportGraph) -> None:
    """Import what the product needs of other packages, which no trial mutates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in sorted(graph.others):
            try:
                importlib.import_module(name)
            except ImportError:
                continue  # a member of a module, or an extra that is not installed
