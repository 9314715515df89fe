"""A script is no longer than what is read and written whole between messages of others."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from towpath_contracts.grant_proposals.proposals import GrantQuestion
from towpath_contracts.runs.forks import ForkOptions
from towpath_contracts.runs.script_size import MAX_SCRIPT_VALUES
from towpath_contracts.tasks import SubmitTask

REQUESTS: list[tuple[type[BaseModel], dict[str, Any]]] = [
    (SubmitTask, {"network": "n"}),
    (ForkOptions, {"from_step": 1}),
    (GrantQuestion, {"network": "n", "user_message": "m"}),
]


@pytest.mark.parametrize(("kind", "given"), REQUESTS, ids=lambda part: getattr(part, "__name__", ""))
def test_a_script_of_too_many_values_is_refused_by_a_name_of_the_limit(
    kind: type[BaseModel], given: dict[str, Any]
) -> None:
    text = 'with [, { and "' * 10_000
    entry = {"a": text, "b": [0] * (MAX_SCRIPT_VALUES - 4)}  # and the script, the entry, the text and the list
    kind.model_validate({**given, "script": [entry]})
    with pytest.raises(ValidationError, match="a script has at most 10000 values, and this one has 10001"):
        kind.model_validate({**given, "script": [{**entry, "c": 0}]})
