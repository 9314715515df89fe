"""Limits as the command line and the SDK take them: everything that is wrong is said before anything is asked."""

import asyncio

import pytest

from towpath import Agent, Budget, Network
from towpath.cli import main
from towpath.client.budgets import budget_of
from towpath.client.client import Client
from towpath.errors import DeclarationError, RefusedError
from towpath.tasks.task import task_of
from towpath_contracts.budgets import STEP_LIMITS, TIME_LIMITS


def test_limits_that_are_not_given_are_no_limits() -> None:
    assert budget_of({"tokens": 5, "usd": None, "on_soft": "gate"}) == Budget(tokens=5, on_soft="gate")


def test_an_unknown_word_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(RefusedError) as caught:
        budget_of({"token": 5})
    found = caught.value.problem
    assert found.code == "request_invalid" and found.errors[0].pointer == "/token"
    assert "tokens" in found.detail and "on_soft" in found.detail


@pytest.mark.parametrize("name", sorted(STEP_LIMITS))
def test_the_most_steps_stand_beside_a_budget(name: str) -> None:
    with pytest.raises(RefusedError, match="budget limits no steps: say max_steps beside it"):
        task_of("shop", "hello", {"budget": {"usd": 1, name: 20}})
    with pytest.raises(DeclarationError, match=f"takes no '{name}': steps are limited by max_steps="):
        Budget(usd=1, **{name: 20})


@pytest.mark.parametrize("name", sorted(TIME_LIMITS))
def test_the_time_of_a_run_stands_beside_its_budget(name: str) -> None:
    with pytest.raises(RefusedError, match="budget limits no time: say timeout_ms beside it, or in Python deadline"):
        task_of("shop", "hello", {"budget": {"usd": 1, name: "10m"}})
    with pytest.raises(DeclarationError, match=f"takes no '{name}': time is limited by deadline="):
        Budget(usd=1, **{name: "10m"})


def test_a_budget_is_taken_as_an_object_where_a_dict_is() -> None:
    budget = Budget(usd=0.5, on_soft="gate")
    as_dict = {"usd": 0.5, "on_soft": "gate"}
    assert task_of("shop", "hello", {"budget": budget}).budget == budget
    one, other = (
        Network("n", [Agent("a", budget=given, default=True, can_respond=True)]).to_spec()
        for given in (budget, as_dict)
    )
    assert one == other and one.agents[0].budget == budget
    assert Network("n", [Agent("a", default=True, can_respond=True)]).to_spec().agents[0].budget is None


def test_a_budget_and_limits_by_name_are_not_mixed() -> None:
    async def both() -> None:
        async with Client("http://127.0.0.1:9") as client:
            await client.budgets.set("caller", "ann", Budget(tokens=1), usd=1.0)

    with pytest.raises(RefusedError, match="not both"):
        asyncio.run(both())


def test_the_command_line_names_every_wrong_limit(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["budgets", "set", "caller", "anonymous", "--tokens", "-5", "--soft", "7", "-o", "table"])
    errors = capsys.readouterr().err
    assert code == 2 and errors.startswith("request_invalid")
    assert "/tokens: " in errors and "/soft: " in errors and "ValidationError" not in errors


def test_two_ways_to_follow_a_run_are_refused_with_what_to_leave_out(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["run", "sample", "hello", "--watch", "--wait", "3s"])
    errors = capsys.readouterr().err
    assert code == 2 and "Leave one out" in errors and "entry of errors" not in errors
