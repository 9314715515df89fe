"""Mistakes in a tool's declaration: each names file and line, what was meant, and the words of `@tool`."""

import inspect
import re
import subprocess
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import yaml

from towpath import DeclarationError, tool
from towpath.module_sources import short_path
from towpath.tools.declaration import _DEFAULTS, ToolKeywords, ToolOptions
from towpath.tools.functions import ASKING, place_of
from towpath_contracts.files.policy_document import DocumentRule
from towpath_contracts.tools.calls import ToolSpec


def test_a_tool_is_placed_as_a_person_in_the_working_folder_would_name_its_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    assert line_of(send).startswith(f"{Path(__file__).name}:")
    monkeypatch.chdir(tmp_path)
    assert line_of(send).startswith(f"{__file__}:"), "it lies elsewhere"
    assert place_of(send) == line_of(send).removesuffix(": ")


def line_of(function: Any) -> str:
    return f"{short_path(__file__)}:{function.__code__.co_firstlineno}: {function.__qualname__}: "


def send(to: str, amount: float) -> None:
    """Send it."""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"effect": "pure"}, "@tool takes no 'effect'; did you mean 'effect_class'?"),
        ({"time_out": "3s"}, "@tool takes no 'time_out'; did you mean 'timeout'?"),
        ({"colour": "red"}, "@tool takes no 'colour'; there are toolset, effect_class, timeout, operation, "),
        ({"risk": "write"}, "@tool takes no 'risk': what a call may do is effect_class=: \"pure\" for one that only "),
        ({"idempotent": True}, "@tool takes no 'idempotent': write effect_class=\"idempotent\""),
        ({"retries": 2}, "@tool takes no 'retries': a call that was cut off is made again where its effect_class "),
        ({"pool": "payments"}, "@tool takes no 'pool': the tools of one kind of worker are a toolset: write toolset="),
        (
            {"colour": "red", "size": 1, "effect": "pure"},
            "@tool takes no 'effect'; did you mean 'effect_class'? And no 'colour'; no 'size'; there are toolset, ",
        ),
        (
            {"colour": "red", "idempotent": True, "retries": 2},
            "@tool takes no 'idempotent': write effect_class=\"idempotent\"; no 'retries': a call that was cut off ",
        ),
        ({"effect_class": "purr"}, "effect_class: there is no 'purr'; did you mean 'pure'?"),
        ({"effect_class": "write"}, "effect_class: there is no 'write'; there are pure, idempotent, reconcilable, "),
        ({"hazards": ["spent"]}, "hazards: there is no 'spent'; did you mean 'spend'?"),
        ({"hazards": "spend"}, "hazards is a list: write hazards=['spend']"),
        ({"sinks": "to"}, "sinks is a list: write sinks=['to']"),
        ({"trusted_fields": "row"}, "trusted_fields is a list: write trusted_fields=['row']"),
        ({"sinks": ["too"]}, "sinks names 'too', which is no argument; did you mean 'to'?"),
        ({"summary": "Send {amuont}"}, "summary names 'amuont', which is no argument; did you mean 'amount'?"),
        (
            {"name": "has space"},
            "name 'has space' can't be used: a name begins with a letter or digit, and has letters",
        ),
        ({"toolset": "a.b"}, "toolset 'a.b' can't be used: a toolset begins with a letter or digit, and has letters"),
        ({"timeout": "2h"}, "timeout '2h' is not between 1ms and 1h"),
        ({"timeout": 0}, "timeout 0 is not between 1ms and 1h"),
        ({"timeout": "soon"}, "timeout: 'soon' is not a duration; write e.g. 30s"),
        ({"workspace": "all"}, "workspace 'all': it is one of '', 'read' or 'scratch'"),
        ({"summary": "x" * 300}, "summary: String should have at most 256 characters"),
        ({"cost_usd": -1}, "cost_usd -1: it has to be at least 0"),
    ],
)
def test_a_wrong_option_names_the_line_and_what_was_meant(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        tool(**options)(send)
    message = str(caught.value)
    assert message.startswith(line_of(send) + expected)
    assert "pydantic" not in message
    assert "_declare" not in message


@pytest.mark.parametrize("option", sorted(ASKING))
def test_an_option_that_asks_a_person_is_answered_with_the_rules_that_do(option: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        tool(name="bank.send", **{option: 'args.to != "us"'})(send)
    rules = [DocumentRule.model_validate(yaml.safe_load(one)) for one in re.findall(r"\{.*?\}", str(caught.value))]
    assert {one.tool for one in rules} == {"bank.send"}
    assert [(one.effect, one.when) for one in rules] == [("allow", None), ("require_approval", 'args.to != "us"')]


def test_an_option_that_always_asks_is_answered_with_one_rule() -> None:
    with pytest.raises(DeclarationError) as caught:
        tool(ask=True)(send)
    (rule,) = re.findall(r"\{.*?\}", str(caught.value))
    assert DocumentRule.model_validate(yaml.safe_load(rule)).effect == "require_approval"


def test_a_wrong_value_is_repeated_only_where_it_is_short() -> None:
    for length, is_repeated in ((77, True), (78, False)):
        with pytest.raises(DeclarationError) as caught:
            tool(name=" " * length)(send)
        assert (" " * length in str(caught.value)) is is_repeated


class Shop:
    """Has a method."""

    def refund(self, order_id: str) -> None:
        """Refund."""


def test_a_decorated_method_is_told_what_to_write() -> None:
    with pytest.raises(DeclarationError) as caught:
        tool(Shop.refund)
    assert str(caught.value).startswith(line_of(Shop.refund) + "@tool inside a class has no object to call")


def test_a_type_that_json_has_not_is_told_by_its_parameter() -> None:
    def take(fine: int, strange: subprocess.Popen) -> None:  # type: ignore[type-arg]
        """Take it."""

    with pytest.raises(DeclarationError) as caught:
        tool(take)
    assert str(caught.value).startswith(
        line_of(take) + "parameter strange has the type Popen, which JSON can't say; use str, "
    )
    assert "arbitrary_types_allowed" not in str(caught.value)


def test_a_tool_of_a_tool_is_refused_by_its_name() -> None:
    with pytest.raises(DeclarationError, match="this is the tool sent already"):
        tool(tool(name="sent")(send))  # type: ignore[call-overload]


def test_the_keywords_of_a_tool_are_those_that_editors_are_told() -> None:
    [told] = [
        one
        for one in inspect.getsource(inspect.getmodule(tool) or send).split("@overload")
        if "    *,\n    name: str | None = None" in one
    ]
    signature = told[: told.index(") ->")]
    written = {line.split(":")[0].strip() for line in signature.splitlines() if "=" in line}
    assert written == set(ToolKeywords.__annotations__) == set(_DEFAULTS)
    assert set(get_type_hints(ToolOptions)) == written - {"name", "description"}
    assert written - {"timeout", "probe"} <= set(ToolSpec.model_fields)
