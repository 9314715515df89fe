"""A service without one of its guards is detected by the crash that the guard is for.

One of each service is tried here; all, and the services as they are beside them: `python -m tests.chaos.mutant_trials`.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.chaos.mutant_trials import trial
from tests.chaos.mutants import MUTANTS
from tests.mutation.in_process import apply
from tests.mutation.mutations import Mutation
from tests.mutation.symbols import MutationError

from towpath_fabric.crash_points import VARIABLE

TRIED = {mutant.role: name for name, mutant in MUTANTS.items()}


async def test_a_mutant_of_each_service_is_detected_by_the_figure_of_its_fault(folder: Path) -> None:
    async with asyncio.TaskGroup() as trials:  # where one can't be tried, the platforms of the others stop too
        begun = [trials.create_task(trial(name, folder / name[:4])) for name in TRIED.values()]
    found = [one.result() for one in begun]
    assert {one.name: one.as_it_should for one in found} == dict.fromkeys(TRIED.values(), True), found


def launched(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOWPATH_")}
    command = [sys.executable, "-m", "tests.chaos.mutated_service", *words]
    return subprocess.run(command, env={**kept, **environment}, capture_output=True, text=True, check=False)


def test_a_mutant_runs_in_fault_tests_only(tmp_path: Path) -> None:
    alone = launched("no_fence_check", "towpath_tas")
    assert (alone.returncode, f"{VARIABLE} is not set" in alone.stderr) == (3, True)
    other = launched("no_fence_check", "towpath_orchestrator", **{VARIABLE: str(tmp_path)})
    assert (other.returncode, "not of towpath_orchestrator" in other.stderr) == (3, True)
    unknown = launched("no_such_guard", "towpath_tas", **{VARIABLE: str(tmp_path)})
    assert (unknown.returncode, "NAME is one of" in unknown.stderr) == (3, True)


@pytest.mark.parametrize(
    ("symbol", "old", "words"),
    [
        ("towpath_tas:no_such_function", "x", "towpath_tas has no no_such_function"),
        ("no_such_package_here:x", "x", "no_such_package_here is no package of the product"),
        ("towpath_tas:LedgerStore.no_such_method", "x", "towpath_tas has no LedgerStore.no_such_method"),
        ("towpath_tas:on_claim", "no_such_parameter", "nowhere, not once"),
    ],
)
def test_a_mutant_whose_target_is_gone_fails_loudly(symbol: str, old: str, words: str) -> None:
    with pytest.raises(MutationError, match=words):
        apply(Mutation(symbol=symbol, old=old, new="None"))
