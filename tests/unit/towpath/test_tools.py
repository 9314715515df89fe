"""`@tool`: names, schemas, docstrings, context, system parameters, and what can't be a tool."""

import datetime as dt
import enum
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from towpath import DeclarationError, SystemParameter, Tool, ToolContext, ToolError, tool
from towpath.toolbox import WorkerTools, collect, load_module
from towpath.tools.arguments import ArgumentsInvalidError
from towpath.tools.declaration import seconds
from towpath.tools.docstrings import parse_docstring
from towpath_contracts.tools.calls import EffectClass


class Colour(enum.StrEnum):
    RED = "red"


class Line(BaseModel):
    sku: str
    count: int = Field(default=1, ge=1)


def test_an_undeclared_tool_is_the_strictest() -> None:
    @tool
    def delete_all() -> None:
        """Delete everything."""

    spec = delete_all.spec
    assert (spec.name, spec.toolset, spec.operation) == ("delete_all", "default", "call")
    assert spec.effect_class is EffectClass.IRREVERSIBLE
    assert (spec.trusted_output, spec.sensitive, spec.polling, spec.timeout_ms) == (False, False, False, 30_000)
    assert spec.parameters == {"type": "object", "properties": {}, "additionalProperties": False}


def test_every_option_is_in_the_spec() -> None:
    @tool(
        name="orders.find",
        toolset="shop",
        description="Find it.",
        effect_class="pure",
        timeout="2m",
        operation="read",
        trusted_output=True,
        sensitive=True,
        polling=True,
        summary="Find {order_id}",
    )
    def find(order_id: str) -> str:
        return order_id

    shown = find.spec.model_dump(
        exclude={"parameters", "discovered", "sinks", "hazards", "trusted_fields", "definition"}
    )
    assert shown == {
        "name": "orders.find",
        "toolset": "shop",
        "description": "Find it.",
        "system_params": (),
        "operation": "read",
        "effect_class": EffectClass.PURE,
        "timeout_ms": 120_000,
        "trusted_output": True,
        "sensitive": True,
        "polling": True,
        "summary": "Find {order_id}",
        "has_probe": False,
    }


def test_the_schema_comes_from_the_annotations_and_the_docstring() -> None:
    @tool
    async def order(
        order_id: str,
        amount: Decimal,
        lines: list[Line],
        colour: Colour,
        when: dt.date | None = None,
        how: Literal["post", "van"] = "van",
        limit: Annotated[int, Field(ge=1, le=9, description="At most.")] = 3,
        weight: float = Field(gt=0, description="In kg."),
    ) -> None:
        """Order things.

        Args:
            order_id: The number,
                as printed.
            amount (Decimal): In EUR.
            limit: Not shown: the annotation wins.
        """

    schema = order.spec.parameters
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["order_id", "amount", "lines", "colour", "weight"]
    properties = schema["properties"]
    assert properties["order_id"] == {"type": "string", "description": "The number, as printed."}
    assert properties["amount"]["description"] == "In EUR."
    assert properties["limit"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 9,
        "default": 3,
        "description": "At most.",
    }
    assert properties["weight"] == {"type": "number", "exclusiveMinimum": 0, "description": "In kg."}
    assert properties["how"] == {"type": "string", "enum": ["post", "van"], "default": "van"}
    assert order.spec.description == "Order things."


def test_arguments_are_converted_to_the_declared_types() -> None:
    @tool
    def take(
        order_id: uuid.UUID, amount: Decimal, lines: list[Line], at: dt.datetime, tags: set[str], limit: int = 3
    ) -> None:
        """Take it."""

    key = uuid.uuid4()
    bound = take.bind(
        {
            "order_id": str(key),
            "amount": "12.50",
            "lines": [{"sku": "a"}],
            "at": "2026-11-22T10:00:00Z",
            "tags": ["x", "x"],
        },
        ToolContext(),
    )
    assert bound == {
        "order_id": key,
        "amount": Decimal("12.50"),
        "lines": [Line(sku="a", count=1)],
        "at": dt.datetime(2026, 11, 22, 10, tzinfo=dt.UTC),
        "tags": {"x"},
    }


