"""The workspace tools, with every limit and every error, and mounts of a host."""

import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from towpath import HostMount, RefusedError
from towpath_contracts.canonical import digest_text
from towpath_contracts.glob_patterns import matching_paths
from towpath_contracts.tools.internal_tools import MAX_ANSWER_BYTES, MAX_LIST_BYTES
from towpath_contracts.tools.workspace import (
    MAX_DEPTH,
    MAX_NAMES_BYTES,
    MAX_SEGMENT,
    MAX_WORKSPACE_BYTES,
    FileChange,
    PathRefusedError,
    clean_path,
)
from towpath_engine.rules.tool_result import ContentMissingError, InternalToolError
from towpath_engine.rules.workspace_tools import apply_workspace, checked_changes, texts_needed
from towpath_engine.state.limits import json_bytes, shorten_answer
from towpath_engine.state.workspace import WorkspaceFile


class Desk:
    """Files under the workspace tools; a refused call changes nothing."""

    def __init__(self, **mounted: str) -> None:
        self.files: dict[str, WorkspaceFile] = {}
        self.texts: dict[str, str] = {}
        for name, text in mounted.items():
            self.texts[digest_text(text)] = text
            path = f"in/{name}.txt"
            self.files[path] = WorkspaceFile(digest=digest_text(text), size=len(text), read_only=True)

    def __call__(self, tool: str, **args: Any) -> dict[str, Any]:
        wanted = texts_needed(f"workspace_{tool}", args, self.files)
        contents = {digest: self.texts[digest] for digest in wanted}
        applied = apply_workspace(f"workspace_{tool}", args, self.files, contents)
        self.texts |= applied.stored
        for change in applied.changes:
            before = self.files.pop(change.path, None)
            if change.digest is not None:
                version = 1 if before is None else before.version + 1
                self.files[change.path] = WorkspaceFile(digest=change.digest, size=change.size, version=version)
        return applied.result

    def refused(self, tool: str, **args: Any) -> str:
        before = dict(self.files)
        with pytest.raises(InternalToolError) as caught:
            self(tool, **args)
        assert self.files == before
        return caught.value.code

    def text(self, path: str) -> str:
        return self.texts[self.files[path].digest]


def test_paths_are_relative_ascii_and_bounded() -> None:
    assert clean_path("a//b///c.txt") == "a/b/c.txt", "duplicate slashes collapse"
    assert clean_path("/".join("a" * MAX_DEPTH)) and clean_path("a" * MAX_SEGMENT)
    wrong = ("", "/a", "a/../b", "./a", "a/.", "é", "a\n", "/".join("a" * (MAX_DEPTH + 1)), "a" * (MAX_SEGMENT + 1))
    for path in wrong:
        with pytest.raises(PathRefusedError):
            clean_path(path)
        assert Desk().refused("write", path=path, content="x") == "path_invalid"


def test_files_are_created_once_and_then_overwritten_or_appended_to() -> None:
    desk = Desk()
    assert desk("write", path="a/b.txt", content="one") == {"path": "a/b.txt", "version": 1, "size": 3}
    assert desk.refused("write", path="a/b.txt", content="two") == "path_taken"
    assert desk.refused("write", path="a", content="x") == "path_taken", "a folder is no file"
    assert desk.refused("write", path="a/b.txt/c", content="x") == "path_taken", "a file is no folder"
    assert desk("write", path="a/b.txt", content="two", mode="overwrite")["version"] == 2
    assert desk("write", path="a/b.txt", content="!", mode="append")["version"] == 3
    assert desk.text("a/b.txt") == "two!"
    for mode in ("overwrite", "append"):
        assert desk.refused("write", path="c.txt", content="x", mode=mode) == "path_unknown"
    assert desk.refused("write", path="c.txt", content="x", mode="rename") == "arguments_invalid"
    assert desk.refused("write", path="c.txt", content="x" * 48_001) == "arguments_invalid"
    desk("write", path="c.txt", content="x" * 48_000)


