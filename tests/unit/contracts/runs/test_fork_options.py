"""What a fork is asked for, as its idempotency key remembers it."""

import pytest
from pydantic import ValidationError

from towpath_contracts.runs.forks import ForkChanges, ForkOptions
from towpath_contracts.tasks import SubmitTask


def test_what_an_earlier_release_did_not_know_changes_no_digest_of_a_request() -> None:
    """Else the repeat of a fork that was asked for before an upgrade is refused as another request."""
    before = {"schema_version", "from_step", "note", "script", "idempotency_key"}
    assert set(ForkOptions(from_step=1).model_dump(mode="json")) == before
    assert set(ForkOptions(from_step=1, fresh_budget=True).model_dump(mode="json")) == {*before, "fresh_budget"}


def test_the_changes_of_a_fork_are_held_to_the_bounds_of_a_task() -> None:
    most = {"user_message": 100_000, "model": 256}
    for name, length in most.items():
        assert ForkOptions.model_validate({"from_step": 1, "changes": {name: "x" * length}})
        for wrong in ("x" * (length + 1), ""):
            with pytest.raises(ValidationError, match=name):
                ForkOptions.model_validate({"from_step": 1, "changes": {name: wrong}})
    for name in ("max_steps", "max_tool_errors", "timeout_ms"):
        bounds = SubmitTask.model_json_schema()["properties"][name]["anyOf"][0]
        assert ForkChanges.model_json_schema()["properties"][name]["anyOf"][0] == bounds
