"""The client without asyncio has all that Client has: the same names with the same parameters, whole and typed."""

import inspect
import typing
from collections.abc import AsyncIterator, Iterator
from functools import cached_property
from typing import Any

import pytest

from towpath import Client, SubmittedRun, SyncClient, SyncSubmittedRun, SyncWaitingGate, UnavailableError, WaitingGate
from towpath.client.handles.sync_methods import WaitingMethod, each

NOBODY = "http://127.0.0.1:9"


def own(kind: type) -> dict[str, Any]:
    """Return what a class and its bases of ours have, by public name."""
    found: dict[str, Any] = {}
    for one in reversed(kind.__mro__):
        if one.__module__.startswith("towpath."):
            found |= {name: value for name, value in vars(one).items() if not name.startswith("_")}
    return found


def resources(client: Any) -> dict[str, Any]:
    names = [name for name, value in own(type(client)).items() if isinstance(value, cached_property)]
    return {name: getattr(client, name) for name in names}


def methods(kind: type) -> dict[str, Any]:
    called = (inspect.isfunction, lambda value: isinstance(value, WaitingMethod))
    return {name: value for name, value in own(kind).items() if any(is_one(value) for is_one in called)}


def shapes(method: Any) -> list[list[tuple[str, Any, Any]]]:
    """Return the parameters of a function, and of each of its overloads: name, kind and default."""
    if isinstance(method, WaitingMethod):
        method = method.method
    forms = [method, *typing.get_overloads(method)]
    return [
        [(one.name, one.kind, one.default) for one in inspect.signature(form).parameters.values()] for form in forms
    ]


def pairs() -> Iterator[tuple[str, type, type]]:
    yield "client", Client, SyncClient
    yield "run", SubmittedRun, SyncSubmittedRun
    yield "gate", WaitingGate, SyncWaitingGate
    waiting, asking = SyncClient(NOBODY), Client(NOBODY)
    assert resources(waiting).keys() == resources(asking).keys()
    for name, resource in resources(asking).items():
        yield name, type(resource), type(resources(waiting)[name])


@pytest.mark.parametrize(("kind", "twin"), [pytest.param(kind, twin, id=name) for name, kind, twin in pairs()])
def test_every_method_is_there_with_the_same_parameters(kind: type, twin: type) -> None:
    theirs, ours = methods(kind), methods(twin)
    assert ours.keys() == theirs.keys()
    assert {name: shapes(method) for name, method in ours.items()} == {
        name: shapes(method) for name, method in theirs.items()
    }
    assert all(inspect.getdoc(method) for method in ours.values())
    wrapped = {name: method.method for name, method in ours.items() if isinstance(method, WaitingMethod)}
    assert wrapped == {name: theirs[name] for name in wrapped}, "each stands for the one of its own name"


def test_a_refusal_is_raised_where_the_method_is_called() -> None:
    with SyncClient(NOBODY) as client:
        assert client.server == NOBODY
        for ask in (client.get, client.tree, client.workspaces.list, lambda run: client.submit("n", str(run))):
            with pytest.raises(UnavailableError, match="server_unreachable"):
                ask("00000000-0000-7000-8000-000000000000")


def test_who_stops_early_has_the_source_closed_and_an_error_comes_through() -> None:
    said: list[str] = []

    async def count() -> AsyncIterator[int]:
        try:
            for number in range(3):
                yield number
            raise KeyError("over")
        finally:
            said.append("closed")

    for number in each(count()):
        if number == 1:
            break
    assert said == ["closed"]
    seen: list[int] = []
    with pytest.raises(KeyError, match="over"):
        seen.extend(each(count()))
    assert said == ["closed", "closed"]
