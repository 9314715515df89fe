"""The tokens of a condition are those of the engine."""

import importlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath_tas.core.policy.condition_tokens import text_value, tokens_of

library: Any = importlib.import_module("cel")
PARTS = [
    *"abrB\"'\\/()[]{}.+?:,!<>=- \n\t019",
    "all",
    "//",
    "\\x41",
    "\\u00e9",
    "\\U0001F600",
    "\\101",
    "\\n",
    "\\q",
    "'a'",
]
PARTS += ['"b"', "&&", "||", "==", "1.5", "1e3", "0x1F", "2u", "é", "`", "\x0b", "\xa0", "\\ud800", "\\400"]


def evaluated(text: str) -> object:
    """Return the value of *text*; ValueError itself where it isn't CEL."""
    try:
        return library.compile(text).execute({})
    except ValueError:
        return ValueError
    except (RuntimeError, TypeError, LookupError, ArithmeticError):
        return RuntimeError


@given(st.lists(st.sampled_from(PARTS), max_size=8).map("".join))
def test_a_text_stands_for_what_the_engine_reads(inner: str) -> None:
    for quote in "\"'":
        literal = f"{quote}{inner}{quote}"
        try:
            tokens = tokens_of(literal)
        except ValueError:
            continue
        if len(tokens) == 1 and tokens[0].kind == "text":
            value = evaluated(literal)
            assert text_value(literal) == (None if value is ValueError else value)


@given(st.lists(st.sampled_from(PARTS), max_size=12).map("".join))
def test_tokens_written_anew_mean_the_same_to_the_engine(text: str) -> None:
    try:
        tokens = tokens_of(text)
    except ValueError:
        return
    try:
        program = library.compile(text)
    except ValueError:
        return
    again = library.compile(" ".join(word for _, word in tokens))
    assert (sorted(again.variables()), sorted(again.functions())) == (
        sorted(program.variables()),
        sorted(program.functions()),
    )
    assert repr(evaluated(text)) == repr(evaluated(" ".join(word for _, word in tokens)))


@pytest.mark.parametrize("literal", ["b'a'", "'\\q'", "'\\ud800'", "'\\U00110000'"])
def test_what_is_no_text_has_no_value(literal: str) -> None:
    assert text_value(literal) is None
