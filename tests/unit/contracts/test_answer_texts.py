"""An answer that is a message and no more is shown as its text; every other answer stays as it is."""

from typing import Any

import pytest

from towpath_contracts.text import unwrap_message


@pytest.mark.parametrize(
    "answer", [{"message": 3}, {"message": {"message": "x"}}, {"message": "x", "more": 1}, {}, ["message"], "x", None]
)
def test_an_answer_that_is_more_or_less_than_a_message_stays_as_it_is(answer: Any) -> None:
    assert unwrap_message(answer) is answer


def test_a_message_is_unwrapped() -> None:
    assert unwrap_message({"message": "It is done."}) == "It is done."
