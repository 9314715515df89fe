"""The tools of one worker, and how they are found in the modules a person names.

A name belongs to one tool; two tools of one name are a mistake that is refused at start, never resolved by order.

What lies in a user's folder never takes the place of the standard library or of what is installed: the folder comes
last on the path, so a `queue.py` there is no module `queue`. The modules that a person names are found in it before any
other. It comes there when a module of it is named, and not before: libraries try to import packages that need not be
installed, and would find a file of that name. Nor does it where another user may add such a file, or, by a folder
further up, put another folder in its place.
"""

import ast
import contextlib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from towpath.errors import DeclarationError
from towpath.hooks import Hook
from towpath.missing_files import missing_file
from towpath.module_sources import SourceLoader, describe_import_fault, load_from_source
from towpath.tools.declaration import AnyTool, Tool, tool
from towpath.tools.functions import place_of
from towpath_fabric.file_owners import ROOT, fault_above, fault_of, program_owner


class WorkerTools:
    """Tools by name and by toolset."""

    def __init__(self, tools: Iterable[AnyTool]) -> None:
        """Take *tools*; raises DeclarationError where two of them share a name."""
        self._by_name: dict[str, AnyTool] = {}
        self._offered: dict[str, tuple[AnyTool, ...]] = {}
        for one in tools:
            other = self._by_name.setdefault(one.name, one)
            if other is not one:
                places = f"{place_of(other.function)} and {place_of(one.function)}"
                msg = f"two tools are named {one.name}: {places}; rename one of them"
                raise DeclarationError(msg)

    def offer(self, toolset: str, tools: Iterable[AnyTool]) -> tuple[str, ...]:
        """Make *tools* all of the discovered tools of *toolset*; return the names that are taken already."""
        for one in self._offered.get(toolset, ()):
            del self._by_name[one.name]
        wanted = tuple(tools)
        free = tuple(one for one in wanted if self._by_name.setdefault(one.name, one) is one)
        self._offered[toolset] = free
        return tuple(one.name for one in wanted if one not in free)

    def find(self, name: str, toolset: str) -> AnyTool | None:
        """Return the tool *name* of *toolset*; None where this worker has no such tool."""
        found = self._by_name.get(name)
        return found if found is not None and found.spec.toolset == toolset else None

    def toolsets(self) -> dict[str, tuple[AnyTool, ...]]:
        """Return the tools of every toolset, in the order they were declared; of a discovered one perhaps none yet."""
        sets: dict[str, list[AnyTool]] = {toolset: [] for toolset in self._offered}
        for one in self._by_name.values():
            sets.setdefault(one.spec.toolset, []).append(one)
        return {name: tuple(found) for name, found in sets.items()}


def leave_out_working_folder() -> None:
    """Take the working folder off the path, where `python -m` without -P put it first; a module named in it adds it."""
    if not sys.flags.safe_path and sys.path[:1] == [_working_folder()]:
        del sys.path[0]


def load_module(name: str) -> ModuleType:
    """Import a dotted module name, or a file given by its path.

    Raises DeclarationError where there is none, or where it can't be imported.
    """
    path = Path(name)
    is_module = path.suffix != ".py" and "/" not in name
    if not is_module and not path.is_file():
        raise DeclarationError(missing_file(path))
    try:
        return _import_named(name) if is_module else _load_file(path.resolve())
    except DeclarationError:
        raise
    except Exception as error:  # whatever user code raises
        raise DeclarationError(describe_import_fault(name, error)) from error


def _import_named(name: str) -> ModuleType:
    """Import *name* from the working folder, where nobody else may change that, or from where it is installed."""
    folder = Path(_working_folder())
    packages = [folder.joinpath(*name.split(".")[:depth]) for depth in range(name.count(".") + 2)]
    trusted = {os.getuid(), ROOT, program_owner()}
    fault = fault_above(folder, trusted) or _fault_of(packages, trusted)
    try:
        if fault is None:
            _append_to_path(folder, trusted)
            _prefer_working_folder(name.partition(".")[0])
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and not (name == error.name or name.startswith(f"{error.name}.")):
            raise  # the module is there; something that it imports is not
        file = folder / f"{name.rpartition('.')[2]}.py"
        cure = f"did you mean {file.name}?" if file.is_file() else "give a dotted name, or a path that ends in .py"
        msg = f"there is no module {name}; {cure}"
        if fault is not None:
            msg = f"{name} is not looked for in {folder}: {fault}. Close it to others, or name a file by its path"
        raise DeclarationError(msg) from error


def _fault_of(places: Iterable[Path], trusted: set[int]) -> str | None:
    """Return which of the *places* that are folders others than *trusted* may change, and why; None where none."""
    for place in places:
        if place.is_dir() and (fault := fault_of(place, trusted)) is not None:
            return f"{place} {fault}"
    return None


