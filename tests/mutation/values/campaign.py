"""Tries the mutants of all values: each with its nearest tests, and what these miss with all unit tests at once.

A test that fails with many mutants at once is run with ever fewer of them until one is left that it notices. Tests
that also fail without a mutation notice nothing: what failed is run without any before it counts (`controls.py`).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import NamedTuple

from tests.mutation.values.coded_groups import causes
from tests.mutation.values.controls import Controls
from tests.mutation.values.forked_trials import ForkedTrials, Sources, TrialReport, forked
from tests.mutation.values.import_graph import ImportGraph
from tests.mutation.values.inventory import Value, module_name, mutated_source
from tests.mutation.values.nearest_tests import UnitTests, users_of

START_S = 15.0
"""For the imports of a trial; its tests have four times what they take without a mutation. What hangs is noticed."""

UNKNOWN_S = 5.0
"""That a file of tests is taken to need which has not run whole yet."""

WHOLE_S = 3_600.0
"""For all unit tests in one process: ten times of what they take on a machine that does nothing else."""


class Mutant(NamedTuple):
    """A value with other code."""

    value: Value
    code: str

    @property
    def name(self) -> str:
        """What stands in the list, and in the file that results are kept in."""
        return f"{self.value.name}  {' '.join(self.value.code.split())} -> {self.code}"


@dataclass(kw_only=True)
class Verdicts:
    """By the names of mutants, the test that noticed each; what was tried and is not among them survived."""

    noticed: dict[str, str] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set)
    seconds: dict[str, float] = field(default_factory=dict)
    """That whole files of tests took."""
    failing: set[str] = field(default_factory=set)
    """Tests that fail without a mutation."""

    def survives(self, mutant: Mutant) -> bool:
        """Return whether *mutant* was tried and not noticed."""
        return mutant.name in self.tried and mutant.name not in self.noticed


@dataclass(frozen=True)
class Campaign:
    """All that a trial needs; `known` are tests that once noticed a mutant, which are tried first.

    `failing` are tests that fail without a mutation, which no trial runs; more of them are found on the way.
    """

    trials: ForkedTrials
    graph: ImportGraph
    tests: UnitTests
    failing: set[str]
    known: Mapping[str, str]

    @cached_property
    def _controls(self) -> Controls:
        return Controls(self.trials, self.failing)

    def module_verdicts(self, values: Sequence[Value], done: Mapping[str, str]) -> Verdicts:
        """Try the mutants of the *values* of one module, each with the tests nearest to it, but for those *done*.

        All of them at once first: a test that passes then notices none of them, or two that make up for each other.
        """
        users = users_of(values)
        places = {value.name: self.tests.of(value, users[value.name]) for value in values}
        module = values[0].module
        files = {place for chosen in places.values() for place in chosen}
        needed = self.graph.needed(module_name(self.tests.root / place, self.tests.root) for place in files)
        kept = needed - self.graph.dependents([module])
        limit_s = START_S + sum(len(value.mutants) for value in values) * self._limit_s(list(files))

        def all_of_it() -> dict[str, object]:
            self.trials.preload(name for name in kept if not name.startswith("tests"))
            verdicts = Verdicts()
            likely = self._likely(values, files) if len(values) > 1 else None
            for value in values:
                near = places[value.name]
                batches = [[place] for place in near] if likely is None else [_of_files(likely, near)]
                self._try_value(value, batches, done, verdicts)
            return {**asdict(verdicts), "tried": sorted(verdicts.tried), "failing": sorted(self.failing)}

        said = forked(all_of_it, limit_s=limit_s)
        if said is None:
            raise RuntimeError(f"the trials of {module} ended without a result")
        self.failing.update(said["failing"])
        return Verdicts(**{**said, "tried": set(said["tried"]), "failing": set(said["failing"])})

    def alone(self, mutant: Mutant) -> str | None:
        """Return the test that notices *mutant* by itself, of those that compare values and name this one."""
        return self._noticed(mutant, [[place] for place in self.tests.readers_of(mutant.value)], Verdicts())

    def _likely(self, values: Sequence[Value], files: Collection[str]) -> list[str] | None:
        """Return the tests that fail with all *values* mutated at once; None where they can't even be collected."""
        mutants = [Mutant(value, value.mutants[0]) for value in values]
        report = self.trials.run(
            self._sources(mutants),
            sorted(files),
            until_failure=False,
            limit_s=self._limit_s(sorted(files)),
            leave_out=self.failing,
        )
        return None if not report.ended or any("::" not in test for test in report.failed) else report.failed

    def _try_value(
        self, value: Value, batches: Sequence[Sequence[str]], done: Mapping[str, str], verdicts: Verdicts
    ) -> None:
        """Try the coarse mutant, and those of the edges only where a test notices that one."""
        first: list[list[str]] = []
        for code in value.mutants:
            mutant = Mutant(value, code)
            verdicts.tried.add(mutant.name)
            killer = done.get(mutant.name) or self._noticed(mutant, [*first, *batches], verdicts)
            if killer is None:
                return
            verdicts.noticed[mutant.name] = killer
            first = [[killer], [killer.partition("::")[0]]]  # who tests one edge tests the other beside it

    def _noticed(self, mutant: Mutant, batches: Sequence[Sequence[str]], verdicts: Verdicts) -> str | None:
        known = self.known.get(mutant.name)
        if known is not None and (self.tests.root / known.partition("::")[0]).exists():
            batches = [[known], *batches]
        for batch in batches:
            if not batch:
                continue
            sources, limit_s = self._sources([mutant]), self._limit_s(batch)
            report = self._trial(sources, batch, limit_s)
            while report.failed:
                known_before = len(self.failing)
                if (killer := self._controls.killer(report, sources, batch, limit_s)) is not None:
                    return killer
                if len(self.failing) == known_before:
                    break  # does not end, whatever is left out
                report = self._trial(sources, batch, limit_s)
            verdicts.seconds |= {place: took for place, took in report.seconds.items() if place in batch}
        return None

    def _trial(self, sources: Sources, batch: Sequence[str], limit_s: float) -> TrialReport:
        return self.trials.run(sources, batch, until_failure=True, limit_s=limit_s, leave_out=self.failing)

    def _limit_s(self, places: Sequence[str]) -> float:
        files = {place.partition("::")[0] for place in places}
        return START_S + 4 * sum(self.tests.seconds.get(file, UNKNOWN_S) for file in files)

    def _sources(self, mutants: Sequence[Mutant], others: Sequence[Mutant] = ()) -> Sources:
        """Return the modules with *mutants*, and those of *others*, which are imported anew as they are."""
        changes: dict[str, list[tuple[Value, str]]] = {one.value.module: [] for one in (*mutants, *others)}
        for mutant in mutants:
            changes[mutant.value.module].append((mutant.value, mutant.code))
        return {
            name: (self.graph.files[name], mutated_source(self.graph.files[name], made))
            for name, made in changes.items()
        }

    def together(self, mutants: Sequence[Mutant], places: Collection[str]) -> Iterator[tuple[Mutant, str]]:
        """Try *mutants*, of one value at most one, all at once; yields which one which test of *places* notices."""
        left = list(mutants)
        while (breaking := self._breaking(left, places)) is not None:
            yield breaking  # nothing can be imported with it, so it is tried without the others
            left.remove(breaking[0])
        failing = self._failing_with(left)
        yield from causes(left, sorted(failing(left, places)), failing)

    def _breaking(self, mutants: Sequence[Mutant], places: Collection[str]) -> tuple[Mutant, str] | None:
        """Return one of *mutants* with which tests can't be collected; None where they can, or two together can't."""

        def fails(some: Sequence[Mutant]) -> list[str]:
            sources = self._sources(some, mutants)
            return self.trials.run(
                sources,
                sorted(places),
                until_failure=False,
                limit_s=WHOLE_S,
                only_collect=True,
                leave_out=self.failing,
            ).failed

        some = list(mutants)
        if fails(some):
            self.failing.update(fails([]))
        said = fails(some)
        while said and len(some) > 1:
            middle = len(some) // 2
            said = fails(some[:middle])
            some = some[:middle] if said else some[middle:]
            said = said or fails(some)
        return (some[0], said[0]) if said else None

    def _failing_with(self, all_of_them: Sequence[Mutant]) -> Callable[[Sequence[Mutant], Collection[str]], set[str]]:
        """Return what runs tests with some of *all_of_them*; what fails with none is not run again."""

        def failing(some: Sequence[Mutant], places: Collection[str]) -> set[str]:
            report = self.trials.run(
                self._sources(some, all_of_them),
                sorted(places),
                until_failure=False,
                limit_s=WHOLE_S,
                leave_out=self.failing,
            )
            if not report.ended:
                raise RuntimeError(f"{len(places)} tests or folders with {len(some)} mutants: {report.failed[0]}")
            if not some:
                self.failing.update(report.failed)
            return set(report.failed)

        return failing

    def unreliable(self, tests: Sequence[str]) -> set[str]:
        """Return which of *tests* are gone, or fail with no mutation, where all modules are imported anew."""
        places = sorted({test for test in tests if " " not in test.partition("[")[0]})
        product = {name: path for name, path in self.graph.files.items() if not name.startswith("tests")}
        sources = {name: (path, path.read_bytes()) for name, path in product.items()}
        report = self.trials.run(sources, places, until_failure=False, limit_s=WHOLE_S)
        self.failing.update(report.failed)
        there = {*report.ran, *(test.partition("::")[0] for test in report.ran)}
        return {*report.failed, *(place for place in places if place not in there)}


def _of_files(tests: Sequence[str], files: Sequence[str]) -> list[str]:
    """Return those of *tests* that are in *files*, in the order of the files."""
    return [test for file in files for test in tests if test.partition("::")[0] == file]
