"""Tries the mutants of all values: each with its nearest tests, and what these miss with all unit tests at once.

A test that fails with many mutants at once is run with ever fewer of them until one is left that it notices. Tests
that also fail without a mutation notice nothing: at the end every test that noticed something runs without any.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.mutation.values.forked_trials import ForkedTrials, Sources, forked
from tests.mutation.values.import_graph import ImportGraph
from tests.mutation.values.inventory import Value, module_name, mutated_source
from tests.mutation.values.nearest_tests import UnitTests, users_of

START_S = 15.0
"""For the imports of a trial; its tests have four times what they take without a mutation. What hangs is noticed."""

WHOLE_S = 1_200.0
"""For all unit tests in one process."""


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

    def survives(self, mutant: Mutant) -> bool:
        """Return whether *mutant* was tried and not noticed."""
        return mutant.name in self.tried and mutant.name not in self.noticed


@dataclass(frozen=True)
class Campaign:
    """All that a trial needs; `known` are tests that once noticed a mutant, which are tried first."""

    trials: ForkedTrials
    graph: ImportGraph
    tests: UnitTests
    failing: frozenset[str]
    known: Mapping[str, str]

    def module_verdicts(self, values: Sequence[Value]) -> Verdicts:
        """Try the mutants of the *values* of one module, each with the tests nearest to it."""
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
            for value in values:
                self._try_value(value, places[value.name], verdicts)
            return {"noticed": verdicts.noticed, "tried": sorted(verdicts.tried)}

        said = forked(all_of_it, limit_s=limit_s)
        if said is None:
            raise RuntimeError(f"the trials of {module} ended without a result")
        return Verdicts(noticed=dict(said["noticed"]), tried=set(said["tried"]))  # type: ignore[call-overload]

    def _try_value(self, value: Value, places: Sequence[str], verdicts: Verdicts) -> None:
        """Try the coarse mutant, and those of the edges only where a test notices that one."""
        first: list[str] = []
        for code in value.mutants:
            mutant = Mutant(value, code)
            verdicts.tried.add(mutant.name)
            killer = self._noticed(mutant, [*first, *places])
            if killer is None:
                return
            verdicts.noticed[mutant.name] = killer
            first = [killer]

    def _noticed(self, mutant: Mutant, places: Sequence[str]) -> str | None:
        known = self.known.get(mutant.name)
        if known is not None and (self.tests.root / known.partition("::")[0]).exists():
            places = [known, *places]
        for place in dict.fromkeys(places):
            report = self.trials.run(
                self._sources([mutant]), [place], until_failure=True, limit_s=self._limit_s([place])
            )
            for test in report.failed:
                if test not in self.failing:
                    return test if report.ended else f"{place} ({test})"
        return None

    def _limit_s(self, places: Sequence[str]) -> float:
        return START_S + 4 * sum(self.tests.seconds.get(place.partition("::")[0], 1.0) for place in places)

    def _sources(self, mutants: Sequence[Mutant]) -> Sources:
        changes: dict[str, list[tuple[Value, str]]] = defaultdict(list)
        for mutant in mutants:
            changes[mutant.value.module].append((mutant.value, mutant.code))
        return {
            name: (self.graph.files[name], mutated_source(self.graph.files[name], made))
            for name, made in changes.items()
        }

    def far_verdicts(self, mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, str]]:
        """Try *mutants*, of one value at most one, with all unit tests; yields which one which test notices."""
        left = list(mutants)
        report = self.trials.run(self._sources(left), ["tests/unit"], until_failure=False, limit_s=WHOLE_S)
        for test in report.failed:
            if test in self.failing or "::" not in test:
                continue
            for mutant in self._noticed_by(test, left):
                left.remove(mutant)
                yield mutant, test

    def _noticed_by(self, test: str, mutants: Sequence[Mutant]) -> Iterator[Mutant]:
        """Return which of *mutants* a test notices alone; none where it takes two of them together."""
        needed = self.graph.needed([module_name(self.tests.root / test.partition("::")[0], self.tests.root)])
        relevant = [mutant for mutant in mutants if mutant.value.module in needed]
        if relevant and self._fails(test, relevant):
            yield from self._narrowed(test, relevant)

    def _narrowed(self, test: str, mutants: Sequence[Mutant]) -> Iterator[Mutant]:
        if len(mutants) == 1:
            yield mutants[0]
            return
        middle = len(mutants) // 2
        for half in (mutants[:middle], mutants[middle:]):
            if self._fails(test, half):
                yield from self._narrowed(test, half)

    def _fails(self, test: str, mutants: Sequence[Mutant]) -> bool:
        return bool(
            self.trials.run(self._sources(mutants), [test], until_failure=True, limit_s=self._limit_s([test])).failed
        )

    def unreliable(self, tests: Sequence[str]) -> list[str]:
        """Return which of *tests* fail though nothing is mutated but that all modules are imported anew."""
        places = sorted({test for test in tests if " " not in test.partition("[")[0]})
        sources = {
            name: (path, path.read_bytes()) for name, path in self.graph.files.items() if "tests" not in name[:5]
        }
        return self.trials.run(sources, places, until_failure=False, limit_s=WHOLE_S).failed if places else []
