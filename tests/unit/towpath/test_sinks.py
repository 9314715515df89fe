"""What a tool declares of values, sinks, hazards and trusted fields, is checked where it is written."""

from typing import Any

import pytest

from towpath import DeclarationError, tool
from towpath_contracts.tools.calls import ToolHazard


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"sinks": ("to",)}, "'to', which is no argument; there are order_id"),
        ({"sinks": "order_id"}, "write sinks="),
        ({"hazards": ("explode",)}, "explode"),
        ({"trusted_fields": ("a..b",)}, "trusted_fields"),
    ],
)
def test_what_is_declared_of_values_must_make_sense(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(DeclarationError, match=expected):

        @tool(**options)
        def find(order_id: str) -> str:
            return order_id


def test_what_is_declared_of_values_is_in_the_spec() -> None:
    @tool(sinks=("order_id", "lines.account"), hazards=("spend",), trusted_fields=("rows.sender",))
    def pay(order_id: str, lines: list[dict[str, str]]) -> str:
        return order_id + str(lines)

    assert pay.spec.sinks == ("order_id", "lines.account")
    assert pay.spec.hazards == (ToolHazard.SPEND,)
    assert pay.spec.trusted_fields == ("rows.sender",)

    @tool
    def plain(order_id: str) -> str:
        return order_id

    assert (plain.spec.sinks, plain.spec.hazards, plain.spec.trusted_fields) == (None, (), ())
