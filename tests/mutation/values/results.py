"""What was found the last times, kept in a file: what tests take, which fail as it is, and which noticed what."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.mutation.values.campaign import Mutant, Verdicts
from tests.mutation.values.inventory import Value


class Results:
    """The results of all runs; they are written after every step, so a run that is cut off has not run in vain."""

    def __init__(self, file: Path) -> None:
        self._file = file
        held: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.exists() else {}
        self.seconds: dict[str, float] = held.get("seconds", {})
        self.failing: set[str] = set(held.get("failing", []))
        self.verdicts = Verdicts(noticed=held.get("noticed", {}), tried=set(held.get("tried", [])))

    def all_noticed(self, value: Value) -> bool:
        """Return whether tests noticed every mutant of *value*."""
        return all(Mutant(value, code).name in self.verdicts.noticed for code in value.mutants)

    def drop_outdated(self, root: Path) -> None:
        """Take back what was noticed by tests that are gone from the checkout *root*, or fail without a mutation."""
        for name, test in list(self.verdicts.noticed.items()):
            file, *within = test.partition(" (")[0].partition("[")[0].split("::")
            held = (root / file).read_text("utf-8") if (root / file).is_file() else None
            if test in self.failing or held is None or not all(name in held for name in within[:1]):
                del self.verdicts.noticed[name]

    def add(self, verdicts: Verdicts, anew: Iterable[Value] = ()) -> None:
        """Keep new verdicts in the place of older ones of the same mutants, and of all mutants of the values *anew*."""
        for name in {*verdicts.tried, *(Mutant(value, code).name for value in anew for code in value.mutants)}:
            self.verdicts.noticed.pop(name, None)
            self.verdicts.tried.discard(name)
        self.verdicts.tried |= verdicts.tried
        self.verdicts.noticed |= verdicts.noticed
        self.seconds |= verdicts.seconds
        self.failing |= verdicts.failing
        self.keep()

    def keep(self) -> None:
        """Write all of it to the file."""
        held = {
            "seconds": self.seconds,
            "failing": sorted(self.failing),
            "noticed": self.verdicts.noticed,
            "tried": sorted(self.verdicts.tried),
        }
        self._file.parent.mkdir(parents=True, exist_ok=True)
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(held, indent=1), "utf-8")
        new.replace(self._file)
