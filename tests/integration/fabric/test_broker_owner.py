"""Another user's process at the broker's port is sent nothing, and the connection comes back with the broker."""

import asyncio
import contextlib
import logging
import os
import socket
import struct
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import nats
import pytest
import uvloop
from nats.errors import Error as NatsError
from tests.support.platform.port_thief import PortThief, expected_owner, port_thief
from tests.support.waiting import all_sent, eventually

from towpath.cli import main
from towpath.client.client import Client
from towpath.errors import UnavailableError
from towpath_contracts.authority import USERS, client_rights
from towpath_embedded.processes.child_process import wait_exit
from towpath_embedded.processes.ports import free_port
from towpath_embedded.servers.nats import Nats
from towpath_fabric.nats.broker_owner import BrokerOwnerError, OwnerCheckedTransport, connect
from towpath_fabric.nats.bus import Bus
from towpath_fabric.settings import Settings

TRIES = 3


@pytest.fixture
async def broker(folder: Path) -> AsyncIterator[Nats]:
    """A broker with passwords, as an embedded platform has it."""
    server = Nats(folder, users={**USERS, "anonymous": client_rights("anonymous")})
    await server.start()
    yield server
    await server.stop()


def login(server: Nats) -> dict[str, Any]:
    password = server.password("tas")
    return {"nats_url": server.url(), "nats_user": "tas", "nats_password": password, "nats_owner": os.geteuid()}


def expect(bus: Bus, owner: int) -> None:
    """Have *bus* expect another user; where these tests don't run as root the thief is of their own."""
    transport = bus.nc._transport
    assert isinstance(transport, OwnerCheckedTransport)
    transport._owner = owner


async def test_a_service_sends_nothing_to_who_took_the_port_of_its_broker(
    broker: Nats, caplog: pytest.LogCaptureFixture
) -> None:
    bus = Bus("tas", Settings.model_validate(login(broker)))
    await bus.connect()
    try:
        async with port_thief(broker.port) as thief:
            assert broker.process is not None
            expect(bus, expected_owner())
            broker.process.kill()
            await wait_exit(broker.process)
            await asyncio.wait_for(thief.listens.wait(), 60)
            await bus.nc.subscribe("svc.tas.check_access")  # what is asked for meanwhile is said to the broker alone
            with caplog.at_level(logging.ERROR):
                await eventually(lambda: thief.connections > TRIES)
            assert not await bus.publish("run.inbox.1", b"secret")
            assert thief.sent == []
        expect(bus, os.geteuid())
        await broker.start()
        await eventually(lambda: bus.nc.is_connected)
        await all_sent(bus.nc)
    finally:
        await bus.close()


