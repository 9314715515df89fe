"""Tools as people have them: methods, partials, JSON Schemas, lists; and their arguments exactly as given."""

import datetime as dt
import functools
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from towpath import DeclarationError, SystemParameter, Tool, ToolContext, tool
from towpath.toolbox import collect, load_module
from towpath.tools.arguments import ArgumentsInvalidError
from towpath_contracts.tools.calls import EffectClass

ORDER = {
    "type": "object",
    "properties": {"order-id": {"type": "string"}, "amount": {"type": "number"}, "tenant": {"type": "string"}},
    "required": ["order-id"],
    "additionalProperties": False,
}


class Shop:
    """Has a method that people make a tool of."""

    def __init__(self, name: str) -> None:
        self.name = name

    def refund(self, order_id: str, amount: float = 1.0) -> str:
        """Refund an order.

        Args:
            order_id: As printed.
        """
        return f"{self.name}: {order_id}, {amount}"

    async def find(self, order_id: str) -> str:
        """Find an order."""
        return order_id


def call(one: Any, args: dict[str, Any]) -> Any:
    return one.function(**one.bind(args, ToolContext()))


async def test_a_bound_method_is_a_tool_of_its_object() -> None:
    refund, find = tool(Shop("lamps").refund), tool(name="orders.find", effect_class="pure")(Shop("x").find)
    assert (refund.name, refund.spec.description, refund.is_async) == ("refund", "Refund an order.", False)
    assert refund.spec.parameters["properties"]["order_id"] == {"type": "string", "description": "As printed."}
    assert set(refund.spec.parameters["properties"]) == {"order_id", "amount"}
    assert call(refund, {"order_id": "A-1"}) == "lamps: A-1, 1.0"
    assert refund("A-1", 2) == "lamps: A-1, 2"
    assert (find.name, find.is_async) == ("orders.find", True)
    assert await call(find, {"order_id": "A-1"}) == "A-1"


def test_what_a_partial_has_bound_is_settled_and_not_offered() -> None:
    """A model must not be able to set it."""

    def send(to: str, text: str, account: str = "none", *, urgent: bool = False) -> str:
        """Send a text."""
        return f"{to} {text} {account} {urgent}"

    one = tool(name="send")(functools.partial(functools.partial(send, "ann"), account="support"))
    assert one.spec.description == "Send a text."
    assert set(one.spec.parameters["properties"]) == {"text", "urgent"}
    assert call(one, {"text": "hi"}) == "ann hi support False"
    with pytest.raises(ArgumentsInvalidError, match="account"):
        one.bind({"text": "hi", "account": "boss"}, ToolContext())


def test_a_tool_is_made_of_a_json_schema_and_gets_what_was_given() -> None:
    def forward(context: ToolContext, **arguments: Any) -> dict[str, Any]:
        return {**arguments, "attempt": context.attempt}

    one = Tool.from_schema(
        "orders.refund", "Refund an order.", ORDER, forward, system_parameters=["tenant"], effect_class="pure"
    )
    assert one.spec.parameters == ORDER
    assert (one.spec.system_params, one.spec.effect_class) == (("tenant",), EffectClass.PURE)
    assert (one.spec.name, one.spec.description, one.spec.toolset) == ("orders.refund", "Refund an order.", "default")
    assert call(one, {"order-id": "A", "amount": 100}) == {"order-id": "A", "amount": 100, "attempt": 1}
    assert type(call(one, {"order-id": "A", "amount": 100})["amount"]) is int
    with pytest.raises(ArgumentsInvalidError, match=r"\$\.amount"):
        one.bind({"order-id": "A", "amount": "a lot"}, ToolContext())


def test_what_is_not_given_is_told_from_null() -> None:
    schema = {"type": "object", "properties": {"note": {"type": ["string", "null"]}}}
    one = Tool.from_schema("note", "Note.", schema, lambda **given: given)
    assert call(one, {}) == {}
    assert call(one, {"note": None}) == {"note": None}


def plain(amount: float = 1.0, order: str = "") -> None:
    """Have two parameters."""


@pytest.mark.parametrize(
    ("schema", "options", "expected"),
    [
        ({"type": "string"}, {}, "describes an object"),
        ({"type": "object", "properties": 3}, {}, "not a JSON Schema"),
        ({"type": "object", "properties": {"amuont": {}}}, {}, "'amuont', which the function does not take; did you"),
        ({"type": "object"}, {"effect": "pure"}, "Tool.from_schema takes no 'effect'; did you mean 'effect_class'"),
        ({"type": "object"}, {"system_parameters": ["order"]}, "system_parameters has 'order'"),
    ],
)
def test_a_schema_that_does_not_fit_its_function_is_refused(
    schema: dict[str, Any], options: dict[str, Any], expected: str
) -> None:
    with pytest.raises(DeclarationError, match=expected):
        Tool.from_schema("one", "One.", schema, plain, **options)