def test_edits_replace_exactly_what_is_meant() -> None:
    desk = Desk()
    desk("write", path="a", content="one two two")
    assert desk.refused("edit", path="a", old="three", new="x") == "text_not_found"
    assert desk.refused("edit", path="a", old="two", new="x") == "text_not_unique"
    desk("edit", path="a", old="two", new="2", all=True)
    desk("edit", path="a", old="one", new="1")
    assert desk.text("a") == "1 2 2" and desk.files["a"].version == 3


def test_mounted_files_are_read_and_never_changed() -> None:
    desk = Desk(x="mounted")
    assert desk("read", path="in/x.txt")["content"] == "mounted"
    for call in (
        {"tool": "write", "path": "in/x.txt", "content": "y", "mode": "overwrite"},
        {"tool": "edit", "path": "in/x.txt", "old": "m", "new": "n"},
        {"tool": "delete", "path": "in"},
    ):
        assert desk.refused(**call) == "file_read_only"


def test_reading_goes_on_from_a_line() -> None:
    desk = Desk()
    desk("write", path="a", content="".join(f"line {n}\n" for n in range(1, 101)))
    first = desk("read", path="a", max_chars=100)
    assert first["to_line"] == 13 and not first["complete"] and first["lines"] == 100
    rest = desk("read", path="a", from_line=first["to_line"] + 1)
    assert first["content"] + rest["content"] == desk.text("a") and rest["complete"]
    assert desk.refused("read", path="a", from_line=101) == "line_unknown"
    desk("write", path="long", content="x" * 500)
    assert not desk("read", path="long", max_chars=100)["complete"], "a line longer than that is cut"
    assert desk.refused("read", path="b") == "path_unknown"


def test_listing_globbing_and_searching_find_what_is_there() -> None:
    desk = Desk(x="alpha\nBeta\n", y="beta\n")
    desk("write", path="src/a/b.py", content="beta = 1\n")
    assert [f["name"] for f in desk("list", path="in")["files"]] == ["x.txt", "y.txt"]
    assert desk("list")["folders"] == ["in/", "src/"]
    assert desk.refused("list", path="in/x.txt") == "path_is_file"
    assert desk.refused("list", path="nowhere") == "path_unknown"
    assert desk("glob", pattern="**/*.py")["paths"] == ["src/a/b.py"]
    found = [(match["path"], match["line"]) for match in desk("grep", text="beta")["matches"]]
    assert found == [("in/y.txt", 1), ("src/a/b.py", 1)]
    assert desk("grep", text="beta", ignore_case=True, pattern="in/*")["count"] == 2
    assert desk("delete", path="src")["deleted"] == ["src/a/b.py"]
    assert desk.refused("delete", path="src") == "path_unknown"


def test_globs_stay_within_segments_and_are_never_slow() -> None:
    names = ["a.py", "src/a.py", "src/x/b.py"]
    assert matching_paths("*.py", names) == ["a.py"] and matching_paths("**", names) == names
    assert matching_paths("src/**/?.py", names) == ["src/a.py", "src/x/b.py"] and matching_paths("[a].py", names) == []
    assert matching_paths("**/" * 50 + "*a" * 40 + "b", ["/".join(["a" * 80] * 16)]) == []


