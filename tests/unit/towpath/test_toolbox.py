"""Modules of a user's folder are found, and take the place of no other module."""

import importlib
import importlib.util
import os
import py_compile
import queue
import runpy
import secrets
import sys
import zipfile
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest
from tests.support.worker.shadowing_modules import imported, write_shadowing_modules

from towpath import Worker
from towpath.errors import DeclarationError
from towpath.module_sources import describe_import_fault
from towpath.toolbox import collect, leave_out_working_folder, load_module

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
    monkeypatch.setattr(sys, "path_hooks", [*sys.path_hooks])
    return tmp_path


@pytest.mark.parametrize("name", ["shop_tools", "shop_tools.py"])
def test_a_file_named_as_another_module_never_takes_its_place(folder: Path, name: str) -> None:
    for module in ("secrets", "queue", "yaml"):
        sys.modules.pop(module, None)
    leave_out_working_folder()
    tools, _ = collect([load_module(name)])
    assert tools[0]() == "hello[1]8"
    assert imported(folder) == []


def test_the_working_folder_comes_last_and_once(folder: Path) -> None:
    sys.path.insert(0, str(folder))  # as `python -m` does
    leave_out_working_folder()
    assert str(folder) not in sys.path
    for _ in range(2):
        load_module("shop_tools")
    assert [place for place, entry in enumerate(sys.path) if entry == str(folder)] == [len(sys.path) - 1]


@pytest.mark.parametrize("module", ["queue", "secrets"])
def test_a_file_of_tools_named_as_a_standard_module_is_loaded_beside_it(
    folder: Path, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / f"{module}.py").write_text("from towpath import tool\n@tool\ndef say() -> str:\n    return 'mine'\n")
    monkeypatch.delitem(sys.modules, module)
    leave_out_working_folder()
    loaded = load_module(f"./{module}.py")
    assert loaded.say() == "mine"
    assert load_module(f"./{module}.py") is loaded
    assert importlib.import_module(module).__file__ in {queue.__file__, secrets.__file__}


def test_a_named_module_of_the_folder_is_found_before_one_that_is_installed(folder: Path) -> None:
    installed = folder / "installed"
    installed.mkdir()
    (installed / "shop_tools.py").write_text("raise ImportError('somebody else')\n")
    sys.path.insert(0, str(installed))
    leave_out_working_folder()
    assert load_module("shop_tools").__file__ == str(folder / "shop_tools.py")


def test_a_module_that_fails_is_not_taken_for_one_that_is_loaded(folder: Path) -> None:
    leave_out_working_folder()
    (folder / "broken_tools.py").write_text("import surely_not_there\n")
    for name in ("broken_tools", "broken_tools.py"):
        for _ in range(2):
            with pytest.raises(DeclarationError, match=r"broken_tools\.py:1: there is no module surely_not_there"):
                load_module(name)


def is_found(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def test_what_a_library_may_import_is_not_looked_for_where_no_module_was_named(folder: Path) -> None:
    """A file of tools that lies elsewhere brings its own folder, and not the one where it is named."""
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "far_tools.py").write_text("")
    (folder / "perhaps_installed.py").write_text("")
    sys.path.insert(0, str(folder))
    leave_out_working_folder()
    load_module(str(elsewhere / "far_tools.py"))
    assert not is_found("perhaps_installed")
    load_module("shop_tools")
    assert is_found("perhaps_installed")


def share(folder: Path, mode: int) -> None:
    """Let others write *folder*; where these tests run as root, also give it to another user."""
    folder.chmod(mode)
    if os.geteuid() == 0 and mode == 0o755:
        os.chown(folder, 4_242, 4_242)


SHARED = [0o777, 0o1777, *([0o755] if os.geteuid() == 0 else [])]


@pytest.mark.parametrize("mode", SHARED)
def test_no_module_is_imported_from_a_folder_that_others_may_change(folder: Path, mode: int) -> None:
    share(folder, mode)
    with pytest.raises(DeclarationError, match=f"shop_tools is not looked for in {folder}: {folder} "):
        load_module("shop_tools")
    assert not is_found("helper_of_tools")


