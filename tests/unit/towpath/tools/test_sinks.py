"""What a tool declares of values, sinks, hazards and trusted fields, is checked where it is written."""

from typing import Any

import pytest

from towpath import DeclarationError, tool
from towpath_contracts.tools.calls import ToolHazard
from towpath_contracts.tools.readers import OutputReaders


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"sinks": ("to",)}, "'to', which is no argument; there are order_id"),
        ({"sinks": "order_id"}, "write sinks="),
        ({"hazards": ("explode",)}, "explode"),
        ({"trusted_fields": ("a..b",)}, "trusted_fields"),
        ({"readers": "ann@acme.example"}, 'write "anybody", a list of names'),
        ({"readers": {"from": "sender"}}, "readers have no from"),
        ({"readers": ["anybody"]}, "stands alone"),
        ({"readers": {"args": "ordr_id"}}, "'ordr_id', which is no argument; did you mean 'order_id'"),
    ],
)
def test_what_is_declared_of_values_must_make_sense(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(DeclarationError, match=expected):

        @tool(**options)
        def find(order_id: str) -> str:
            return order_id


def test_what_is_declared_of_values_is_in_the_spec() -> None:
    @tool(
        sinks=("order_id", "lines.account"),
        hazards=("spend",),
        trusted_fields=("rows.sender",),
        readers=[{"of": "rows", "fields": "sender", "args": "order_id"}, {"names": ["staff"]}],
    )
    def pay(order_id: str, lines: list[dict[str, str]]) -> str:
        return order_id + str(lines)

    assert pay.spec.sinks == ("order_id", "lines.account")
    assert pay.spec.hazards == (ToolHazard.SPEND,)
    assert pay.spec.trusted_fields == ("rows.sender",)
    assert pay.spec.readers == (
        OutputReaders(of="rows", fields=("sender",), args=("order_id",)),
        OutputReaders(names=("staff",)),
    )

    @tool
    def plain(order_id: str) -> str:
        return order_id

    assert (plain.spec.sinks, plain.spec.hazards, plain.spec.trusted_fields) == (None, (), ())
    assert plain.spec.readers == ()
    assert "readers" not in plain.spec.model_dump(), "digests of tools that declare none stay"