def test_the_workspace_is_bounded_as_a_whole() -> None:
    desk = Desk()
    for number in range(MAX_WORKSPACE_BYTES // 48_000):
        desk("write", path=f"f{number}", content="x" * 48_000)
    assert desk.refused("write", path="last", content="x" * 48_000) == "workspace_full"
    for number in range(11):
        desk("delete", path=f"f{number}")
    desk("write", path="big", content="x" * 48_000)
    for _ in range(9):
        desk("write", path="big", content="x" * 48_000, mode="append")
    assert desk.refused("write", path="big", content="x" * 48_000, mode="append") == "file_too_large"


def test_an_edit_whose_text_would_be_too_large_makes_none_of_it() -> None:
    desk = Desk()
    for mode in ("create", *["append"] * 9):
        desk("write", path="a", content="x" * 48_000, mode=mode)
    tracemalloc.start()
    try:
        assert desk.refused("edit", path="a", old="x", new="y" * 40_000, all=True) == "file_too_large"
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()
    desk("write", path="b", content="xü" * 1_000)
    assert desk("edit", path="b", old="ü", new="€", all=True)["size"] == 4_000


def test_a_search_that_finds_nothing_looks_at_no_line_alone() -> None:
    desk = Desk(many="A\n" * 250_000)
    tracemalloc.start()
    try:
        assert desk("grep", text="zq", ignore_case=True)["count"] == 0
        assert tracemalloc.get_traced_memory()[1] < 4_000_000, "no list of lines was made"
    finally:
        tracemalloc.stop()
    assert desk("grep", text="a", ignore_case=True)["count"] == 250_000
    assert desk("grep", text="A")["matches"][1] == {"path": "in/many.txt", "line": 2, "text": "A"}
    assert desk("grep", text="A\nA")["count"] == 0, "a line has no end"


def test_a_text_that_did_not_come_is_asked_for() -> None:
    desk = Desk(x="mounted")
    with pytest.raises(ContentMissingError):
        apply_workspace("workspace_read", {"path": "in/x.txt"}, desk.files, {})


def test_d6_answers_are_bounded_and_say_what_they_leave_out() -> None:
    """Row D6: list, glob, grep and delete tell what fits (28 KiB) and count the rest; names have 128 KiB in all."""
    desk = Desk()
    folder = "/".join(["f" * MAX_SEGMENT] * 4)
    made = 0
    for number in range(2 * MAX_NAMES_BYTES // len(folder)):
        try:
            desk("write", path=f"{folder}/{number}", content="here\n")
        except InternalToolError as error:
            assert error.code == "workspace_full" and "names" in str(error)
            break
        made += 1
    assert made == len(desk.files) and MAX_NAMES_BYTES - 400 < sum(map(len, desk.files)) <= MAX_NAMES_BYTES
    listed, deep = desk("list", path=folder), desk("list")
    assert len(listed["files"]) + listed.get("left_out", 0) == made and "left_out" not in deep
    found, lines = desk("glob", pattern="**"), desk("grep", text="here")
    assert found["count"] == lines["count"] == made and len(lines["matches"]) < len(found["paths"]) < made
    for answer in (listed, found, lines):
        assert json_bytes(answer) < MAX_LIST_BYTES + 500
    gone = desk("delete", path="f" * MAX_SEGMENT)
    assert gone["left_out"] > 0 and len(gone["deleted"]) + gone["left_out"] == made and not desk.files
    assert json_bytes(gone) < MAX_LIST_BYTES + 500
    many = Desk(**{f"m{number:03d}": "x" for number in range(999)})
    shown = many("list", path="in")
    assert 0 < shown["left_out"] == 999 - len(shown["files"]) and json_bytes(shown) < MAX_LIST_BYTES + 500


def test_a_read_is_bounded_in_bytes_too() -> None:
    desk = Desk()
    for name, text in (
        ("wide", "\U0001f600" * 48_000),
        ("control", "\x01" * 48_000),
        ("lines", "\x01\x01\x01\n" * 12_000),
    ):
        desk("write", path=name, content=text)
        found = desk("read", path=name, max_chars=48_000)
        assert json_bytes(found) < MAX_ANSWER_BYTES and text.startswith(found["content"])
        assert found["complete"] is (name == "wide"), "nothing but control characters is ever too large"


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        (["new", "new/below"], "new is a folder"),
        (["in/x.txt/below"], "a folder of in/x.txt/below is a file"),
        (["own/file/below/it"], "a folder of own/file/below/it is a file"),
        (["own"], "own is a folder"),
    ],
)
def test_d6_a_change_set_has_no_files_below_files(changed: list[str], fault: str) -> None:
    """Row D6: what a worker gives back is taken whole or not at all: a name is a file or a folder, never both."""
    desk = Desk(x="mounted")
    desk("write", path="own/file", content="x")
    changes = [FileChange(path=path, digest="sha256:00", size=1) for path in changed]
    with pytest.raises(InternalToolError, match=fault) as caught:
        checked_changes(desk.files, changes, scratch=True)
    assert caught.value.code == "path_taken"
    moved = [FileChange(path="own/file"), FileChange(path="own/file/below", digest="sha256:00", size=1)]
    assert len(checked_changes(desk.files, moved, scratch=True)) == 2, "where the file goes, a folder may come"


