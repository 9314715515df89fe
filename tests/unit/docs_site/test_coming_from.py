"""Programs in docs/guides/coming-from.md: Towpath's are no longer than the others', and these can be read."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.docs_site.code_blocks import CodeBlock, blocks_of
from tests.docs_site.page_tree import SIDE_BY_SIDE
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "guides" / "coming-from.md"
FORMAT = ("--quiet", "--isolated", "--config", "format.skip-magic-trailing-comma=true")
SHOWN = 64
"""How long lines are on the page, so that two programs fit beside each other."""

USUAL = (79, 88, 100)
"""How long people have them elsewhere: what the page says of lengths must not come from narrow columns."""

IMPORTED = {"agents", "langchain", "langgraph", "pydantic_ai"}


class Pair(NamedTuple):
    """A program of another framework, and the same with Towpath: the program, and the rules that it needs."""

    title: str
    theirs: CodeBlock
    ours: tuple[CodeBlock, ...]


def pairs() -> list[Pair]:
    """Return the pairs of the page, each a section."""
    text = PAGE.read_text("utf-8").splitlines()
    heads = {line: title[3:] for line, title in enumerate(text, 1) if title.startswith("## ")}
    sections: dict[str, list[CodeBlock]] = {}
    for block in blocks_of(PAGE):
        before = [line for line in heads if line < block.line]
        if before:
            sections.setdefault(heads[max(before)], []).append(block)
    return [Pair(title, blocks[0], tuple(blocks[1:])) for title, blocks in sections.items()]


def lines_of(text: str) -> int:
    """Return how many lines of *text* are neither blank nor a comment."""
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in text.splitlines())


def written(folder: Path) -> list[Path]:
    """Write both programs of every pair to *folder*, that of the other framework first."""
    files = []
    for number, pair in enumerate(pairs()):
        for side, block in (("theirs", pair.theirs), ("ours", pair.ours[0])):
            files.append(folder / f"{side}_{number}.py")
            files[-1].write_text(block.text, "utf-8")
    return files


def formatted(folder: Path, width: int) -> None:
    """Have the formatter write everything in *folder* anew, with lines of *width*."""
    command = (sys.executable, "-m", "ruff", "format", *FORMAT, "--line-length", str(width), str(folder))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_has_the_pairs_that_it_promises() -> None:
    assert PAGE.read_text("utf-8").splitlines()[2].startswith("Thirteen small programs")
    assert len(pairs()) == 13
    for pair in pairs():
        assert not pair.theirs.name
        assert [block.language for block in pair.ours] in (["python"], ["python", "yaml"]), pair.title
        assert {Path(block.name).stem for block in pair.ours} == {Path(pair.ours[0].name).stem}
        assert "towpath" in pair.ours[0].text


@pytest.mark.parametrize("width", [SHOWN, *USUAL])
def test_a_program_is_no_longer_than_that_of_the_other_framework(width: int, tmp_path: Path) -> None:
    assert f"{SHOWN} characters, as here, and of\n79, 88 and 100" in PAGE.read_text("utf-8")
    files = written(tmp_path)
    formatted(tmp_path, width)
    for pair, (theirs, ours) in zip(pairs(), zip(files[::2], files[1::2], strict=True), strict=True):
        told = lines_of(theirs.read_text("utf-8"))
        told_by_us = lines_of(ours.read_text("utf-8")) + sum(lines_of(block.text) for block in pair.ours[1:])
        assert told_by_us <= told, f"{pair.title}: {told_by_us} lines beside {told}"


def test_blank_lines_and_comments_do_not_count() -> None:
    assert lines_of("# why\n\nx = 1  # one\n    # more\n    y = 2\n") == 2


def test_each_program_of_the_others_is_python_and_imports_its_framework() -> None:
    for pair in pairs():
        modules = {
            name.partition(".")[0]
            for node in ast.walk(ast.parse(pair.theirs.text))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names])
        }
        assert modules & IMPORTED, pair.title
        assert "towpath" not in modules


def test_each_program_of_ours_imports_public_modules_alone() -> None:
    for pair in pairs():
        imported = {
            node.module or ""
            for node in ast.walk(ast.parse(pair.ours[0].text))
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("towpath")
        }
        assert imported <= {"towpath", "towpath.testing"}, pair.title


def test_one_formatter_wraps_both_sides(tmp_path: Path) -> None:
    files = written(tmp_path)
    texts = [file.read_text("utf-8") for file in files]
    formatted(tmp_path, SHOWN)
    for file, text in zip(files, texts, strict=True):
        assert file.read_text("utf-8") == text, file.name
        assert max(len(line) for line in text.splitlines()) <= SHOWN, file.name


def test_each_pair_stands_side_by_side() -> None:
    """In a table of HTML, which is Markdown inside, so that the blocks are blocks to all who read the page."""
    tables = re.findall(rf"^{re.escape(SIDE_BY_SIDE)}.*?^</table>$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert len(tables) == len(pairs())
    for table, pair in zip(tables, pairs(), strict=True):
        left, right = table.split('\n\n</td><td markdown="block">\n\n')
        assert pair.theirs.text in left
        assert right.startswith(f"**Towpath**, `{pair.ours[0].name}`\n")
        assert all(block.text in right and f"`{block.name}`\n" in right for block in pair.ours)


def test_the_test_of_the_page_holds() -> None:
    (block,) = [one for one in blocks_of(PAGE) if one.name == "test_prices.py"]
    names: dict[str, Any] = {"__name__": "test_prices"}
    exec(compile(block.text, block.place, "exec"), names)
    (test,) = [found for name, found in names.items() if re.match("test_", name)]
    test()
