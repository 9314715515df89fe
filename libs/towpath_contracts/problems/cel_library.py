"""The library that evaluates CEL, the Common Expression Language: imported with the first expression, and in part.

Few processes read an expression. Its head imports a command line with libraries for terminals, which nothing here
needs and which take longer to import than all the rest of it.
"""

import functools
import importlib
import sys
import types
from typing import Any


@functools.cache
def cel_library() -> Any:
    """Return the library; it is imported once."""
    return import_without("cel", "cli")


def import_without(package: str, submodule: str) -> types.ModuleType:
    """Import *package* but not its *submodule*, which its head imports and nothing needs; it can be imported later.

    A version whose head uses what is in the submodule is imported as it is.
    """
    name = f"{package}.{submodule}"
    if package in sys.modules:
        return sys.modules[package]
    sys.modules[name] = empty = types.ModuleType(name)
    try:
        importlib.import_module(package)
    except (AttributeError, ImportError, NameError):
        empty = types.ModuleType(name)
    finally:
        del sys.modules[name]
    imported = importlib.import_module(package)
    if vars(imported).get(submodule) is empty:
        delattr(imported, submodule)
    return imported
