"""What type checkers say of users' programs, with the wheel as it is installed."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.places import ROOT
from tests.support.platform.unpacked_wheel import unpacked_wheel

FILES = ROOT / "tests" / "typing"
SCRIPTS = Path(sys.executable).parent
MARK = re.compile(r"# wrong( for any)?$")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked."""
    return unpacked_wheel(tmp_path_factory)


def marked(*, for_any: bool) -> set[tuple[str, int]]:
    """Return the lines that are to be found wrong: all, or those that any checker finds."""
    lines = (FILES / "wrong.py").read_text().splitlines()
    found = [(number, MARK.search(line)) for number, line in enumerate(lines, 1)]
    return {("wrong.py", number) for number, mark in found if mark and (mark[1] or not for_any)}


def found_wrong(command: list[str], folder: Path, **environment: str) -> set[tuple[str, int]]:
    """Return files and lines of what *command* calls an error."""
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    found = re.findall(r"([\w/.-]+\.py):(\d+)(?::\d+)*:? (?:- )?error", done.stdout)
    return {(Path(file).name, int(line)) for file, line in found}


def test_mypy_finds_every_wrong_line_of_a_user_and_no_other(wheel: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--config-file=", "--follow-imports=silent", "--cache-dir", str(tmp_path)]
    found = found_wrong([*command, "right.py", "wrong.py"], FILES, MYPYPATH=str(wheel))
    assert found == marked(for_any=False)


def test_pyright_finds_every_wrong_line_of_a_user_and_no_other(wheel: Path, tmp_path: Path) -> None:
    settings = {
        "include": [str(FILES)],
        "extraPaths": [str(wheel)],
        "venvPath": str(SCRIPTS.parents[1]),
        "venv": SCRIPTS.parent.name,
        "typeCheckingMode": "standard",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    assert found_wrong([str(SCRIPTS / "basedpyright"), "-p", str(tmp_path)], tmp_path) == marked(for_any=False)


def test_ty_finds_the_wrong_types_of_a_user_and_nothing_else(wheel: Path) -> None:
    """It does not look at keywords that are typed dictionaries yet."""
    command = [str(SCRIPTS / "ty"), "check", "--output-format", "concise", "--extra-search-path", str(wheel)]
    found = found_wrong([*command, "--python", str(SCRIPTS.parent), "right.py", "wrong.py"], FILES)
    assert found == marked(for_any=True)
