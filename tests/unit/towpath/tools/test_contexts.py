"""What a tool looks for in its context and does not find is told with what there is."""

import copy
from typing import Any

import pytest

from towpath import ToolContext


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "kv",
            r"a ToolContext has no 'kv': a tool keeps its data in a database of its own; for the length of a run by",
        ),
        ("deps", r"a ToolContext has no 'deps': .*SystemParameter\(\)"),
        ("run_di", "a ToolContext has no 'run_di'; did you mean 'run_id'"),
        ("colour", "a ToolContext has no 'colour'$"),
    ],
)
def test_what_a_context_does_not_have_is_told_with_what_there_is(name: str, told: str) -> None:
    context: Any = ToolContext()
    with pytest.raises(AttributeError, match=told):
        getattr(context, name)
    assert not hasattr(context, name)


def test_a_context_is_copied_as_any_value() -> None:
    context = ToolContext(attempt=2)
    assert copy.copy(context) == context
