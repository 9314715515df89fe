"""Calls that a decision proposes: so many may run together, and no more are looked at."""

import pytest
from pydantic import ValidationError

from towpath_contracts.decisions.decision import MAX_CALLS_PER_DECISION, UseToolDetails


@pytest.mark.parametrize("call", [{"tool_name": "a"}, {}, 0])
def test_of_too_many_calls_their_number_is_told_and_none_is_looked_at(call: object) -> None:
    for many in (MAX_CALLS_PER_DECISION + 1, 200_000):
        with pytest.raises(ValidationError) as found:
            UseToolDetails.model_validate({"calls": [call] * many})
        (fault,) = found.value.errors(include_url=False, include_input=False)
        at_most = f"Tuple should have at most {MAX_CALLS_PER_DECISION} items after validation, not {many}"
        assert (fault["loc"], fault["type"], fault["msg"]) == (("calls",), "too_long", at_most)


def test_as_many_calls_as_may_run_together_are_read() -> None:
    calls = [{"tool_name": f"t{place}"} for place in range(MAX_CALLS_PER_DECISION)]
    assert [one.tool_name for one in UseToolDetails.model_validate({"calls": calls}).proposals()] == [
        one["tool_name"] for one in calls
    ]
