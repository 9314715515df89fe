"""The work of a pattern is known before it is compiled, and is more than it takes."""

import random
import time
from importlib import import_module

import pytest

from towpath_contracts.schema_bounds.pattern_work import MAX_PATTERN_WORK, pattern_work

SEARCHED = 30_000
COSTLY = [
    ("(?:a[abc]{150}|b[abc]{150}a|c[abc]{150}b)+[x-z]", "abc"),
    ("[ab]*a[ab]{100}x", "ab"),
    ("[ab]*a[ab]{20}x", "ab"),
    ("(a|b)*a(a|b){20}x", "ab"),
    (r"(\w{30}){3}x", "aé"),
    (r"\w{80}x", "aé日語"),
    (r"(?:\w\b|.){20}x", "aé -"),
    (r"[\w.]{20}[a-z]{3}-(a|ab|abc){2,5}x?[x-z]", "abc-."),
    (r"\b\pL{1,}[x-z]", "ab é"),
    ("(?i)[a-z]{100}!", "abKé"),
    (r"(?i)[\x{0}-\x{10ffff}]", "aé"),
    ("[à-ÿ]{40}!", "éè"),
]


def measured_us(pattern: str, text: str) -> float:
    """Return the least of three times that the engine takes to compile *pattern* and search *text*."""
    literal = "".join(f"\\U{ord(char):08x}" for char in pattern)
    library = import_module("cel")
    program, context = library.compile(f'text.matches("{literal}")'), library.Context()
    context.add_variable("text", text)
    times = []
    for _ in range(3):
        began = time.thread_time()
        program.execute(context)
        times.append((time.thread_time() - began) * 1e6)
    return min(times)


@pytest.mark.parametrize(("pattern", "letters"), COSTLY)
def test_a_costly_pattern_takes_no_longer_than_is_estimated(pattern: str, letters: str) -> None:
    text = "".join(random.Random(1).choices(letters, k=SEARCHED))
    work = pattern_work(pattern)
    assert work is not None
    assert measured_us(pattern, "") < 3 * work.compiled + 500, "three times: another machine may be slower"
    assert measured_us(pattern, text) < 3 * (work.compiled + work.search(len(text))) + 500


@pytest.mark.parametrize(
    "pattern",
    [
        "(?i)password|secret|token",
        r"\b\d{3}-\d{2}-\d{4}\b",
        r"^[\w.+-]{1,40}@[\w-]{1,40}\.example$",
        r"[\w.+-]+@[\w-]+\.[a-z]{2,}",
        r"^https://[a-z0-9.-]+\.example\.com(/|$)",
    ],
)
def test_a_usual_pattern_may_search_a_long_text(pattern: str) -> None:
    work = pattern_work(pattern)
    assert work is not None and work.compiled + work.search(100_000) < 40_000


def test_counts_are_found_however_they_are_written() -> None:
    known = [
        pattern_work(text) for text in ("a{500}", "a{ 500 }", "a{2,500}", "a{2, 500}", "(?:a{50}){10}", "a{000500}")
    ]
    assert all(work is not None and work.places >= 500 for work in known)
    many = pattern_work(r"(?:\w{100}){60}")
    assert many is not None and many.compiled == MAX_PATTERN_WORK


@pytest.mark.parametrize("pattern", ["(?x)a{ 9 #\n}", "(?ix-s:a)", "a)", "(a", "[a", "a{b}", "(?=a)", "\\"])
def test_what_is_not_understood_has_no_bound(pattern: str) -> None:
    assert pattern_work(pattern) is None