def test_no_module_is_imported_from_a_package_that_others_may_change(folder: Path) -> None:
    name = f"package_{secrets.token_hex(4)}"  # on the path of these tests there may be a folder of any usual name
    (folder / name).mkdir()
    (folder / name / "tools.py").write_text("")
    assert load_module(f"{name}.tools").__name__ == f"{name}.tools"
    del sys.modules[f"{name}.tools"], sys.modules[name]
    sys.path.remove(str(folder))
    share(folder / name, 0o777)
    with pytest.raises(DeclarationError, match=f"{name} can be written by other users"):
        load_module(f"{name}.tools")


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_a_file_is_loaded_from_a_shared_folder_and_nothing_beside_it(folder: Path, mode: int) -> None:
    """The file was named by its path; what else lies there was not."""
    (folder / "alone.py").write_text("WORD = 'alone'\n")
    share(folder, mode)
    assert load_module("./alone.py").WORD == "alone"
    with pytest.raises(DeclarationError, match="imports helper_of_tools, which is not looked for beside it"):
        load_module("./shop_tools.py")
    with pytest.raises(DeclarationError, match="imports helper_of_tools"):
        load_module("shop_tools.py")
    assert not is_found("helper_of_tools")


def test_who_owns_a_file_that_was_named_is_trusted_with_its_folder(folder: Path) -> None:
    """Such as the person whose folder a container sees."""
    if os.geteuid() == 0:
        for path in (folder, folder / "shop_tools.py", folder / "helper_of_tools.py"):
            os.chown(path, 4_242, 4_242)
    tools, _ = collect([load_module("./shop_tools.py")])
    assert tools[0]() == "hello[1]8"


@pytest.mark.parametrize("name", ["shop_tools", "./shop_tools.py"])
def test_no_module_is_imported_from_below_a_folder_where_others_may_rename_it(folder: Path, name: str) -> None:
    """They would put another folder in the place of the one that was looked at."""
    below = folder / "below" / "project"
    below.mkdir(parents=True)
    for file in ("shop_tools.py", "helper_of_tools.py"):
        (folder / file).rename(below / file)
    below.parent.chmod(0o777)
    os.chdir(below)
    with pytest.raises(DeclarationError, match=f"{below.parent} can be written by other users"):
        load_module(name)
    assert not is_found("helper_of_tools")


def plant_bytecode(folder: Path, module: str) -> None:
    """Have other code lie in `__pycache__` than the source has, as who may write that folder does."""
    source = folder / f"{module}.py"
    before, length = source.read_text(), source.stat()
    planted = "WORD = 'planted'"
    source.write_text(planted + " " * (length.st_size - len(planted)))
    os.utime(source, ns=(length.st_atime_ns, length.st_mtime_ns))
    py_compile.compile(str(source), doraise=True)
    source.write_text(before)
    os.utime(source, ns=(length.st_atime_ns, length.st_mtime_ns))


@pytest.mark.parametrize("name", ["long_tools", "./long_tools.py", "shop.long_tools", "imports_tools"])
def test_no_bytecode_that_lies_beside_a_module_is_run_or_written(folder: Path, name: str) -> None:
    (folder / "shop").mkdir()
    (folder / "imports_tools.py").write_text("from shop.long_tools import WORD\n")
    for place in (folder, folder / "shop"):
        (place / "long_tools.py").write_text("WORD = 'mine'  # as long as what is planted\n")
        plant_bytecode(place, "long_tools")
    assert load_module(name).WORD == "mine"
    assert {path.name.partition(".")[0] for path in folder.rglob("*.pyc")} == {"long_tools"}


@pytest.mark.parametrize("place", ["helper_of_tools.py", "shop_tools.py", "shop", "shop/part.py"])
def test_no_module_is_imported_from_a_file_that_others_may_change(folder: Path, place: str) -> None:
    (folder / "shop").mkdir()
    (folder / "shop" / "part.py").write_text("")
    (folder / "shop_tools.py").write_text("import shop.part\nimport helper_of_tools\n")
    (folder / place).chmod(0o777)
    with pytest.raises(DeclarationError, match=f"{folder / place} can be written by other users"):
        load_module("shop_tools")
    (folder / place).chmod(0o755)
    if os.geteuid() == 0:
        os.chown(folder / place, 4_242, 4_242)
        with pytest.raises(DeclarationError, match=f"{folder / place} belongs to another user"):
            load_module("shop_tools")
        os.chown(folder / place, 0, 0)
    assert load_module("shop_tools").shop.part.__file__ == str(folder / "shop" / "part.py")


