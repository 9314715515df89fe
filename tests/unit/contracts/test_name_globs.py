"""Globs of names match what those of the standard library match, and reading hundreds of them takes no time."""

import random
from fnmatch import fnmatchcase
from time import process_time

import pytest

from towpath_contracts.tools.grants import MAX_CHAIN_ENTRIES, chain_covers
from towpath_contracts.tools.name_globs import name_matches

SIGNS = "ab.*?[]!-^\\"
NAMES = "abc.]!-^\\[\n"
SLOWLY_COMPILED = "*." * 58


def test_random_patterns_match_what_fnmatch_matches() -> None:
    chosen = random.Random(11)
    seen = set()
    for _ in range(40_000):
        pattern = "".join(chosen.choices(SIGNS, k=chosen.randrange(9)))
        name = "".join(chosen.choices(NAMES, k=chosen.randrange(6)))
        wanted = fnmatchcase(name, pattern)
        assert name_matches(pattern, name) is wanted, (pattern, name)
        seen.add(wanted)
    assert seen == {True, False}


def test_random_brackets_hold_the_letters_that_those_of_fnmatch_hold() -> None:
    """Of ranges that have no letter others remain, and signs come to other places."""
    chosen = random.Random(12)
    for _ in range(3_000):
        pattern = f"[{''.join(chosen.choices('abc!-', k=chosen.randrange(1, 10)))}]"
        for name in "abc!-":
            assert name_matches(pattern, name) is fnmatchcase(name, pattern), (pattern, name)


@pytest.mark.parametrize(
    ("pattern", "matched", "others"),
    [
        ("files.*", "files.read", ("file.read", "files", "Files.read")),
        ("*.read", "files.read", ("files.reads", "read")),
        ("file[!s-z]?read", "file1.read", ("files.read", "file.read")),
        ("[!b-a]", "x", ("", "xy")),
        ("[]x-]", "]", ("", "[")),
        ("[b-a!-c]", "b", ("-", "c", "")),
        ("[b-a!-ce-g]", "b", ("-", "c", "e", "f", "g")),
        ("[b-ax-z]", "y", ("a", "b", "-")),
        ("a[b", "a[b", ("ab",)),
        ("*", "", ()),
    ],
)
def test_a_pattern_matches_the_whole_name_in_its_case(pattern: str, matched: str, others: tuple[str, ...]) -> None:
    for name in (matched, *others):
        assert name_matches(pattern, name) is fnmatchcase(name, pattern) is (name == matched), name
    assert not name_matches("[b-a]", "a"), "a range without a letter matches none"


def test_a_grant_of_long_patterns_is_held_against_a_tool_in_no_time() -> None:
    """As regular expressions these take half a second, in which no fact and no decision of anybody goes on."""
    grant = tuple({"tool": f"{SLOWLY_COMPILED}*{place}"} for place in range(MAX_CHAIN_ENTRIES))
    began = process_time()
    assert not chain_covers((grant,), "files.read", "call")
    assert process_time() - began < 0.1
