"""Programs in docs/guides/coming-from.md: Towpath's are no longer than the others', and these can be read."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.docs_site.code_blocks import CodeBlock, blocks_of
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "guides" / "coming-from.md"
FORMAT = ("--isolated", "--line-length", "100", "--config", "format.skip-magic-trailing-comma=true")
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


def test_the_page_has_the_pairs_that_it_promises() -> None:
    assert PAGE.read_text("utf-8").splitlines()[2].startswith("Thirteen small programs")
    assert len(pairs()) == 13
    for pair in pairs():
        assert not pair.theirs.name
        assert [block.language for block in pair.ours] in (["python"], ["python", "yaml"]), pair.title
        assert {Path(block.name).stem for block in pair.ours} == {Path(pair.ours[0].name).stem}
        assert "towpath" in pair.ours[0].text


@pytest.mark.parametrize("pair", pairs(), ids=lambda pair: pair.title.replace(" ", "-").lower())
def test_a_program_is_no_longer_than_that_of_the_other_framework(pair: Pair) -> None:
    ours = sum(lines_of(block.text) for block in pair.ours)
    assert ours <= lines_of(pair.theirs.text), f"{pair.title}: {ours} lines beside {lines_of(pair.theirs.text)}"


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


def test_one_formatter_wraps_both_sides(tmp_path: Path) -> None:
    for number, pair in enumerate(pairs()):
        (tmp_path / f"theirs_{number}.py").write_text(pair.theirs.text, "utf-8")
        (tmp_path / f"ours_{number}.py").write_text(pair.ours[0].text, "utf-8")
    command = (sys.executable, "-m", "ruff", "format", *FORMAT, "--check", str(tmp_path))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_test_of_the_page_holds() -> None:
    (block,) = [one for one in blocks_of(PAGE) if one.name == "test_prices.py"]
    names: dict[str, Any] = {"__name__": "test_prices"}
    exec(compile(block.text, block.place, "exec"), names)
    (test,) = [found for name, found in names.items() if re.match("test_", name)]
    test()
