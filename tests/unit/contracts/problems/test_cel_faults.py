"""Why an expression in CEL can't be read is told in plain words, in one line and with its place."""

import pytest

from towpath_contracts.problems.cel_faults import compile_cel, describe_cel_fault, foreign_operator, unknown_names
from towpath_contracts.problems.cel_library import cel_library

SEEN = ("agent", "args", "caller", "origin", "run")
PLACED = "it can't be read as CEL, at "

VALUE = "a value belongs there, such as args.amount or 'EUR'"
OPERATOR = "an operator may stand there, such as && or ==, or nothing more"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = 1", "= sets nothing here; did you mean ==?"),
        (r"a == 'it\'s = x' &&", f"{PLACED}character 20: it ends too early: {VALUE}"),
        ("a == 1 && // = 2", f"{PLACED}character 17: it ends too early: {VALUE}"),
        ("a =< 1", "=< is no operator here; did you mean <=?"),
        ("a => 1", "=> is no operator here; did you mean >=?"),
        ("a <> 1", "<> is no operator here; did you mean !=?"),
        ("a === 1", "=== is no operator here; did you mean ==?"),
        ("a & b", "& is no operator here; did you mean &&?"),
        ("a | b", "| is no operator here; did you mean ||?"),
        ("a and b", "'and' is no operator here; did you mean &&?"),
        ("a or b", "'or' is no operator here; did you mean ||?"),
        ("a not in b", "'not' is no operator here; did you mean !, as in !(a in b)?"),
        ("a and not b", "'and' and 'not' are no operators here; write && for 'and', ! for 'not', as in !(a in b)"),
        ("a & b | c = 1", "=, & and | are no operators here; write == for =, && for &, || for |"),
        ("a == 'x and y' b", f"{PLACED}character 16: 'b' does not belong there; {OPERATOR}"),
        ("a.or == b c", f"{PLACED}character 11: 'c' does not belong there; {OPERATOR}"),
        ("a == 'x", "a text is not closed, or has a backslash that means nothing: it ends with its own quote"),
        ("a == \u201cx\u201d", "a text stands between straight quotes, \" or '"),
        ("a ? b", f"{PLACED}character 1: a choice has two ways: condition ? this : that"),
        ("a.all(1, b)", f"{PLACED}character 7: a name belongs there, as the first x in list.all(x, x > 0)"),
        ("if a", f"{PLACED}character 1: 'if' is reserved; write one expression, such as args.amount < 5"),
        ("99999999999999999999 == a", f"{PLACED}character 1: a whole number has at most 64 bits"),
        ("a[?0]", f"{PLACED}character 2: '[?' does not belong there"),
        ("a == b c", f"{PLACED}character 8: 'c' does not belong there; {OPERATOR}"),
        ("a.b.", f"{PLACED}character 5: a name follows a dot, as in args.amount"),
        ("f(1 2)", f"{PLACED}character 5: '2' does not belong there; ')' does"),
        ("a in [1, 2", f"{PLACED}character 11: it ends too early: ']' is missing"),
        ("a > 5 then 3", f"{PLACED}character 7: 'then' does not belong there; {OPERATOR}"),
        ("a[1", f"{PLACED}character 4: ']' is missing there"),
        ("a && * b", f"{PLACED}character 6: '*' does not belong there; {VALUE}"),
        ("\n a ==", f"{PLACED}line 2, character 6: it ends too early: {VALUE}"),
        ("has(a)", f"{PLACED}character 5: has() takes a field, as in has(args.amount)"),
    ],
)
def test_the_parser_is_put_into_plain_words(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"\S") as caught:
        compile_cel(text, cel_library().compile)
    assert str(caught.value) == said


def test_what_the_parser_says_otherwise_stays_in_one_line() -> None:
    assert describe_cel_fault("out of memory\nat x", "a") == "out of memory"


def test_operators_of_other_languages_are_found_without_a_parser() -> None:
    assert foreign_operator("args.a = 1") == "= sets nothing here; did you mean ==?"
    assert foreign_operator("args.a == 'x = y and z'") == ""


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *(("True", "true"), ("FALSE", "false"), ("None", "null"), ("NULL", "null"), ("nil", "null")),
        *(("arg", "'args'"), ("Caller", "'caller'"), ("orgin", "'origin'"), ("runs", "'run'")),
        *(("amount", "'args.amount'"), ("target", "'args.target'"), ("urgent", "'args.urgent'")),
    ],
)
def test_a_name_that_a_condition_does_not_see_is_told_what_was_meant(name: str, meant: str) -> None:
    assert unknown_names([name], SEEN).endswith(f"; did you mean {meant}?")
