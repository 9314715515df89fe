"""The client without asyncio has all that Client has: the same names with the same parameters, whole and typed."""

import gc
import inspect
import os
import signal
import sys
import threading
import typing
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from towpath import (
    Client,
    NotFoundError,
    RefusedError,
    SubmittedRun,
    SyncClient,
    SyncSubmittedRun,
    SyncWaitingGate,
    UnavailableError,
    WaitingGate,
    inherited_objects,
)
from towpath.client.handles.loop_thread import LOOP
from towpath.client.handles.sync_methods import WaitingMethod, each
from towpath.client.nats import NatsTransport

NOBODY = "http://127.0.0.1:9"
RUN = "00000000-0000-7000-8000-000000000000"


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


def test_a_stream_that_is_collected_in_the_loops_own_thread_is_closed_without_a_word() -> None:
    closed = threading.Event()
    unraised: list[object] = []

    async def count() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            closed.set()

    held = [each(count())]
    assert next(held[0]) == 1

    async def drop() -> None:
        held.clear()

    before, sys.unraisablehook = sys.unraisablehook, unraised.append
    try:
        LOOP.wait(drop())
        assert closed.wait(10)
    finally:
        sys.unraisablehook = before
    assert unraised == []


def test_a_stream_of_a_run_can_be_closed_and_a_closed_client_says_so() -> None:
    with SyncClient(NOBODY) as client:
        client.stream(RUN).close()
    with pytest.raises(RefusedError, match="this client has been closed"):
        client.get(RUN)
    client.close()


class Kept(BaseHTTPRequestHandler):
    """Answers on a connection that is kept, with the number of it."""

    protocol_version = "HTTP/1.1"
    connections: ClassVar[list[object]] = []

    def do_GET(self) -> None:
        if self.connection not in self.connections:
            self.connections.append(self.connection)
        body = str(self.connections.index(self.connection)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_given: Any) -> None:
        """Say nothing."""


def test_a_fork_has_connections_of_its_own_and_leaves_its_parents_alone() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Kept) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with SyncClient(f"http://127.0.0.1:{server.server_port}") as client:
            assert client.request("GET", "/first") == 0
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                try:
                    own = client.request("GET", "/of-the-child")
                    client.close()
                    gc.collect()
                    os._exit(10 + own)
                finally:
                    os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 11
            assert client.request("GET", "/after") == 0
        server.shutdown()


def test_a_fork_gets_nothing_of_a_stream_of_its_parent_and_does_not_close_it() -> None:
    async def count() -> AsyncIterator[int]:
        try:
            for number in range(3):
                yield number
        finally:
            if os.getpid() != parent:
                os._exit(2)

    parent, stream = os.getpid(), each(count())
    assert next(stream) == 0
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            next(stream)
        except RefusedError:
            del stream
            gc.collect()
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert list(stream) == [1, 2]


def test_only_what_a_fork_inherits_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[object] = []
    monkeypatch.setattr(inherited_objects, "_KEPT", kept)
    transports = [NatsTransport("nats://127.0.0.1:1", api_key=None, caller="web") for _ in range(3)]
    assert kept == []
    connection: Any = object()
    transports[0]._connection = connection
    transports[0]._start_anew()
    assert kept == [connection] and transports[0]._connection is None


@pytest.mark.parametrize(
    "settle",
    [
        lambda gates: gates.approve("zzz"),
        lambda gates: gates.deny("7c1e", "no"),
        lambda gates: gates.show("zzz"),
        lambda gates: gates.show(7),
        lambda gates: gates.delegate("zzz", "mia"),
    ],
)
def test_what_is_no_gate_id_is_refused_with_where_the_ids_are(settle: Callable[[Any], object]) -> None:
    with SyncClient("http://127.0.0.1:9") as client, pytest.raises(NotFoundError) as caught:
        settle(client.gates)
    found = caught.value.problem
    assert found.code == "gate_not_found" and "is not a gate id" in found.detail
    assert "client.gates.list()" in found.remedy and "towpath gates list" in found.remedy
