"""The extras of the distribution: which packages a module of the platform needs, and how they are installed.

What is not installed is said before a module is started or imported, so that nobody reads a traceback for it. Only what
a module imports as it starts is listed: servers, model providers and MCP are looked for where they are used.
"""

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from towpath_contracts.problems.registry import Problem


@dataclass(frozen=True, slots=True)
class _Extra:
    """An extra, what needs it, and the packages of it that are imported at the start."""

    name: str
    needed_by: str
    packages: tuple[str, ...]


_EXTRAS = {
    "towpath_embedded": _Extra("embedded", "the embedded platform needs", ("asyncpg", "cel", "fastapi", "jinja2")),
    "towpath_embedded.backups": _Extra("embedded", "backups need", ("asyncpg",)),
    "towpath_testing": _Extra("testing", "tests need", ("asyncpg", "cel", "jinja2")),
    "towpath_gateway": _Extra("gateway", "the gateway needs", ("asyncpg", "fastapi", "jinja2")),
    "towpath_orchestrator": _Extra("orchestrator", "the orchestrator needs", ("asyncpg", "genai_prices", "jinja2")),
    "towpath_decider": _Extra("decider", "the decider needs", ("genai_prices", "jinja2")),
    "towpath_tas": _Extra("tas", "the tool-access service needs", ("asyncpg", "cel", "jsonschema_rs")),
    "towpath_log_writer": _Extra("log-writer", "the log-writer needs", ("asyncpg",)),
}
"""By the module that is started; a part of a package that is not listed needs what the package does."""


def missing_packages(module: str, *more: str) -> "Problem | None":
    """Return a problem where *module* of the platform, a package that it needs, or one of *more* is not installed."""
    package = module.partition(".")[0]
    extra = _EXTRAS.get(module) or _EXTRAS.get(package)
    needed = (package, *(() if extra is None else extra.packages), *more)
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if not missing:
        return None
    from towpath_contracts.problems.registry import problem  # a tenth of a second; mostly nothing is missing

    if extra is None:
        return problem("binary_missing", f"{', '.join(missing)}: not installed here")
    detail = f"{', '.join(missing)}: not installed here, and {extra.needed_by} {'it' if len(missing) == 1 else 'them'}"
    return problem("binary_missing", detail, remedy=_remedy(extra.name))


def require_packages(module: str, *more: str) -> None:
    """Raise ProblemError `binary_missing` where *module*, a package that it needs, or one of *more* is not here."""
    missing = missing_packages(module, *more)
    if missing is not None:
        from towpath_contracts.problems.registry import ProblemError  # as above

        raise ProblemError(missing)


def _remedy(extra: str) -> str:
    ways = f"pip install 'towpath[{extra}]', or uv sync --extra {extra} in a clone"
    if extra == "embedded":
        ways += "; without an installation: uvx --from 'towpath[embedded]' towpath demo"
    return f"Install the extra {extra}: {ways}."
