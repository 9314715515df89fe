"""The rows of the feature list (`rows.yaml`), their tests, and mutations that those tests have to notice.

    python -m tests.rows show [ROW…]      which tests a row has
    python -m tests.rows check            what the suite checks too, and which rows are still missing
    python -m tests.rows mutate [ROW…]    break the code of each row in a copy of this checkout; run the row's tests;
                                          --trusting: without first running them on the code as it is

A test belongs to a row by its name: `test_c4_…`, or `test_b2_b4_…` for two. `tests/rows.yaml` has what a name can't
say: whether the row is a pure rule, which its tests may hold without a server, and the mutations, which name a symbol
and code in it (tests/mutation): one of the row, and `further` ones that its tests once did not notice.
"""

import argparse
import ast
import functools
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from tests.mutation.mutations import Mutation, mutated_file
from tests.mutation.symbols import MutationError
from tests.mutation.trials import TrialResult, tried
from tests.support.places import ROOT

TABLE = ROOT / "tests" / "rows.yaml"
ROWS = (
    *(f"A{number}" for number in range(1, 17)),
    *(f"B{number}" for number in range(1, 19)),
    *(f"C{number}" for number in range(1, 15)),
    *(f"D{number}" for number in range(1, 14)),
    *(f"E{number}" for number in range(1, 12)),
    *(f"F{number}" for number in range(1, 10)),
)
"""Every row that has to be shown by now."""

ON_THE_PLATFORM = ("e2e", "integration")
"""Folders whose tests cross a process, as a row that is no pure rule needs one."""

_BEARS = re.compile(r"test_((?:[a-f]\d+_)+)")


class RowMutation(Mutation):
    """A mutation that breaks a row.

    Only *tests* are run to notice it, as parts of test ids; without any all of the row's tests are.
    """

    tests: tuple[str, ...] = ()


class Row(BaseModel):
    """What the table says of a row; *pure*: a rule of the run machine, held against the machine alone."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: Annotated[str, Field(min_length=1)]
    pure: bool = False
    mutation: RowMutation
    further: tuple[RowMutation, ...] = ()

    @property
    def mutations(self) -> tuple[RowMutation, ...]:
        """All of them, the row's own first."""
        return (self.mutation, *self.further)


@dataclass(frozen=True)
class Held:
    """A test function and the rows that its name bears."""

    file: Path
    name: str
    rows: tuple[str, ...]
    asynchronous: bool

    @property
    def place(self) -> str:
        """What pytest is given to run it."""
        return f"{self.file.relative_to(ROOT)}::{self.name}"

    @property
    def crosses(self) -> bool:
        """Whether it runs processes: by its folder, where pure tests of conformance to the list are no coroutines."""
        folder = self.file.relative_to(ROOT / "tests").parts[0]
        return folder in ON_THE_PLATFORM or (folder == "conformance" and self.asynchronous)


def table() -> Mapping[str, Row]:
    """Return the rows of the table; raises pydantic's ValidationError for one that is none."""
    return TypeAdapter(dict[str, Row]).validate_python(yaml.safe_load(TABLE.read_text("utf-8")))


@functools.cache
def tests() -> tuple[Held, ...]:
    """Return every test that bears a row, in the order of their files."""
    return tuple(test for file in sorted((ROOT / "tests").rglob("test_*.py")) for test in _in(file))


def _in(file: Path) -> Iterator[Held]:
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found = _BEARS.match(node.name)
            if found is not None:
                yield Held(
                    file,
                    node.name,
                    tuple(found[1].upper().rstrip("_").split("_")),
                    isinstance(node, ast.AsyncFunctionDef),
                )


def tests_of(row: str) -> tuple[Held, ...]:
    """Return the tests that are named for *row*."""
    return tuple(test for test in tests() if row in test.rows)


def faults(rows: Mapping[str, Row]) -> list[str]:
    """Say what is wrong with the table: rows without a test, mutations of code that isn't there, and so on."""
    found = [f"{test.place} bears {row}, which is no row" for test in tests() for row in test.rows if row not in ROWS]
    for name, row in rows.items():
        held = tests_of(name)
        if name not in ROWS:
            found.append(f"{name} is no row")
        elif not held:
            found.append(f"{name} has no test named for it")
        elif not row.pure and not any(test.crosses for test in held):
            found.append(f"{name} is no pure rule, and none of its tests runs a process")
        found += [f"{name}: {fault}" for one in row.mutations for fault in _mutation_faults(one, held)]
    return found


def _mutation_faults(mutation: RowMutation, held: Sequence[Held]) -> Iterator[str]:
    try:
        mutated_file(mutation)
    except MutationError as error:
        yield str(error)
    for part in mutation.tests:
        if not any(part in test.place for test in held):
            yield f"no test of it is called {part!r}"


def mutate(rows: Mapping[str, Row], *, trusting: bool = False) -> int:
    """Break each of *rows* in turn and say whether its tests notice; returns how many did not.

    They are run on the code as it is first, since tests that fail anyway notice nothing, unless *trusting*.
    """
    with tempfile.TemporaryDirectory(prefix="towpath-rows-") as folder:
        copy = Path(folder) / "checkout"
        _copy(copy)
        missed = 0
        for name, one in ((name, one) for name, row in rows.items() for one in row.mutations):
            result = _tried(copy, name, one, trusting=trusting)
            missed += result.verdict != "caught"
            why = f": {result.detail}" if result.verdict == "broken" else ""
            say(f"{name:4} {result.verdict:8} {one.symbol}{why}", flush=True)
    return missed


def _copy(to: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def _tried(copy: Path, name: str, mutation: RowMutation, *, trusting: bool) -> TrialResult:
    chosen = [
        test.place
        for test in tests_of(name)
        if not mutation.tests or any(part in test.place for part in mutation.tests)
    ]
    return tried(mutation, chosen, copy, trusting=trusting)


def say(text: str, *, flush: bool = False) -> None:
    """Write one line for whoever runs a command."""
    sys.stdout.write(f"{text}\n")
    if flush:
        sys.stdout.flush()


def main(words: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.rows", description="Rows, their tests and mutations.")
    parser.add_argument("command", choices=["show", "check", "mutate"])
    parser.add_argument("rows", nargs="*", type=str.upper, metavar="ROW")
    parser.add_argument("--trusting", action="store_true", help="the tests are known to pass as it is")
    said = parser.parse_intermixed_args(words)
    known = table()
    chosen = {name: row for name, row in known.items() if not said.rows or name in said.rows}
    if said.command == "mutate":
        return min(mutate(chosen, trusting=said.trusting), 1)
    if said.command == "show":
        for name, row in chosen.items():
            say(f"{name}: {row.what}{' (pure)' if row.pure else ''}")
            say("\n".join(f"  {test.place}" for test in tests_of(name)))
        return 0
    missing = [f"{row} is not in the table; it has {len(tests_of(row))} tests" for row in ROWS if row not in known]
    found = [*faults(known), *missing]
    say("\n".join(found) or f"{len(known)} rows, each with its tests and its mutations")
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main())