def test_a_script_of_the_folder_is_run_by_its_path(folder: Path) -> None:
    load_module("shop_tools")
    (folder / "report.py").write_text("TOLD = 7\n")
    assert runpy.run_path(str(folder / "report.py"))["TOLD"] == 7


def test_modules_are_imported_from_an_archive_that_nobody_else_may_change(folder: Path) -> None:
    (folder / "shop_tools.py").write_text("import of_an_archive\n")
    packed = folder / "parts.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("of_an_archive/__init__.py", "from of_an_archive.part import WORD\n")
        archive.writestr("of_an_archive/part.py", "WORD = 'packed'\n")
    sys.path.append(str(packed))
    packed.chmod(0o666)
    with pytest.raises(DeclarationError, match=f"{packed} can be written by other users, so parts.zip is not imported"):
        load_module("shop_tools")
    packed.chmod(0o644)
    assert load_module("shop_tools").of_an_archive.WORD == "packed"


def test_an_environment_in_the_working_folder_keeps_its_bytecode(folder: Path) -> None:
    packages = folder / ".venv" / "site-packages"
    (packages / "installed_shop").mkdir(parents=True)
    (packages / "installed_shop" / "__init__.py").write_text("")
    sys.path.insert(0, str(packages))
    (folder / "shop_tools.py").write_text("import installed_shop\n")
    load_module("shop_tools")
    found = importlib.util.find_spec("installed_shop")
    assert type(found.loader) is SourceFileLoader if found is not None else False


@pytest.mark.parametrize("name", ["numpy", "httpx", "redis", "bs4", "winreg", "pydantic.none", "numpi", "pytset"])
def test_another_library_is_not_taken_for_a_slip_and_nothing_is_installed_by_a_name_with_one(name: str) -> None:
    told = describe_import_fault("tools.py", ModuleNotFoundError(name=name))
    assert told.endswith(f": there is no module {name}; check the name, then install the package that has it")


def test_a_file_that_is_named_as_a_module_is_told(folder: Path) -> None:
    (folder / "shop_tools.py").touch()
    for name in ("surely.shop_tools", "not_here.shop_tools"):
        with pytest.raises(DeclarationError, match=rf"^there is no module {name}; did you mean shop_tools\.py\?$"):
            load_module(name)


def test_a_name_that_a_module_does_not_have_is_told_with_the_near_one(folder: Path) -> None:
    (folder / "shop_tools.py").write_text("\nfrom towpath import tol\n")
    with pytest.raises(DeclarationError, match=r"^shop_tools\.py:2: towpath has no 'tol'; did you mean 'tool'\?$"):
        load_module("shop_tools.py")


def test_a_slip_in_the_name_of_an_installed_module_is_told_before_one_of_python() -> None:
    for name, meant in (("pydantci", "pydantic"), ("asnycio", "asyncio"), ("reqeusts", "requests")):
        told = describe_import_fault("tools.py", ModuleNotFoundError(name=name))
        assert f"; did you mean {meant}? If not, check the name, then install" in told


def test_a_list_of_other_things_is_told_with_its_line(folder: Path) -> None:
    file = folder / "listed_tools.py"
    file.write_text('"""Tools."""\n\nTOOLS = ["look"]\n')
    with pytest.raises(DeclarationError) as caught:
        collect([load_module(str(file))])
    told = "TOOLS is a list of tools and functions, such as TOOLS = [look]; 'look' is none"
    assert str(caught.value) == f"{file}:3: {told}"


@pytest.mark.parametrize(
    ("served", "told"),
    [
        ("tools.py", ", not the text 'tools.py'; a file of tools is served by: towpath worker tools.py"),
        (["look"], "; 'look' is none"),
        (3, ", in a list; 3 is none"),
    ],
)
def test_a_worker_of_other_things_is_told_with_the_line_of_the_program(served: Any, told: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        Worker(served)
    place, said = str(caught.value).split(": ", 1)
    assert place.startswith(f"{__file__}:")
    assert said == f"Worker takes tools and functions, such as Worker([look]){told}"