async def test_a_service_that_starts_or_ends_before_its_broker_is_back_tells_a_stranger_nothing(
    broker: Nats, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    early = Bus("tas", Settings.model_validate(login(broker)))
    await early.connect()
    await all_sent(early.nc)
    async with port_thief(broker.port) as thief:
        assert broker.process is not None
        expect(early, expected_owner())
        broker.process.kill()
        await wait_exit(broker.process)
        await asyncio.wait_for(thief.listens.wait(), 60)
        late = Bus("tas", Settings.model_validate({**login(broker), "nats_owner": expected_owner()}))
        starting = asyncio.create_task(late.connect())
        await eventually(lambda: thief.connections > TRIES)
        await early.nc.subscribe("svc.tas.check_access")
        await early.close()
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await late.close()
        assert thief.sent == []
    said = "".join(capsys.readouterr()) or caplog.text  # where a test before configured the logs, they go there
    assert said.count("refused a stranger in place of the broker") == len([early, late])
    assert f"127.0.0.1:{broker.port}" in said


@pytest.fixture
async def thief_and_port() -> AsyncIterator[tuple[PortThief, int]]:
    port = free_port()
    async with port_thief(port) as thief:
        await asyncio.wait_for(thief.listens.wait(), 60)
        yield thief, port


async def test_a_client_names_the_stranger_at_the_address(
    thief_and_port: tuple[PortThief, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    thief, port = thief_and_port
    monkeypatch.setenv("TOWPATH_NATS_URL", f"nats://127.0.0.1:{port}")
    monkeypatch.setenv("TOWPATH_NATS_OWNER", str(expected_owner()))
    with pytest.raises(BrokerOwnerError, match=rf"at 127.0.0.1:{port}.*process of another user \(\d+\)"):
        await connect(f"nats://tas:secret@127.0.0.1:{port}", owner=expected_owner(), allow_reconnect=False)
    async with Client(f"nats://shop:secret@127.0.0.1:{port}", caller="shop") as client:
        with pytest.raises(UnavailableError, match="process of another user"):
            await client.submit("support", "hi")
    assert await asyncio.to_thread(main, ["streams", "ensure", "--nats-user", "deploy", "--nats-password", "x"]) != 0
    assert thief.connections >= TRIES
    assert thief.sent == []


async def test_what_is_written_before_the_owner_is_known_stays_here(thief_and_port: tuple[PortThief, int]) -> None:
    """nats-py writes what it has left when it is closed, to whom it was just connected."""
    thief, port = thief_and_port
    for whose in (expected_owner(), expected_owner() + 1):
        transport = OwnerCheckedTransport(whose)
        assert transport
        before = thief.connections
        await transport.connect(urlsplit(f"nats://127.0.0.1:{port}"), 4096, 5)
        transport.write(b"PUB a 1\r\n1\r\n")
        transport.writelines([b"PUB a 1\r\n", b"2\r\n"])
        await transport.drain()
        await eventually(lambda before=before: thief.connections > before)  # type: ignore[misc]
        transport.close()
        await transport.wait_closed()
    assert thief.sent == []


async def test_a_first_line_without_an_end_is_no_reason_to_give_up() -> None:
    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"INFO " + b"x" * 1_000_000)
        with contextlib.suppress(OSError):
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(flood, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(BrokerOwnerError, match="does not speak as one"):
            await connect(f"nats://127.0.0.1:{port}", owner=os.geteuid(), allow_reconnect=False)


def test_a_stranger_that_hangs_up_at_once_is_no_reason_to_give_up() -> None:
    """Any other error than these would end nats-py's attempts for good; services run on uvloop."""

    async def attempt(port: int) -> None:
        for _ in range(4):
            with pytest.raises((BrokerOwnerError, OSError, NatsError)):
                await connect(f"nats://127.0.0.1:{port}", owner=os.geteuid(), allow_reconnect=False)

    def hang_up(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = listener.accept()
                accepted.sendall(b'INFO {"server_id": "x"}\r\n')
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                accepted.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        stranger = threading.Thread(target=hang_up, args=(listener,), daemon=True)
        stranger.start()
        for loop in (asyncio.new_event_loop, uvloop.new_event_loop):
            with asyncio.Runner(loop_factory=loop) as runner:
                runner.run(attempt(listener.getsockname()[1]))
        listener.shutdown(socket.SHUT_RDWR)
        stranger.join(10)


async def test_without_an_owner_the_stranger_is_believed(thief_and_port: tuple[PortThief, int]) -> None:
    """So the thief of these tests would be sent what there is, if it were not looked at."""
    thief, port = thief_and_port
    connection = await nats.connect(f"nats://tas:secret@127.0.0.1:{port}", allow_reconnect=False)
    await connection.close()
    await eventually(lambda: "secret" in "".join(thief.sent))


async def test_a_broker_that_is_no_process_of_this_machine_is_not_the_owners(broker: Nats) -> None:
    with pytest.raises(NatsError, match="it was sent nothing"):
        await connect(broker.url("tas"), owner=os.geteuid() + 1, allow_reconnect=False)
    connection = await connect(broker.url("tas"), owner=os.geteuid(), allow_reconnect=False)
    await connection.close()
