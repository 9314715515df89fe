"""What a call gives back: results as JSON, exceptions as failures."""

import dataclasses
import datetime as dt
import uuid
from decimal import Decimal

import pytest
from pydantic import BaseModel

from towpath import ToolError
from towpath_contracts.canonical import digest
from towpath_contracts.tools.calls import INLINE_RESULT_BYTES, MAX_RESULT_BYTES
from towpath_worker.core.results import ResultRefusedError, encode_result, failure_of


class Model(BaseModel):
    n: int


@dataclasses.dataclass
class Plain:
    n: int


@pytest.mark.parametrize(
    ("returned", "value"),
    [
        (None, None),
        ({"b": 1, "a": [1.5, "x", True]}, {"a": [1.5, "x", True], "b": 1}),
        (Model(n=1), {"n": 1}),
        (Plain(1), {"n": 1}),
        ([Model(n=1)], [{"n": 1}]),
        (Decimal("1.10"), "1.10"),
        (dt.date(2026, 11, 22), "2026-11-22"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ((1, 2), [1, 2]),
        (b"text", "text"),
        ({1: "one"}, {"1": "one"}),
        ("ünï", "ünï"),
    ],
)
def test_a_result_is_plain_json_with_the_digest_of_its_canonical_text(returned: object, value: object) -> None:
    result = encode_result(returned)
    assert result.value == value
    assert result.digest == digest(value)
    assert not result.is_large


@pytest.mark.parametrize("returned", [object(), float("inf"), {"x": float("nan")}, b"\xff", "\ud800"])
def test_what_is_not_json_is_refused(returned: object) -> None:
    with pytest.raises(ResultRefusedError) as caught:
        encode_result(returned)
    assert caught.value.code == "result_invalid"


def nested(levels: int) -> object:
    value: object = 1
    for level in range(levels):
        value = [value] if level % 2 else {"in": value}
    return value


@pytest.mark.parametrize("levels", [49, 65, 201, 5_000])
def test_a_result_that_others_could_not_read_is_refused(levels: int) -> None:
    with pytest.raises(ResultRefusedError) as caught:
        encode_result(nested(levels))
    assert caught.value.code == "result_invalid"


def test_a_result_may_be_as_deep_as_values_may() -> None:
    assert encode_result(nested(48)).value == nested(48)


def test_a_result_is_measured_in_bytes() -> None:
    assert not encode_result("x" * (INLINE_RESULT_BYTES - 2)).is_large
    assert encode_result("ü" * (INLINE_RESULT_BYTES // 2)).is_large
    with pytest.raises(ResultRefusedError) as caught:
        encode_result("x" * MAX_RESULT_BYTES)
    assert caught.value.code == "result_too_large"


def test_a_coroutine_that_a_tool_returned_is_told_with_what_to_write() -> None:
    async def later() -> None: ...

    with pytest.raises(
        ResultRefusedError, match=r"the coroutine later, which nobody awaited: write async def"
    ) as caught:
        encode_result(later())
    assert caught.value.code == "result_invalid"


def test_a_failure_has_no_traceback_and_no_more_text_than_a_model_can_bear() -> None:
    failure = failure_of(ValueError("x" * 10_000))
    assert failure.code == "tool_exception"
    assert failure.message.startswith("ValueError: xxx")
    assert len(failure.message) == 2_000


def test_a_failure_can_be_sent_whatever_its_text() -> None:
    failure = failure_of(ToolError("odd", "\ud800 half a character", hint="\udfff"))
    assert "half a character" in failure.model_dump_json()


def test_an_exception_without_text_is_named_alone() -> None:
    assert failure_of(KeyError()).message == "KeyError"
