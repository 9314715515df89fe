"""The library of expressions is imported without its command line, in every process that reads one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def _run_python(program: str, directory: Path) -> list[str]:
    """Return what *program* prints in an interpreter of its own: it changes what is imported."""
    environment = {**os.environ, "PYTHONPATH": str(directory)}
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=True)
    return ended.stdout.splitlines()


@pytest.mark.parametrize(
    "use",
    [
        "from towpath_tas.adapters.cel import compile_condition\ncompile_condition('args.amount > 1')",
        "from towpath_engine.expressions.criterion import compile_criterion\ncompile_criterion('size(artifacts) > 1')",
        "from towpath.networks.policies import condition_fault\ncondition_fault('args.amount > 1')",
    ],
)
def test_expressions_are_read_without_the_command_line_of_their_library(tmp_path: Path, use: str) -> None:
    lines = _run_python(
        f"{use}\nimport sys\nimport cel\n"
        'print(cel.compile("size(name) == 3").execute({"name": "abc"}), "prompt_toolkit" in sys.modules)\n'
        "import cel.cli\nprint(callable(cel.cli.main))",
        tmp_path,
    )
    assert lines == ["True False", "True"]


@pytest.mark.parametrize(
    ("head", "word"),
    [
        ("from . import cli\nWORD = 'unused'", "unused"),
        ("from .cli import WORD", "used"),
        ("from . import cli\nWORD = cli.WORD", "used"),
        ("from .cli import *\nWORD = WORD", "used"),
        ("WORD = 'absent'", "absent"),
    ],
)
def test_a_package_that_needs_its_submodule_is_imported_with_it(tmp_path: Path, head: str, word: str) -> None:
    package = tmp_path / "headed"
    package.mkdir()
    (package / "__init__.py").write_text(head)
    (package / "cli.py").write_text("WORD = 'used'")
    lines = _run_python(
        "from towpath_contracts.problems.cel_library import import_without\n"
        'import_without("headed", "cli")\nimport headed\nprint(headed.WORD)\n'
        "from headed import cli\nprint(cli.WORD)",
        tmp_path,
    )
    assert lines == [word, "used"]
