"""The default of a tool's parameter fits its type: the function would get it although no call could give it."""

from typing import Annotated, Any

import pytest
from pydantic import Field

from towpath import DeclarationError, tool


def declare(hint: Any, default: Any) -> None:
    def count(day: Any = default) -> int:
        return 1

    count.__annotations__["day"] = hint
    tool(effect_class="pure")(count)


@pytest.mark.parametrize(
    ("hint", "default", "shown"),
    [
        (int, "all", "'all', which does not fit its type int; "),
        (Annotated[float, Field(gt=0)], "all", "'all', which does not fit its type float; "),
        (float, Field(default="all", gt=0), "'all', which does not fit its type float; "),
        (list[str], {"a": 1}, "{'a': 1}, which does not fit its type list"),
    ],
)
def test_a_default_of_another_type_is_refused_where_the_tool_is_declared(hint: Any, default: Any, shown: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        declare(hint, default)
    assert "test_defaults_of_parameters.py:" in str(refused.value)
    assert f"the default of day is {shown}" in str(refused.value)


@pytest.mark.parametrize(
    ("hint", "default"),
    [(int, 3), (float, 3), (str, None), (list[str], []), (float, Field(gt=0)), (bool, False)],
)
def test_other_defaults_are_taken(hint: Any, default: Any) -> None:
    declare(hint, default)