def test_a_size_below_nothing_is_no_size() -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 0"):
        FileChange(path="a", digest="sha256:00", size=-1)
    with pytest.raises(ValidationError):
        FileChange.model_validate_json('{"path": "a", "digest": "sha256:00", "size": -524288}')


def test_a_folder_is_mounted_without_what_lies_outside_it(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "src" / "__pycache__", outside):
        folder.mkdir(parents=True)
    (outside / "secret.txt").write_text("secret")
    (root / "a.md").write_text("a")
    (root / "src" / "b.py").write_text("b")
    (root / "src" / "__pycache__" / "b.pyc").write_bytes(b"\xff")
    (root / "link.txt").symlink_to(outside / "secret.txt")
    (root / "folder").symlink_to(outside)

    def files(**more: Any) -> list[str]:
        return [file["path"] for file in HostMount(root, **{"roots": [root], **more}).to_json()["files"]]

    assert files() == ["a.md", "src/b.py"], "links are left out"
    assert HostMount(root, roots=[root]).links_left_out() == ["folder", "link.txt"]
    assert HostMount(root, roots=[root], exclude=("link*",)).links_left_out() == ["folder"]
    assert HostMount(root, roots=[tmp_path], follow_symlinks=True).links_left_out() == []
    assert files(follow_symlinks=True) == ["a.md", "src/b.py"], "and never lead outside the roots"
    assert files(follow_symlinks=True, roots=[tmp_path]) == ["a.md", "folder/secret.txt", "link.txt", "src/b.py"]
    assert files(include=("**/*.py",)) == ["src/b.py"] and files(exclude=("src/**",)) == ["a.md"]
    for more in ({"max_bytes": 1}, {"roots": [outside]}, {"exclude": ()}, {"roots": [root / "src"]}):
        with pytest.raises(RefusedError):
            files(**more)
    if os.geteuid():  # root reads everything
        (root / "a.md").chmod(0)
        with pytest.raises(RefusedError):
            files()
    with pytest.raises(RefusedError):
        HostMount(root / "nowhere", roots=[root]).to_json()


def test_a_search_tells_a_hundred_places_and_counts_the_others() -> None:
    desk = Desk(**{f"m{number:03d}": "here\n" for number in range(101)})
    found, lines = desk("glob", pattern="in/*"), desk("grep", text="here")
    assert (len(found["paths"]), found["count"]) == (len(lines["matches"]), lines["count"]) == (100, 101)


def test_a_read_of_many_lines_has_at_most_192_000_bytes_as_json() -> None:
    """A control character has six bytes there: of 48,000 of them a read shows two thirds."""
    desk = Desk()
    line = "\x01" * 100 + "\n"
    desk("write", path="a", content=line * 400)
    read = desk("read", path="a", max_chars=48_000)
    assert read["to_line"] == 192_000 // (6 * 100 + len(r"\n")) and not read["complete"]


@pytest.mark.parametrize(("size", "whole"), [(256 * 1024, True), (256 * 1024 + 1, False)])
def test_an_answer_above_256_kib_is_told_by_its_size_and_how_it_begins(size: int, whole: bool) -> None:
    answer = {"a": "x" * (size - len('{"a":""}'))}
    shown = shorten_answer(answer)
    assert (shown == answer) is whole
    assert whole or (shown["shortened"], shown["bytes"]) == (True, size)
