"""Loads modules of a user's folder from their source alone, which nobody else may have changed.

Bytecode that lies beside a source is run in its place: who may write a `__pycache__` runs code as whoever imports from
there. So it is neither read nor written below these folders, while installed packages keep theirs. A source that others
may change, or that lies in a package that they may change, is refused, and so is an archive on the path.
"""

import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Set as AbstractSet
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, ExtensionFileLoader, FileFinder, SourceFileLoader
from importlib.metadata import packages_distributions
from pathlib import Path
from types import CodeType, ModuleType
from zipimport import zipimporter

from towpath.errors import DeclarationError
from towpath_contracts.problems.near_names import likeness, suggest_or_list
from towpath_fabric.file_owners import fault_of

_folders: dict[str, AbstractSet[int]] = {}
"""The users' folders of this process, and who is trusted with what lies below each."""

_SLIP = 0.85
"""From which likeness on a missing module is a known one with a slip in its name: one of seven letters, say."""


class SourceLoader(SourceFileLoader):
    """Compiles a module at each start."""

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the source of *fullname*; no bytecode is looked for."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class _OwnSourceLoader(SourceLoader):
    def get_code(self, fullname: str) -> CodeType:
        """Return the same; raises DeclarationError where others may change the source."""
        _refuse_shared(Path(self.get_filename(fullname)))
        return super().get_code(fullname)


class _OwnExtensionLoader(ExtensionFileLoader):
    def create_module(self, spec: object) -> object:  # type: ignore[override]
        """Load a compiled module; raises DeclarationError where others may change it."""
        _refuse_shared(Path(self.path))
        return super().create_module(spec)  # type: ignore[arg-type]


class _OwnArchive(zipimporter):
    def get_code(self, fullname: str) -> CodeType:
        """Return the code of a module in the archive; raises DeclarationError where others may change that."""
        _refuse_shared(Path(self.archive))
        return super().get_code(fullname)


def load_from_source(folder: Path, trusted: AbstractSet[int]) -> None:
    """Have modules below *folder* loaded from sources that nobody but the *trusted* users may change."""
    if _find_below not in sys.path_hooks:
        sys.path_hooks.insert(0, _find_below)
    _folders[str(folder)] = trusted
    for known in [place for place in sys.path_importer_cache if Path(place).is_relative_to(folder)]:
        del sys.path_importer_cache[known]


def _find_below(place: str) -> FileFinder | zipimporter:
    """Return the finder of a user's folder or of a package or archive in it; ImportError leaves *place* to others."""
    if _folder_of(Path(place)) is None:
        raise ImportError(place)
    if not Path(place).is_dir():
        return _OwnArchive(place)  # for a script that is run by its path an ImportError, too
    return FileFinder(place, (_OwnExtensionLoader, EXTENSION_SUFFIXES), (_OwnSourceLoader, SOURCE_SUFFIXES))


def _folder_of(place: Path) -> str | None:
    """Return the user's folder that *place* is found by; an environment inside of such a folder is not the user's.

    An archive is on the path by itself: there the folder counts that it lies in.
    """
    known = [Path(entry) for entry in {*sys.path, *_folders} if entry]
    entries = [str(entry) for entry in known if place.is_relative_to(entry) and not entry.is_file()]
    nearest = max(entries, key=len, default=None)
    return nearest if nearest in _folders else None


def _refuse_shared(path: Path) -> None:
    folder = _folder_of(path)
    if folder is None:
        return
    for place in (path, *(above for above in path.parents if above.is_relative_to(folder))):
        fault = fault_of(place, _folders[folder])
        if fault is not None:
            raise DeclarationError(f"{place} {fault}, so {path.name} is not imported. Close it to others: chmod go-w")


def imported_sources() -> list[str]:
    """Return the files of users' folders that modules of this process were loaded from."""
    files = [getattr(module, "__file__", None) for module in tuple(sys.modules.values())]
    return sorted({file for file in files if file is not None and _is_of_user(file)})


def describe_import_fault(name: str, error: Exception) -> str:
    """Say where user code failed when the module or file *name* was imported, why, and what to do about it."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{short_path(error.filename)}:{error.lineno}: not Python: {error.msg}"
    where = place_of_fault(name, error)
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        near = _module_meant(error.name)
        hint = "" if near is None else f"did you mean {near}? If not, "
        return f"{where}: there is no module {error.name}; {hint}check the name, then install the package that has it"
    if isinstance(error, ImportError) and (wanted := _NAME_WANTED.match(error.msg)) and error.name in sys.modules:
        found = suggest_or_list(wanted[1], _offered(sys.modules[error.name]))
        return f"{where}: {error.name} has no {wanted[1]!r}{found}"
    if isinstance(error, NameError) and error.name in sys.modules["towpath"].__all__:
        return f"{where}: there is no {error.name!r} in this file; write at its head: from towpath import {error.name}"
    said = f"{type(error).__name__}: {error}".rstrip(": ")
    return f"{where}: {said}; this was raised while {name} was imported{_import_cure(error)}"


def place_of_fault(name: str, error: BaseException) -> str:
    """Return the last line of the user's that *error* came through; *name*, of what was imported, if there is none."""
    own = [one for one in traceback.extract_tb(error.__traceback__) if _is_of_user(one.filename)]
    return f"{short_path(own[-1].filename)}:{own[-1].lineno}" if own else name


_NAME_WANTED = re.compile(r"cannot import name '(\w+)' from ")


def _offered(module: ModuleType) -> list[str]:
    inside = {one.name for one in pkgutil.iter_modules(getattr(module, "__path__", ()))}
    return sorted(getattr(module, "__all__", ()) or {name for name in {*dir(module), *inside} if name[0] != "_"})


def _import_cure(error: Exception) -> str:
    """Return what to do about an *error* that user code raised: set a variable, or import only what it declares."""
    variable = str(error.args[0]) if isinstance(error, KeyError) and error.args else ""
    if _is_read_from_environment(error) and variable.isidentifier():
        return f". Set the variable {variable} where this command is started: export {variable}=…"
    return ". Mend this line, or move it into a function: while a file is imported, it only declares"


def _is_read_from_environment(error: Exception) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and frames[-1].filename in {"<frozen os>", os.__file__}


def _module_meant(name: str) -> str | None:
    """Return the module that *name* is a slip of; another library with a name of its own is none."""
    alike = likeness(name)
    for known in (packages_distributions(), sys.stdlib_module_names):
        others = [one for one in known if not (one.startswith(name) or name.startswith(one))]  # as httpx and http
        best = max(sorted(others), key=alike, default="")
        if alike(best) >= _SLIP:
            return best
    return None


def _is_of_user(file: str) -> bool:
    return any(Path(file).is_relative_to(folder) for folder in _folders) and "site-packages" not in file


def short_path(file: str) -> str:
    """Return the path as a person in the working folder would name it."""
    path = Path(file)
    try:
        return str(path.relative_to(Path.cwd()))
    except (OSError, ValueError):  # it lies elsewhere, or the working folder is gone
        return file
