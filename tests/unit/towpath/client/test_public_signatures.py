"""What the public functions of the SDK take: every keyword is known to editors and type checkers."""

import importlib
import inspect
import pkgutil
import typing
from collections.abc import Iterator
from typing import Any

import pytest

import towpath
from towpath.tools.process import ProcessKeywords, run_process

MODULES = [
    name
    for _finder, name, _package in pkgutil.walk_packages(towpath.__path__, "towpath.")
    if not name.endswith("__main__")
]


def public_functions(name: str) -> Iterator[tuple[str, Any]]:
    """Yield the public functions of a module, and the public and special methods of its public classes."""
    module = importlib.import_module(name)
    for word, found in vars(module).items():
        if word.startswith("_") or getattr(found, "__module__", name) != name:
            continue
        if inspect.isfunction(found):
            yield f"{name}.{word}", found
        if inspect.isclass(found):
            for method, written in list(vars(found).items()):
                function = getattr(written, "__func__", written)
                special = method in ("__init__", "__call__")
                own = inspect.isfunction(function) and function.__module__ == name
                if own and (special or not method.startswith("_")):
                    yield f"{name}.{word}.{method}", function


def takes_anything(function: Any) -> bool:
    """Return whether a signature, that behind overloads too, has keywords that nobody can check."""
    written = [*typing.get_overloads(function), function]
    keywords = [
        one.annotation
        for each in written
        for one in inspect.signature(each).parameters.values()
        if one.kind is one.VAR_KEYWORD
    ]
    return any(str(one) in ("Any", "typing.Any", str(inspect.Parameter.empty)) for one in keywords)


def test_the_walk_sees_functions_methods_and_what_stands_behind_overloads() -> None:
    seen = {place for name in MODULES for place, _function in public_functions(name)}
    assert {
        "towpath.tools.process.run_process",
        "towpath.client.client.Client.run",
        "towpath.client.handles.run_handle.Run.__call__",
        "towpath.tools.context.ToolContext.run",
    } <= seen

    def loose(**options: Any) -> None: ...

    assert takes_anything(loose)


@pytest.mark.parametrize("name", MODULES)
def test_no_public_function_takes_any_keyword(name: str) -> None:
    assert [place for place, function in public_functions(name) if takes_anything(function)] == []


def test_a_program_of_a_tool_takes_the_keywords_of_run_process() -> None:
    parameters = inspect.signature(run_process).parameters.values()
    named = {one.name: one.annotation for one in parameters if one.kind is one.KEYWORD_ONLY}
    assert ProcessKeywords.__annotations__ == named
