"""The matrix decides as others do who share no code with it; the long forms are commands in `tests/oracles`."""

import pytest
from tests.oracles import engines, matrix, policy_mutants
from tests.oracles.plain_cel import condition


def test_random_matrices_agree_with_an_oracle_that_reads_their_text() -> None:
    found = set()
    for text, asked, got, expected in matrix.pairs(800, seed=7):
        assert got == expected, f"{text}\n{asked}"
        found.add(got[0])
    assert found == {"allow", "deny", "require_approval"}


def test_conditions_are_weighed_as_by_googles_engine() -> None:
    found, differing = engines.conditions(700, seed=7)
    assert differing == []
    assert set(found) == {"yes", "no", "unclear"}


def test_matrices_decide_as_by_cedar() -> None:
    found, differing = engines.matrices(60, seed=7)
    assert differing == []
    assert set(found) == {"allow", "deny", "require_approval"}


def test_an_argument_that_a_prohibition_needs_and_does_not_get_opens_nothing_here_but_does_in_cedar() -> None:
    assert engines.the_known_difference() == ("deny", "Allow")


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [("a*c", "abbc", True), ("[!a]*", "abc", False), ("[a-c]?", "bx", True), ("x[", "x[", True), ("[]a]", "]", True)],
)
def test_the_oracle_knows_patterns(pattern: str, text: str, fits: bool) -> None:
    assert matrix.glob(pattern, text) is fits


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("args.a < 2 && args.b", "unclear"),
        ("args.a > 2 && args.b", "no"),
        ("args.b || args.a == 1.0", "yes"),
        ("!(args.a in ['1'])", "yes"),
        ("has(args.b) ? true : args.a", "unclear"),
    ],
)
def test_the_oracle_knows_conditions(text: str, word: str) -> None:
    assert condition(text, {"args": {"a": 1}}) == word


def test_the_sample_matrix_cannot_be_broken_without_its_test_noticing() -> None:
    result = policy_mutants.measure(policy_mutants.SAMPLE)
    assert result.made >= 100
    assert result.survived == ()