def test_every_wrong_argument_is_named_and_no_value_is_repeated() -> None:
    @tool
    def take(a: int, b: str, lines: list[Line]) -> None:
        """Take it."""

    with pytest.raises(ArgumentsInvalidError) as caught:
        take.bind({"a": "hunter2", "lines": [{"sku": 1, "count": 0}], "zzz": 1}, ToolContext())
    message = str(caught.value)
    for place in ("a: ", "b is missing", "lines.0.sku: ", "lines.0.count: ", "zzz: "):
        assert place in message
    assert "hunter2" not in message


def test_parameters_may_be_named_like_anything() -> None:
    @tool
    def odd(copy: str, json: int, model_config: str, _private: bool, self_: str = "s", schema: str = "x") -> None:
        """Have odd names."""

    given = {"copy": "c", "json": 1, "model_config": "m", "_private": True, "self_": "t", "schema": "y"}
    assert odd.bind(given, ToolContext()) == given
    assert set(odd.spec.parameters["properties"]) == set(given)


def test_a_default_that_can_be_changed_is_not_shared_between_calls() -> None:
    @tool
    def gather(found: list[str] = []) -> list[str]:  # noqa: B006 - that is the mistake users make
        found.append("x")
        return found

    for _ in range(2):
        assert gather.function(**gather.bind({}, ToolContext())) == ["x"]


def test_the_context_goes_to_the_parameter_annotated_with_it() -> None:
    @tool
    def late(order_id: str, *, context: ToolContext) -> str:
        return f"{order_id} {context.idempotency_key}"

    @tool
    def maybe(context: ToolContext | None = None) -> bool:
        return context is not None

    context = ToolContext()
    assert "context" not in late.spec.parameters["properties"]
    assert late.bind({"order_id": "7"}, context) == {"order_id": "7", "context": context}
    with pytest.raises(ArgumentsInvalidError):
        late.bind({"order_id": "7", "context": {}}, context)
    assert maybe.function(**maybe.bind({}, context)) is True


def test_a_system_parameter_is_in_the_schema_and_named_as_the_systems_own() -> None:
    @tool
    def search(q: str, firm: Annotated[str, SystemParameter()], zone: Annotated[str, SystemParameter] = "eu") -> None:
        """Search."""

    assert search.spec.system_params == ("firm", "zone")
    assert set(search.spec.parameters["properties"]) == {"q", "firm", "zone"}
    assert search.spec.parameters["required"] == ["q", "firm"]


def test_a_tool_is_still_the_function_it_was() -> None:
    @tool
    def double(n: int) -> int:
        """Double."""
        return 2 * n

    assert isinstance(double, Tool)
    assert double(4) == 8
    assert double.__name__ == "double"
    assert double.__doc__ == "Double."


def test_a_context_serves_for_calling_a_tool_directly() -> None:
    context = ToolContext()
    context.log("nowhere")
    assert (context.cancelled, context.remaining_s, context.attempt) == (False, float("inf"), 1)
    context.stop.set()
    assert context.cancelled


def untyped(value) -> None:  # type: ignore[no-untyped-def]
    """Have no types."""


def spread(*values: int) -> None:
    """Take any number."""


def keywords(**values: int) -> None:
    """Take any names."""


def positional(value: int, /) -> None:
    """Take no names."""


def two_contexts(one: ToolContext, two: ToolContext) -> None:
    """Take it twice."""


def unknown_type(value: "Nowhere") -> None:  # type: ignore[name-defined]  # noqa: F821
    """Name a type that isn't there."""


def strange_type(value: subprocess.Popen) -> None:  # type: ignore[type-arg]
    """Take a type that is no JSON."""


async def generator(value: int) -> AsyncIterator[int]:
    """Yield."""
    yield value


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (untyped, "write one, as in value: str"),
        (spread, r": \*values can't be passed by name; take a list: values: list\[int\]"),
        (keywords, r": \*\*values says no names; name each parameter, or describe them with Tool.from_schema"),
        (positional, "parameter value stands before the / and can't be passed by name; take the / out"),
        (two_contexts, "two parameters take the ToolContext"),
        (unknown_type, "Nowhere"),
        (strange_type, "Popen"),
        (generator, "a generator can't be a tool"),
        (Line, r"test_tools\.py:\d+: Line: a tool is a plain function, .* a class; .* tool\(.*\(Line\(\)\.method"),
        (len, "plain function"),
    ],
)
def test_what_cannot_be_offered_is_refused_where_it_is_written(function: Any, expected: str) -> None:
    with pytest.raises(DeclarationError, match=expected):
        tool(function)


