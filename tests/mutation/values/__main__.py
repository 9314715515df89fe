"""`python -m tests.mutation.values [NAME…]`: tries whether the unit tests notice another default, or another cap.

A NAME is a package, or a part of the names of values. Every mutant has a line: the test that noticed it, or that it
survived, or why its value needs no test (`explained.yaml`). Ends with 1 where a survivor has no reason, or a reason no
value. Results are kept in `build/mutation/values.json`: a test that noticed a mutant once is tried first.

    --list        the values and their mutants; nothing is tried
    --kept        what earlier runs found; nothing is tried
    --survivors   only those that survived the last time, and those that are new
    --reading     only with the tests that compare values with what is checked in or told (tests/unit/limits)
    --nearest     without trying with all unit tests what the nearest ones do not notice
    --measure     first run all unit tests without mutations: what fails so, or takes long, is left out
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.mutation.values.campaign import Mutant, Verdicts
from tests.mutation.values.explanations import EXPLAINED, read_explanations, reasons, wrong_names
from tests.mutation.values.inventory import Value, inventory
from tests.mutation.values.phases import Phases
from tests.mutation.values.results import Results
from tests.support.places import ROOT


def main(words: Sequence[str] | None = None) -> int:
    """Try what is named, print the list, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation.values", description=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    for option in ("--list", "--kept", "--survivors", "--reading", "--nearest", "--measure"):
        parser.add_argument(option, action="store_true")
    parser.add_argument("--root", type=Path, default=ROOT)
    said = parser.parse_args(words)
    root: Path = said.root.resolve()
    everything = inventory(root)
    explanations = read_explanations(root / EXPLAINED.relative_to(ROOT))
    wrong = wrong_names(explanations, (value.name for value in everything))
    if wrong:
        sys.stderr.write(f"{EXPLAINED.name} has names of no value, or twice: {', '.join(wrong)}\n")
        return 1
    values = [value for value in everything if not said.names or _is_named(value, said.names)]
    if said.list:
        sys.stdout.writelines(f"{Mutant(value, code).name}\n" for value in values for code in value.mutants)
        return 0
    results = Results(root / "build" / "mutation" / "values.json")
    results.drop_outdated(root)
    if not said.kept:
        tried = [value for value in values if not (said.survivors and results.all_noticed(value))]
        Phases(root, results).run(
            tried, measure=said.measure, near=not said.reading, far=not (said.reading or said.nearest)
        )
    return _told(values, results.verdicts, reasons(explanations))


def _is_named(value: Value, names: Sequence[str]) -> bool:
    package = value.name.partition(":")[0].partition(".")[0]
    return any(
        name == package or (name in value.name and not name.isidentifier()) or name in value.words for name in names
    )


def _told(values: Sequence[Value], verdicts: Verdicts, why: Mapping[str, str]) -> int:
    """Print a line for each mutant and the sums, and return the exit code."""
    sums = dict.fromkeys(("mutants", "killed", "explained", "left"), 0)
    left: set[str] = set()
    needless: set[str] = set()
    for value in values:
        made = [Mutant(value, code) for code in value.mutants]
        if value.name in why and all(mutant.name in verdicts.noticed for mutant in made):
            needless.add(value.name)
        due = True  # the mutants of the edges only where the one before them was noticed
        for mutant in made:
            test = verdicts.noticed.get(mutant.name)
            if mutant.name not in verdicts.tried and not due:
                continue
            due = bool(test)
            sums["mutants"] += 1
            word = "killed" if test else "explained" if value.name in why else "left"
            sums[word] += 1
            otherwise = "SURVIVED" if mutant.name in verdicts.tried else "NOT TRIED"
            sys.stdout.write(f"{word:<10} {mutant.name}  [{test or why.get(value.name, otherwise)}]\n")
            if word == "left":
                left.add(value.name)
    sys.stdout.writelines(f"explained, but tests notice it: {name}\n" for name in sorted(needless))
    told = ", ".join(f"{count} {word}" for word, count in sums.items())
    sys.stdout.write(f"{len(values)} values, {told} (of {len(left)} values)\n")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
