"""The catalogue of fault scenarios, and which of them a command line chooses."""

import pytest
from tests.chaos.__main__ import choose_scenarios, main
from tests.chaos.scenarios.catalogue import catalogue

from towpath_contracts.problems.registry import ProblemError


def test_scenarios_are_chosen_by_name_by_all_and_by_privilege() -> None:
    plain = [scenario for scenario in catalogue() if not scenario.needs_privileges]
    privileged = [scenario for scenario in catalogue() if scenario.needs_privileges]
    assert plain
    assert privileged
    assert [scenario.name for scenario in choose_scenarios(["clock-skew"], privileged=False)] == ["clock-skew"]
    assert list(choose_scenarios(["all"], privileged=False)) == plain
    assert list(choose_scenarios([], privileged=True)) == privileged
    assert list(choose_scenarios(["all", "clock-skew"], privileged=True)) == [
        *choose_scenarios(["clock-skew"], privileged=False),
        *(scenario for scenario in plain if scenario.name != "clock-skew"),
        *privileged,
    ]


def test_a_name_of_no_scenario_is_a_problem() -> None:
    with pytest.raises(ProblemError) as caught:
        choose_scenarios(["no-such", "clock-skew", "nor-this"], privileged=False)
    assert [entry.pointer for entry in caught.value.problem.errors] == ["/scenario", "/scenario"]


def test_the_list_names_every_scenario_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    shown = capsys.readouterr().out
    for scenario in catalogue():
        assert shown.count(f'"{scenario.name}"') == 1
        assert scenario.summary in shown
