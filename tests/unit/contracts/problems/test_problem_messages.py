"""What a dead letter says of a message that can't be read: where and why, and nothing of what the message holds."""

import pytest
from pydantic import ValidationError

from towpath_contracts.facts import fact_adapter
from towpath_contracts.problems.input_faults import describe_validation_error
from towpath_contracts.problems.registry import RETRYABLE_CODES, problem
from towpath_contracts.tools.calls import ToolRequest


def refused(text: str) -> str:
    with pytest.raises(ValidationError) as caught:
        ToolRequest.model_validate_json(text)
    return describe_validation_error(caught.value)


def test_the_first_problems_are_named_and_the_others_counted() -> None:
    found = refused('{"schema_version": 1, "execution_id": 7}')
    assert found.startswith("execution_id: ") and "run_id: Field required" in found
    assert found.endswith("more)") and len(found) < 600


@pytest.mark.parametrize(
    "text", ['{"execution_id": "sk-secret-1"}', '"sk-secret-1"', '{"schema_version": "sk-secret-1"}']
)
def test_no_value_of_the_message_is_repeated(text: str) -> None:
    assert "sk-secret-1" not in refused(text)


def test_what_is_no_json_or_of_no_known_kind_is_not_quoted() -> None:
    for text in ('{"type": "sk-secret-1"}', "sk-secret-1", '{"type": "tool.finished", "status": "sk-secret-1"}'):
        with pytest.raises(ValidationError) as caught:
            fact_adapter.validate_json(text)
        assert "sk-secret-1" not in describe_validation_error(caught.value)


def test_a_problem_is_worth_another_try_only_where_its_code_says_so() -> None:
    """Clients repeat these by themselves: whatever else was refused would be sent again and again."""
    shares = {"key_share_full", "project_share_full", "keyless_share_full"}
    assert {"unavailable", "overloaded", "timeout", "quota_exceeded", *shares} == RETRYABLE_CODES
    assert problem("unavailable", "x").retryable and not problem("request_invalid", "x").retryable
