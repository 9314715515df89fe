"""Modules of a user's folder are found, and take the place of no other module."""

import importlib
import queue
import secrets
import sys
from pathlib import Path

import pytest
from tests.support.worker.shadowing_modules import imported, write_shadowing_modules

from towpath.toolbox import add_working_folder, collect, load_module

TOOLS = """
import json, queue, secrets
import yaml
import helper_of_tools
from towpath import tool
@tool
def say() -> str:
    return helper_of_tools.WORD + json.dumps(yaml.safe_load("[1]")) + str(len(secrets.token_hex(4)))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder as the working one, in a process whose path and modules are put back."""
    write_shadowing_modules(tmp_path)
    (tmp_path / "helper_of_tools.py").write_text("WORD = 'hello'\n")
    (tmp_path / "shop_tools.py").write_text(TOOLS)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["shop_tools", "shop_tools.py"])
def test_a_file_named_as_another_module_never_takes_its_place(folder: Path, name: str) -> None:
    for module in ("secrets", "queue", "yaml"):
        del sys.modules[module]
    add_working_folder()
    tools, _ = collect([load_module(name)])
    assert tools[0]() == "hello[1]8"
    assert imported(folder) == []


def test_the_working_folder_comes_last_and_once(folder: Path) -> None:
    sys.path.insert(0, str(folder))  # as `python -m` does
    add_working_folder()
    add_working_folder()
    assert [place for place, entry in enumerate(sys.path) if entry == str(folder)] == [len(sys.path) - 1]


@pytest.mark.parametrize("module", ["queue", "secrets"])
def test_a_file_of_tools_named_as_a_standard_module_is_loaded_beside_it(
    folder: Path, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / f"{module}.py").write_text("from towpath import tool\n@tool\ndef say() -> str:\n    return 'mine'\n")
    monkeypatch.delitem(sys.modules, module)
    add_working_folder()
    loaded = load_module(f"./{module}.py")
    assert loaded.say() == "mine"
    assert load_module(f"./{module}.py") is loaded
    assert importlib.import_module(module).__file__ in {queue.__file__, secrets.__file__}


def test_a_named_module_of_the_folder_is_found_before_one_that_is_installed(folder: Path) -> None:
    installed = folder / "installed"
    installed.mkdir()
    (installed / "shop_tools.py").write_text("raise ImportError('somebody else')\n")
    sys.path.insert(0, str(installed))
    add_working_folder()
    assert load_module("shop_tools").__file__ == str(folder / "shop_tools.py")


def test_a_module_that_fails_is_not_taken_for_one_that_is_loaded(folder: Path) -> None:
    add_working_folder()
    (folder / "broken_tools.py").write_text("import surely_not_there\n")
    for name in ("broken_tools", "broken_tools.py"):
        for _ in range(2):
            with pytest.raises(ModuleNotFoundError, match="surely_not_there"):
                load_module(name)
