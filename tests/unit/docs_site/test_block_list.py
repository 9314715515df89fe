"""Every code block of the pages is run by a test, or a reason is listed why it is not."""

import re

import pytest
from tests.docs_site.__main__ import main
from tests.docs_site.block_list import PLAYED_BY, held_blocks, played_blocks
from tests.docs_site.code_blocks import CodeBlock
from tests.docs_site.left_blocks import LEFT
from tests.docs_site.shell_blocks import ShellCommand, shell_commands
from tests.docs_site.taken_blocks import TAKEN_BY, begins_so, taken
from tests.support.places import ROOT

HELD = list(held_blocks())


def test_a_block_that_is_not_run_has_a_reason() -> None:
    without = [f"{one.block.place}: run it in a page's test, or say why not in LEFT" for one in HELD if not one.by]
    assert without == []


def test_every_reason_is_of_a_block_that_is_there() -> None:
    assert [key for key in LEFT if not any(begins_so(key, one.block) for one in HELD)] == []


def test_tests_that_reasons_name_are_there() -> None:
    named = {path for why in LEFT.values() for path in re.findall(r"tests/[\w/.]+\w", why)}
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_a_page_that_is_played_is_named_by_the_test_that_plays_it() -> None:
    unnamed = [page for page, test in PLAYED_BY.items() if f'play("{page}")' not in (ROOT / test).read_text("utf-8")]
    assert unnamed == []


def test_a_block_that_a_test_takes_is_one_and_that_test_names_it() -> None:
    assert [taken(key).page for key in TAKEN_BY] == [key.partition(":")[0] for key in TAKEN_BY]
    texts = {test: (ROOT / test).read_text("utf-8") for test in {*TAKEN_BY.values()}}
    assert [key for key, test in TAKEN_BY.items() if not in_quotes(key) & quoted(texts[test])] == []


def in_quotes(key: str) -> set[str]:
    """Return how *key* is written in a module."""
    written = key.replace("\n", "\\n")
    return {f'"{written}"', f"'{written}'"}


def quoted(text: str) -> set[str]:
    """Return the texts in a module that is taken of a page, with their quotes."""
    return {found[0].strip() for found in re.finditer(r"""(?<=taken\()\s*(["']).*?\1(?=\s*\))""", text)}


def test_a_reason_is_of_the_blocks_that_begin_so() -> None:
    block = CodeBlock("docs/a.md", 1, "sh", "", "towpath up\n")
    assert begins_so("docs/a.md:", block) and begins_so("docs/a.md: towpath up", block)
    assert not begins_so("docs/a.md: towpath down", block) and not begins_so("docs/b.md:", block)


def test_words_of_a_page_are_given_values_also_in_variables() -> None:
    (one, other) = shell_commands(
        "URL=ADDRESS towpath runs show RUN > file\ntowpath runs show RUN", {"ADDRESS": "a", "RUN": ["b", "c"]}
    )
    assert one == ShellCommand(("towpath", "runs", "show", "b"), (("URL", "a"),), "file")
    assert other.words[-1] == "c"


def test_a_function_of_the_shell_puts_its_words_before_others() -> None:
    (one,) = shell_commands('key() { docker exec gateway "$@"; }\nkey create --caller ann', {})
    assert one.words == ("docker", "exec", "gateway", "create", "--caller", "ann")


def test_a_block_of_a_page_that_is_left_may_be_played_all_the_same() -> None:
    page = "docs/guides/three-machines.md"
    assert [block.text.split()[0] for block in played_blocks(page)] == [
        *("openssl", "deploy/make-secrets", "towpath", "/opt/towpath-0.2/bin/towpath", "install")
    ]


def test_the_list_has_a_line_for_each_block(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["blocks"]) == 0
    shown = capsys.readouterr().out
    assert all(f"{one.block.place}\t" in shown for one in HELD)
    assert "run sh: " in shown
