"""Globs: what patterns match, and that none of them makes a search slow."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from towpath import HostMount, RefusedError
from towpath_contracts.glob_patterns import MAX_PATTERN, GlobPatternTooLongError, matching_paths
from towpath_engine.rules.tool_result import InternalToolError
from towpath_engine.rules.workspace_tools import apply_workspace, texts_needed

LONG = "/".join(["a" * 80] * 12)


def calls_of(pattern: str, path: str) -> int:
    """Return how many functions are called to match one path: what is tried twice is called twice."""
    count = 0

    def on_event(_frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        matching_paths(pattern, [path])
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("**", ["a.py", "src/a.py", "src/x/b.py"]),
        ("*", ["a.py"]),
        ("src/**", ["src/a.py", "src/x/b.py"]),
        ("src/a.py/**", ["src/a.py"]),
        ("**/**/*.py", ["a.py", "src/a.py", "src/x/b.py"]),
        ("**/*/**/*", ["src/a.py", "src/x/b.py"]),
        ("**/x/**/?.py", ["src/x/b.py"]),
        ("s*c/*a*", ["src/a.py"]),
        ("s**c//a.py", ["src/a.py"]),
        ("*/", ["a.py"]),
        ("src*a.py", []),
        ("src?a.py", []),
        ("[a].py", []),
        ("/", []),
    ],
)
def test_globs_match_whole_paths_segment_by_segment(pattern: str, found: list[str]) -> None:
    assert matching_paths(pattern, ["src/x/b.py", "a.py", "src/a.py"]) == found


@pytest.mark.parametrize(
    "pattern",
    [
        *("*a*a*a*a*b", "**/*/**/*", "*" + "a" * 255, "*a?" * 80 + "b", "**/*" + "a" * 39 + "b" + "a" * 39),
        *("**/" + "a*/" * 80 + "b", "*a" * 127 + "b"),
    ],
)
@pytest.mark.parametrize("path", ["a" * 1_000, LONG, "a/" * 500 + "a"])
def test_a_letter_of_a_path_is_looked_at_once_whatever_the_pattern(pattern: str, path: str) -> None:
    assert calls_of(pattern, path) <= 2 * len(path) + 4 * MAX_PATTERN


def test_patterns_are_bounded_and_a_longer_one_is_refused(tmp_path: Path) -> None:
    assert matching_paths("a" * MAX_PATTERN, ["a" * MAX_PATTERN])
    long = "*" * (MAX_PATTERN + 1)
    with pytest.raises(GlobPatternTooLongError, match=r"257 characters; the limit is 256"):
        matching_paths(long, [])
    for tool, args in (("workspace_glob", {"pattern": long}), ("workspace_grep", {"text": "x", "pattern": long})):
        assert texts_needed(tool, args, {}) == frozenset(), "nothing is read for a call that will be refused"
        with pytest.raises(InternalToolError, match="at most 256 characters") as caught:
            apply_workspace(tool, args, {}, {})
        assert caught.value.code == "arguments_invalid"
    for mount in (HostMount(tmp_path, roots=[tmp_path], include=[long]), HostMount(tmp_path, exclude=[long])):
        with pytest.raises(RefusedError, match="the limit is 256"):
            mount.links_left_out()