def test_a_function_that_needs_more_than_its_schema_requires_is_refused() -> None:
    def pay(amount: float) -> None:
        """Pay."""

    with pytest.raises(DeclarationError, match="needs 'amount', which the JSON Schema does not require"):
        Tool.from_schema("pay", "Pay.", {"type": "object", "properties": {"amount": {}}}, pay)


def test_the_list_TOOLS_of_a_module_is_served(tmp_path: Path) -> None:  # noqa: N802 - the name is the point
    file = tmp_path / "listed_tools.py"
    file.write_text(
        "from towpath import Tool, hook, tool\n"
        "def plain(a: int) -> int:\n    'Be plain.'\n    return a\n"
        "@hook('start')\ndef began(event):\n    pass\n"
        "TOOLS = [plain, tool(name='second')(plain), Tool.from_schema('third', '', {'type': 'object'}, lambda: 3)]\n"
    )
    tools, hooks = collect([load_module(str(file))])
    assert [one.name for one in tools] == ["plain", "second", "third"]
    assert len(hooks) == 1


def test_TOOLS_that_is_no_list_is_refused(tmp_path: Path) -> None:  # noqa: N802 - the name is the point
    file = tmp_path / "wrong_tools.py"
    file.write_text("TOOLS = 'plain'\n")
    with pytest.raises(DeclarationError, match=r"wrong_tools\.py:1: TOOLS is a list of tools .*, not str"):
        collect([load_module(str(file))])


class Kind(Enum):
    """Words and numbers."""

    WORD = "word"
    ONE = 1


class Line(BaseModel):
    """A nested model."""

    sku: str
    weight: float = 0.0


class Given(BaseModel):
    """Records what was given."""

    note: str | None = None


@tool
def everything(
    amount: Decimal,
    at: dt.datetime,
    kind: Kind,
    lines: list[Line],
    weight: float,
    weights: list[float],
    by_name: dict[str, float],
    given: Given,
    anything: Any,
    either: int | str,
    limit: int = 3,
    tag: Annotated[str, SystemParameter()] = "none",
    tail: list[int] = Field(default_factory=list),  # noqa: B008 - how pydantic describes a default
) -> None:
    """Take everything."""


ARGS: dict[str, Any] = {
    "amount": "12.50",
    "at": "2026-11-22T10:00:00+02:00",
    "kind": 1,
    "lines": [{"sku": "a"}],
    "weight": 100,
    "weights": [1, 2.5],
    "by_name": {"a": 3},
    "given": {},
    "anything": 7,
    "either": "5",
}


def test_arguments_come_as_they_were_given_in_their_declared_types() -> None:
    bound = everything.bind(ARGS, ToolContext())
    assert repr(bound.pop("at").isoformat()) == "'2026-11-22T10:00:00+02:00'"
    assert bound["given"].model_fields_set == set()
    del bound["given"]
    shown = {name: repr(value) for name, value in bound.items()}
    assert shown == {
        "amount": "Decimal('12.50')",
        "kind": "<Kind.ONE: 1>",
        "lines": "[Line(sku='a', weight=0.0)]",
        "weight": "100",
        "weights": "[1, 2.5]",
        "by_name": "{'a': 3}",
        "anything": "7",
        "either": "'5'",
        "tail": "[]",
    }


@pytest.mark.parametrize(
    "wrong",
    [{"weight": "100"}, {"limit": "3"}, {"limit": True}, {"limit": 2.5}, {"at": 1_700_000_000}, {"either": 2.5}],
)
def test_nothing_is_made_of_another_kind_of_value(wrong: dict[str, Any]) -> None:
    with pytest.raises(ArgumentsInvalidError, match=next(iter(wrong))):
        everything.bind({**ARGS, **wrong}, ToolContext())


def test_a_whole_number_with_a_point_is_an_integer_as_in_json() -> None:
    assert repr(everything.bind({**ARGS, "limit": 5.0}, ToolContext())["limit"]) == "5"
    with pytest.raises(ArgumentsInvalidError, match="weight"):
        everything.bind({**ARGS, "limit": 5.0, "weight": "1"}, ToolContext())


def test_a_tool_of_a_partial_is_shown_by_the_function_behind_it() -> None:
    def look(shop: str, shelf: str) -> str:
        return shop + shelf

    assert repr(tool(functools.partial(look, "north"))).endswith(f"of {__name__}.{look.__qualname__}>")