@pytest.mark.parametrize(
    "options",
    [
        {"name": "has space"},
        {"name": ""},
        {"toolset": "a.b"},
        {"effect_class": "harmless"},
        {"timeout": "soon"},
        {"timeout": 0},
        {"timeout": "2h"},
        {"summary": "x" * 300},
    ],
)
def test_a_wrong_option_is_refused_where_it_is_written(options: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError):

        @tool(**options)
        def fine() -> None:
            """Be fine."""


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match="effect"):
        tool(effect="pure")(parse_docstring)  # type: ignore[call-overload]


@pytest.mark.parametrize(("text", "value"), [("500ms", 0.5), ("30s", 30), ("1.5m", 90), ("1h", 3600), (7, 7.0)])
def test_durations_are_read(text: str | float, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "s", "3", "3 days", "-1s", "1m30s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        seconds(text)


def test_two_tools_of_one_name_are_refused_and_one_tool_in_two_places_is_not() -> None:
    @tool(name="same")
    def one() -> None:
        """Be one."""

    @tool(name="same")
    def two() -> None:
        """Be the other."""

    assert WorkerTools([one, one]).find("same", "default") is one
    with pytest.raises(DeclarationError, match="two tools are named same"):
        WorkerTools([one, two])


def test_a_tool_is_found_in_its_own_toolset_only() -> None:
    @tool(toolset="shop")
    def sell() -> None:
        """Sell."""

    box = WorkerTools([sell])
    assert box.find("sell", "shop") is sell
    assert box.find("sell", "default") is None
    assert box.toolsets() == {"shop": (sell,)}


def test_tools_and_hooks_are_collected_from_modules_and_files(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("WORD = 'hello'\n")
    file = tmp_path / "my_tools.py"
    file.write_text(
        "from __future__ import annotations\n"
        "from neighbour import WORD\n"
        "from pydantic import BaseModel\n"
        "from towpath import tool, hook, ToolContext\n"
        "class Out(BaseModel):\n    word: str\n"
        "@tool\ndef say(times: int, ctx: ToolContext) -> Out:\n    return Out(word=WORD * times)\n"
        "again = say\n"
        "@hook('start')\ndef started(event):\n    return None\n"
    )
    tools, hooks = collect([load_module(str(file)), load_module(str(file))])
    assert [one.name for one in tools] == ["say"]
    assert [one.event for one in hooks] == ["start"]
    assert tools[0](2, ToolContext()).word == "hellohello"


def test_a_module_that_is_not_there_is_told_from_a_broken_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # nothing is imported where others may write
    with pytest.raises(DeclarationError, match="no module surely"):
        load_module("surely.not.there")
    with pytest.raises(DeclarationError, match=r"nothing\.py is not there"):
        load_module("./nothing.py")
    (tmp_path / "broken.py").write_text("import surely_not_there\n")
    with pytest.raises(DeclarationError, match=r"broken\.py:1: there is no module surely_not_there; check the name"):
        load_module(str(tmp_path / "broken.py"))


def test_a_tool_error_says_code_message_and_hint() -> None:
    error = ToolError("order_unknown", "No order 7", hint="Search first", retryable=True)
    told = (error.code, error.message, error.hint, error.retryable)
    assert told == ("order_unknown", "No order 7", "Search first", True)
    assert ToolError("only_a_code").message == "only_a_code"


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, towpath\n"
        "heavy = [name for name in ('pydantic', 'nats', 'httpx2', 'faststream', 'yaml') if name in sys.modules]\n"
        "assert not heavy, heavy\n"
        "from towpath import tool\n"
        "heavy = [name for name in ('nats', 'httpx2', 'faststream') if name in sys.modules]\n"
        "assert not heavy, heavy\n"
        "assert set(towpath.__all__) <= set(dir(towpath))\n"
        "for name in towpath.__all__: getattr(towpath, name)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_worker_needs_no_driver_of_the_database() -> None:
    code = "import sys; sys.modules['asyncpg'] = None; import towpath_worker.__main__"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
