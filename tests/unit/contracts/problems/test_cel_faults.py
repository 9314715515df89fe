"""Why an expression in CEL can't be read is told in plain words, in one line and with its place."""

import pytest

from towpath_contracts.problems.cel_faults import compile_cel, describe_cel_fault
from towpath_engine.expressions.costs import library

PLACED = "it can't be read as CEL, at "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = 1", "= sets nothing here; did you mean ==?"),
        (r"a == 'it\'s = x' &&", f"{PLACED}character 20: it ends too early"),
        ("a == 1 && // = 2", f"{PLACED}character 17: it ends too early"),
        ("a =< 1", f"{PLACED}character 3: '=<' does not belong there"),
        ("a and b", f"{PLACED}character 3: 'and' does not belong there"),
        ("a == b c", f"{PLACED}character 8: 'c' does not belong there"),
        ("a.b.", f"{PLACED}character 5: '.' does not belong there"),
        ("a[1", f"{PLACED}character 4: ']' is missing there"),
        ("a && & b", f"{PLACED}character 6: '&' does not belong there"),
        ("\n a ==", f"{PLACED}line 2, character 6: it ends too early"),
        ("has(a)", f"{PLACED}character 5: invalid argument to has() macro"),
    ],
)
def test_the_parser_is_put_into_plain_words(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"\S") as caught:
        compile_cel(text, library().compile)
    assert str(caught.value) == said


def test_what_the_parser_says_otherwise_stays_in_one_line() -> None:
    assert describe_cel_fault("out of memory\nat x", "a") == "out of memory"
