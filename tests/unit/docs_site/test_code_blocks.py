"""Every code block of the pages is run, or read by whatever reads such a thing in the product; none is left out."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from cyclopts import App
from pydantic import ValidationError
from pydantic_settings import SettingsError
from tests.docs_site.block_list import held_blocks
from tests.docs_site.block_readers import read_block
from tests.docs_site.code_blocks import (
    DRAWINGS,
    NOT_TRIED,
    PROGRAMS,
    RUN_BY,
    RUN_WHOLE,
    CodeBlock,
    all_blocks,
    command_lines,
)
from tests.docs_site.config_readers import CONFIG_LANGUAGES, read_config
from tests.docs_site.typed_blocks import PRELUDES, typed_module
from tests.support.places import ROOT

from towpath.cli.app import make_app
from towpath_embedded.__main__ import app as up_app

BLOCKS = all_blocks()
IN_CLONE = re.compile(r"(tests|bench|examples)/")
PLACEHOLDERS = {"CALL": "0199c0de-0000-7000-8000-000000000000"}
"""Words of the pages that stand for what has a form of its own."""


def of(*languages: str) -> list[CodeBlock]:
    """Return the blocks in *languages* that have no name, without those that nothing tries."""
    return [b for b in BLOCKS if b.language in languages and not b.name and not NOT_TRIED.keys() & keys(b)]


def keys(block: CodeBlock) -> set[str]:
    """Return what *block* is called in `NOT_TRIED`."""
    kin = [b for b in BLOCKS if (b.page, b.language) == (block.page, block.language)]
    return {f"{block.page} {block.language}", f"{block.page} {block.language} {kin.index(block) + 1}"}


def test_every_block_is_tried_in_some_way() -> None:
    tried = {"sh", "yaml", "json", "http", "python", *CONFIG_LANGUAGES} | DRAWINGS
    assert [f"{b.place}: {b.language}" for b in BLOCKS if not b.name and b.language not in tried] == []
    assert NOT_TRIED.keys() - {key for b in BLOCKS for key in keys(b)} == set(), "these are there no more"


def test_every_named_block_is_run_by_the_test_of_its_page() -> None:
    left = []
    for block in BLOCKS:
        if block.name:
            test = (ROOT / RUN_BY[block.page]).read_text("utf-8") if block.page in RUN_BY else ""
            if block.name not in re.findall(r"""["']([\w.-]+)["']""", test) and not (test and "." in block.name):
                left.append(f"{block.place}: {block.name}: name the test that runs it in RUN_BY")
    assert left == []


def test_every_command_that_is_not_run_is_one_that_the_command_line_takes() -> None:
    app, wrong = make_app(), []
    for block in [one.block for one in held_blocks() if one.how == "parsed"]:
        for words in command_lines(block.text):
            told = [PLACEHOLDERS.get(word, word) for word in words]
            command = told[told.index("towpath") :] if told[0] == "uv" and "towpath" in told else told
            try:
                parse(app, command)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - parsers with exceptions of its own
                wrong.append(f"{block.place}: {' '.join(words)}: {error}")
    assert wrong == []


def parse(app: App, command: list[str]) -> None:
    """Read a command without running it."""
    if command[0] != "towpath":
        assert command[0] in PROGRAMS, f"{command[0]} is no program that the pages use"
        if command[0] == "uv":
            missing = [word for word in command if IN_CLONE.match(word) and not (ROOT / word).exists()]
            assert missing == [], f"these are not in a clone: {missing}"
    elif command[1] == "up":
        up_app.parse_args(command[1:], exit_on_error=False, print_error=False)
    else:
        app.parse_args(command[1:], exit_on_error=False, print_error=False)


def test_no_command_has_an_address_of_a_database_from_a_variable_among_its_arguments() -> None:
    """It has a password, and other users see arguments; the command line reads TOWPATH_DATABASE_URL by itself."""
    shown = re.compile(r"""--database-url[ =]["']?\$""")
    assert [block.place for block in BLOCKS if shown.search(block.text)] == []


def test_a_command_that_is_none_is_told() -> None:
    with pytest.raises(Exception, match="--detached"):
        parse(make_app(), ["towpath", "run", "stock", "hello", "--detached"])
    assert list(command_lines("A=1 towpath a \\\n  'b c' > x | jq . && towpath d [--e f]  # g")) == [
        *(["towpath", "a", "b c"], ["jq", "."], ["towpath", "d", "--e", "f"]),
    ]


@pytest.mark.parametrize("block", of("yaml", "json", "http"), ids=lambda block: block.place)
def test_a_file_or_a_request_is_read_as_the_product_reads_it(block: CodeBlock, tmp_path: Path) -> None:
    read_block(block, tmp_path)


@pytest.mark.parametrize("block", of(*CONFIG_LANGUAGES), ids=lambda block: block.place)
def test_settings_and_parts_of_configurations_are_read_by_the_program_that_reads_such_files(
    block: CodeBlock, tmp_path: Path
) -> None:
    read_config(block, tmp_path)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("ini", "TOWPATH_READ_DATABASE_HOST=db-2:5432\n"),
        ("ini", 'TOWPATH_PROVIDER_LIMITS=\'{"openai": {"concurrency": 0}}\'\n'),
        ("ini", "wal_levels = replica\n"),
        ("nats", "port: 4222\ncluster { rutes: [] }\n"),
        ("sql", "-- migrate:up\n"),
    ],
)
def test_settings_that_nothing_would_start_with_are_told(language: str, text: str, tmp_path: Path) -> None:
    with pytest.raises((AssertionError, ValidationError, SettingsError)):
        read_config(CodeBlock("docs/a.md", 1, language, "", text), tmp_path)


def test_python_uses_the_sdk_as_it_is(tmp_path: Path) -> None:
    """Checked by types, all at once: what runs it in earnest are the tests of the guides and the tutorial."""
    places = {}
    for number, block in enumerate(block for block in of("python") if block.page not in RUN_WHOLE):
        path = tmp_path / f"block_{number}.py"
        path.write_text(typed_module(block), "utf-8")
        places[path.name] = block.place
    command = [
        Path(sys.executable).parent / "ty",
        "check",
        "--output-format",
        "concise",
        "--python",
        sys.prefix,
        tmp_path,
    ]
    paths = [f"--extra-search-path={ROOT / folder}" for folder in ("libs", "services")]
    passed = ("missing-union-attribute", "invalid-implicit-return-in-function-with-stub-body")  # shown in short
    command += [f"--ignore={rule}" for rule in passed]
    done = subprocess.run([*command, *paths, tmp_path], cwd=tmp_path, capture_output=True, text=True, check=False)
    told = re.sub(r"\S*(block_\d+\.py)", lambda found: f"{places[found[1]]} ({found[1]})", done.stdout)
    assert done.returncode == 0, told + done.stderr
    assert PRELUDES.keys() <= {block.page for block in of("python")}
