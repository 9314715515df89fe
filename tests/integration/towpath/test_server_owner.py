"""The token of a platform is sent to its own user's processes alone, also after the platform has stopped."""

import os
import socket
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support.platform.port_thief import IS_ANOTHER_USER, expected_owner, port_thief
from tests.support.waiting import eventually

from towpath.client.client import Client
from towpath.client.http import HttpTransport
from towpath.client.server_owner import ServerOwnerCheck
from towpath.errors import NotFoundError, RefusedError
from towpath_embedded.platform import Platform
from towpath_embedded.processes.ports import free_port


async def test_who_takes_the_port_of_a_platform_that_stopped_is_sent_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that goes on asking for its run does so for two minutes."""
    monkeypatch.chdir(folder)
    port = free_port()
    async with Client(f"http://127.0.0.1:{port}") as early:
        assert "authorization" not in early._transport._http.headers  # type: ignore[attr-defined]
    platform = Platform(folder / ".towpath", gateway_port=port, durable=False, starts="fork")
    async with platform:
        client = Client()
        assert client.server == platform.gateway_url
        with pytest.raises(NotFoundError):  # the platform knows the token
            await client.get(uuid4())
    expect_another_user(client)
    async with client, port_thief(port) as thief:
        await thief.listens.wait()
        for ask in (client.get, client.cancel):
            with pytest.raises(RefusedError, match="answers a process of another user") as refused:
                await ask(uuid4())
            assert refused.value.code == "server_not_yours"
        with pytest.raises(RefusedError, match="it was sent nothing"):
            async for _ in client.events(uuid4()):
                pass
        await eventually(lambda: thief.connections >= 3)
    assert thief.sent == []


def expect_another_user(client: Client) -> None:
    """Where these tests don't run as root the thief is of their own user."""
    if IS_ANOTHER_USER:
        return
    (hook,) = client._transport._http.event_hooks["request"]  # type: ignore[attr-defined]
    hook.__self__._user = expected_owner()


async def test_a_connection_that_nobody_has_accepted_is_sent_nothing_either(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of whom it is shows only then."""
    monkeypatch.setattr("towpath.client.server_owner.ACCEPT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        check = ServerOwnerCheck(url, folder / ".towpath", os.getuid())
        transport = HttpTransport(url, api_key="secret", caller="", check=check)
        with pytest.raises(Exception, match=r"no process accepted the connection|no platform runs on"):
            await transport.request("POST", "/v1/runs")
        await transport.close()
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.recv(100) == b""
