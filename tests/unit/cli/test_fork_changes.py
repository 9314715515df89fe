"""`towpath runs fork --set KEY=VALUE`: what a pair becomes."""

import pytest

from towpath.cli.runs.stored_run_commands import fork_changes
from towpath_contracts.problems.registry import ProblemError


def test_pairs_become_the_changes_of_the_task() -> None:
    given = ("model=openai:x", "message=12", "max_steps=20", "budget.usd=0.5", "budget.on_soft=gate")
    assert fork_changes(given) == {
        "model": "openai:x",
        "user_message": "12",
        "max_steps": 20,
        "budget": {"usd": 0.5, "on_soft": "gate"},
    }
    assert fork_changes(()) is None
    assert fork_changes(("message=a=b",)) == {"user_message": "a=b"}


@pytest.mark.parametrize("given", ["model", "=x", "budget.=1", ".usd=1"])
def test_what_is_no_pair_is_refused(given: str) -> None:
    with pytest.raises(ProblemError, match="KEY=VALUE"):
        fork_changes((given,))


def test_a_value_has_no_parts() -> None:
    with pytest.raises(ProblemError, match="budget"):
        fork_changes(("budget=1", "budget.usd=1"))
