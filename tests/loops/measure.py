"""Recall and precision of the loop detectors, by family and in all: `python -m tests.loops.measure [--seeds N]`."""

import argparse
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.loops.driver import end_of, found_in
from tests.loops.labels import LEAST_PRECISION, LEAST_RECALL, MEASURED_SEEDS, told_traces, traces
from tests.loops.mixed import mixed
from tests.loops.traces import Trace

from towpath_engine.reducers.loops.counters import LOOP_DETECTED


@dataclass
class Tally:
    """What the detectors made of some traces. A loop found before it is one is missed, and a false alarm besides."""

    right: int = 0
    missed: int = 0
    late: int = 0
    false: int = 0
    quiet: int = 0
    detectors: Counter[str] = field(default_factory=Counter)

    def observe(self, trace: Trace, step: int, detector: str) -> None:
        """Count one trace in which the first loop was found in *step*, 0 for none."""
        label = trace.label
        self.detectors[detector or "-"] += 1
        if not label.loops:
            self.false += bool(step)
            self.quiet += not step
        elif label.earliest <= step <= label.latest:
            self.right += 1
        else:
            self.missed += 1
            self.late += step > label.latest
            self.false += 0 < step < label.earliest

    def add(self, other: "Tally") -> None:
        self.right += other.right
        self.missed += other.missed
        self.late += other.late
        self.false += other.false
        self.quiet += other.quiet

    @property
    def recall(self) -> float:
        wanted = self.right + self.missed
        return self.right / wanted if wanted else 1.0

    @property
    def precision(self) -> float:
        alarms = self.right + self.false
        return self.right / alarms if alarms else 1.0


def measured(chosen: Iterable[Trace], *, restarts: bool) -> dict[str, Tally]:
    """Drive the traces; returns one tally for each family."""
    tallies: dict[str, Tally] = {}
    for trace in chosen:
        tallies.setdefault(trace.family, Tally()).observe(trace, *found_in(trace, restarts=restarts))
    return tallies


def in_all(tallies: dict[str, Tally]) -> Tally:
    """Sum the tallies up."""
    whole = Tally()
    for tally in tallies.values():
        whole.add(tally)
    return whole


def _line(name: str, tally: Tally) -> str:
    by = ", ".join(f"{detector} {count}" for detector, count in tally.detectors.most_common())
    counts = f"right {tally.right:5} missed {tally.missed:4} (late {tally.late:4})"
    counts += f" false {tally.false:4} quiet {tally.quiet:5}"
    return f"{name:38} recall {tally.recall:5.3f} precision {tally.precision:5.3f}  {counts}  {by}"


def _report(title: str, chosen: list[Trace], *, restarts: bool) -> bool:
    tallies = measured(chosen, restarts=restarts)
    whole = in_all(tallies)
    print(f"\n{title}, {'with restarts in mid-loop' if restarts else 'without restarts'}: {len(chosen)} traces")  # noqa: T201
    for name, tally in tallies.items():
        print(_line(name, tally))  # noqa: T201 - this is what the command is for
    print(_line("in all", whole))  # noqa: T201 - this is what the command is for
    return whole.recall >= LEAST_RECALL and whole.precision >= LEAST_PRECISION


def _report_ends(chosen: list[Trace], *, restarts: bool) -> bool:
    """Print which runs that a note is right for were ended by a detector; returns whether none was."""
    ended = Counter(trace.family for trace in chosen if end_of(trace, restarts=restarts)[1] == LOOP_DETECTED)
    print(f"\ntold of and not to be ended, {'with' if restarts else 'without'} restarts: {len(chosen)} traces")  # noqa: T201
    for name in sorted({trace.family for trace in chosen}):
        print(f"{name:38} ended {ended[name]:5}")  # noqa: T201 - this is what the command is for
    return not ended


def main() -> int:
    """Print the tables; 1 where a figure is below its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=len(MEASURED_SEEDS), help="seeds of each family")
    wanted = parser.parse_args().seeds
    seeds = range(MEASURED_SEEDS.start, MEASURED_SEEDS.start + wanted)
    tables = {
        "families": traces(seeds),
        "put together": mixed(5 * wanted),
    }
    held = [_report(title, chosen, restarts=again) for title, chosen in tables.items() for again in (False, True)]
    held += [_report_ends(told_traces(seeds), restarts=again) for again in (False, True)]
    return 0 if all(held) else 1


if __name__ == "__main__":
    raise SystemExit(main())
