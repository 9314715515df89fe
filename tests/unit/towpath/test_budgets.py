"""Limits as the command line and the SDK take them: everything that is wrong is said before anything is asked."""

import asyncio

import pytest

from towpath.cli import main
from towpath.client.budgets import budget_of
from towpath.client.client import Client
from towpath.errors import RefusedError
from towpath_contracts.budgets import Budget


def test_limits_that_are_not_given_are_no_limits() -> None:
    assert budget_of({"tokens": 5, "usd": None, "on_soft": "gate"}) == Budget(tokens=5, on_soft="gate")


def test_an_unknown_word_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(RefusedError) as caught:
        budget_of({"token": 5})
    found = caught.value.problem
    assert found.code == "request_invalid" and found.errors[0].pointer == "/token"
    assert "tokens" in found.detail and "on_soft" in found.detail


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