def _append_to_path(folder: Path, trusted: set[int]) -> None:
    load_from_source(folder, trusted)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _working_folder() -> str:
    return os.getcwd()  # noqa: PTH109 - an entry of the path is a text


def _load_file(path: Path) -> ModuleType:
    """Run the file as a module of its stem; what lies beside it can be imported, under names that are free.

    The file was named by its path, so it counts whoever may change it; bytecode beside it was not, and does not count.
    Whoever owns the file is trusted with the folder too. One that others may change as well is not looked into.
    """
    trusted = {os.getuid(), ROOT, path.stat().st_uid}
    fault = fault_above(path.parent, trusted) or _fault_of([path.parent], trusted)
    if fault is None:
        _append_to_path(path.parent, trusted)
    name = path.stem if _is_free(path.stem, path) else f"{path.parent.name}_{path.stem}"
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None) == str(path):
        return loaded
    spec = importlib.util.spec_from_file_location(name, path, loader=SourceLoader(name, str(path)))
    if spec is None or spec.loader is None:
        msg = f"{path} can't be imported"
        raise DeclarationError(msg)
    try:
        return _load(spec)
    except ModuleNotFoundError as error:
        if fault is None or error.name is None or PathFinder.find_spec(error.name, [str(path.parent)]) is None:
            raise
        msg = f"{path.name} imports {error.name}, which is not looked for beside it: {fault}. Close it to others"
        raise DeclarationError(msg) from error


def _is_free(name: str, path: Path) -> bool:
    """Return whether importing *name* would give the file *path*, or nothing."""
    if name in sys.modules:
        return getattr(sys.modules[name], "__file__", None) == str(path)
    if name in sys.builtin_module_names:
        return False
    found = PathFinder.find_spec(name)
    return found is None or found.origin in {None, str(path)}


def _prefer_working_folder(name: str) -> None:
    """Import the top-level module *name* from the working folder, if it is there and named as nothing of Python is."""
    folder = _working_folder()
    if name in sys.modules or name in sys.stdlib_module_names:
        return
    found = PathFinder.find_spec(name, [folder])
    if found is not None and found.origin is not None:  # a folder without __init__.py has no place of its own
        _load(found)


def _load(spec: ModuleSpec) -> ModuleType:
    """Run the module of *spec* under its name; it stays unknown where that fails."""
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        raise
    return sys.modules[spec.name]


def collect(modules: Iterable[ModuleType]) -> tuple[list[AnyTool], list[Hook]]:
    """Return the tools and hooks that stand in the modules under any name, or in a list TOOLS, each once."""
    found = [value for module in modules for value in (*vars(module).values(), *_listed_tools(module))]
    tools = {id(value): value for value in found if isinstance(value, Tool)}
    hooks = {id(value): value for value in found if isinstance(value, Hook)}
    return list(tools.values()), list(hooks.values())


def _place_of_list(module: ModuleType) -> str:
    """Return where *module* says what its TOOLS are, as `file:line`; its name where no line says it."""
    file = getattr(module, "__file__", None)
    if file is not None:
        with contextlib.suppress(OSError, ValueError, SyntaxError):
            for statement in ast.parse(Path(file).read_text("utf-8")).body:
                targets = (
                    statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
                )
                if any(isinstance(one, ast.Name) and one.id == "TOOLS" for one in targets):
                    return f"{file}:{statement.lineno}"
    return module.__name__


def functions_without_tool(module: ModuleType) -> tuple[str, ...] | None:
    """Return the public functions of a *module* that has nothing to serve; None for one that has a tool or a hook."""
    tools, hooks = collect([module])
    if tools or hooks:
        return None
    own = [value for value in vars(module).values() if inspect.isfunction(value)]
    return tuple(one.__name__ for one in own if one.__module__ == module.__name__ and not one.__name__.startswith("_"))


def _listed_tools(module: ModuleType) -> list[AnyTool | Hook]:
    """Return what stands in `TOOLS` of *module*, plain functions as tools; raises DeclarationError."""
    written = getattr(module, "TOOLS", None)
    if written is None:
        return []
    if not isinstance(written, list | tuple):
        raise _no_list_of_tools(module, f", not {type(written).__name__}")
    if wrong := [one for one in written if not callable(one) and not isinstance(one, Hook)]:
        raise _no_list_of_tools(module, f"; {wrong[0]!r} is none")
    return [one if isinstance(one, Tool | Hook) else tool(one) for one in written]


def _no_list_of_tools(module: ModuleType, what: str) -> DeclarationError:
    taken = "TOOLS is a list of tools and functions, such as TOOLS = [look]"
    return DeclarationError(f"{_place_of_list(module)}: {taken}{what}")
