"""How many attacks by prompt win, and how many of the users' own tasks finish, on the running platform.

`uv run --with agentdojo==0.1.35 python bench/prompt_attacks.py [--policy FILE …] [--profile NAME …] [--no-grant]
[--declarations FILE|suggested] [--suites …] [--outcomes FILE]` plays AgentDojo's user tasks, its attacks in every task
that reads them, and adaptive ones (bench/attacks), each as a run with a scripted model that obeys.
docs/attacks-by-prompt.md has the figures and says what they mean. With `--outcomes` what the file already has is not
played again. `--in-process` asks the deciding code alone, which is faster: good for writing rules, but no run ends
early there. `--quick` plays some twenty cases both
ways, on the platform and in the deciding code alone, and ends with 1 if they differ in any call.

AgentDojo is no dependency: where it is not installed this says so and ends with 2.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attacks import dojo
from attacks.cases import FAMILIES, Case, all_cases
from attacks.figures import details_of, figures_of, text_of
from attacks.in_process import authorizer, in_process
from attacks.platform_runs import Made, Played, suite_platform
from towpath_fabric.profiles.policy_profiles import PROFILES

CAREFUL = Path(__file__).parents[1] / "examples" / "careful" / "policy.yaml"
QUICK_CASES = 24
BATCH = 100
"""Cases that are kept together."""


def say(line: str) -> None:
    """Tell people how far it is; results alone go to standard output."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def policies(given: argparse.Namespace) -> dict[str, str]:
    """Return the texts of the policies to measure, by what they are called."""
    after = "" if given.grants else " without grants"
    if given.declarations:
        after += f" with {Path(given.declarations).stem} declarations"
    texts = {_name(path) + after: path.read_text("utf-8") for path in given.policy}
    texts |= {name + after: f"profile: {name}\n" for name in given.profile}
    return texts or {_name(CAREFUL) + after: CAREFUL.read_text("utf-8")}


def _name(path: Path) -> str:
    return path.parent.name if path.stem == "policy" else path.stem


def spread(cases: Sequence[Case]) -> list[Case]:
    """Return some of the cases, of all families and suites."""
    kinds: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        kinds.setdefault((case.family, case.suite), []).append(case)
    each = QUICK_CASES // len(kinds) or 1
    return [case for group in kinds.values() for case in group[:: max(1, len(group) // each)][:each]]


class Outcomes:
    """What came of every case under every policy, in a file if there is one: a measurement goes on where it ended."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._kept: dict[str, dict[str, Any]] = {}
        if path is not None and path.exists():
            self._kept = json.loads(path.read_text("utf-8"))

    def missing(self, policy: str, cases: Sequence[Case]) -> list[Case]:
        """Return the cases that were not yet played under *policy*."""
        return [case for case in cases if case.key not in self._kept.get(policy, {})]

    def add(self, policy: str, played: Sequence[Played]) -> None:
        """Keep what came of some cases."""
        kept = self._kept.setdefault(policy, {})
        for one in played:
            kept[one.case.key] = [one.status, one.reason, [[made.status, made.rule] for made in one.calls]]
        if self._path is not None:
            self._path.write_text(json.dumps(self._kept) + "\n", "utf-8")

    def played(self, policy: str, cases: Sequence[Case]) -> list[Played]:
        """Return what came of *cases*."""
        found = []
        for case in cases:
            status, reason, calls = self._kept[policy][case.key]
            made = tuple(Made(call, *words) for call, words in zip(case.script, calls, strict=True))
            found.append(Played(case, status, reason, made))
        return found


async def measure(texts: dict[str, str], cases: Sequence[Case], given: argparse.Namespace) -> None:
    """Measure every policy on one platform, batch by batch, and print its figures."""
    kept = Outcomes(given.outcomes)
    if given.in_process:
        for name, text in texts.items():
            law = authorizer(text)
            kept.add(name, [in_process(case, law, grants=given.grants) for case in kept.missing(name, cases)])
    elif any(kept.missing(name, cases) for name in texts):
        async with suite_platform(cases) as served:
            say("the platform runs")
            for name, text in texts.items():
                await served.apply(text)
                while batch := kept.missing(name, cases)[:BATCH]:
                    kept.add(name, await served.play(batch, grants=given.grants))
                    say(f"{name}: {len(batch)} more cases")
    for name in texts:
        played = kept.played(name, cases)
        print(text_of(name, figures_of(played)), flush=True)
        if given.details:
            for line in details_of(played):
                print(f"  {line}")


async def compare(texts: dict[str, str], cases: Sequence[Case], *, grants: bool) -> int:
    """Play cases both ways; returns the exit code."""
    differences = []
    async with suite_platform(cases) as served:
        for name, text in texts.items():
            await served.apply(text)
            law = authorizer(text)
            for one in await served.play(cases, grants=grants):
                differences += [f"{name}: {x}" for x in differing(one, in_process(one.case, law, grants=grants))]
    print("\n".join(differences) or f"{len(cases)} cases, {len(texts)} policies: every call is decided alike")
    return 1 if differences else 0


def differing(one: Played, other: Played) -> list[str]:
    """Return the calls that one way makes and the other doesn't; what comes after the end of a run is not compared."""
    return [
        f"{one.case.key}: {made.call.tool} is {made.status} by {made.rule!r}, in process {decided.status}"
        for made, decided in zip(one.calls, other.calls, strict=True)
        if made.status and made.ran != decided.ran
    ]


def main() -> int:
    """Parse the arguments, play; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", type=Path, nargs="*", default=[], help="policies to measure; else careful")
    parser.add_argument("--profile", nargs="*", default=[], choices=PROFILES, help="profiles to measure")
    parser.add_argument(
        "--declarations", default="", help="a file like bench/attacks/declarations.yaml, or `suggested`"
    )
    parser.add_argument("--no-grant", dest="grants", action="store_false", help="tasks carry no grant")
    parser.add_argument("--suites", nargs="*", default=dojo.SUITES, choices=dojo.SUITES)
    parser.add_argument("--families", nargs="*", default=FAMILIES, choices=FAMILIES)
    parser.add_argument("--outcomes", type=Path, help="where what came of each case is kept, and read again")
    parser.add_argument("--details", action="store_true", help="name the tasks that do not finish, and what wins")
    parser.add_argument("--in-process", action="store_true", help="without a platform, by the deciding code alone")
    parser.add_argument("--quick", action="store_true", help="some cases, both ways")
    given = parser.parse_args()
    if find_spec("agentdojo") is None:
        print(f"agentdojo is not installed here: run `uv run --with agentdojo==0.1.35 python {sys.argv[0]}`")
        return 2
    os.environ[dojo.DECLARATIONS_VARIABLE] = given.declarations  # for the worker, too
    cases = all_cases(given.suites, given.families)
    say(f"{len(cases)} cases")
    if given.quick:
        return asyncio.run(compare(policies(given), spread(cases), grants=given.grants))
    asyncio.run(measure(policies(given), cases, given))
    return 0


if __name__ == "__main__":
    sys.exit(main())
