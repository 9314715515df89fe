"""Whose platform the client takes the one beside it for, before it sends it the token."""

import asyncio
import fcntl
import inspect
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from towpath import Client, RefusedError, SyncClient, UnavailableError, find_platform
from towpath.cli import main
from towpath.cli.definitions.mcp_commands import served_target
from towpath.cli.shared import options
from towpath.cli.shared.options import ConnectionOptions
from towpath.client.settings import (
    DEFAULT_SERVER,
    ClientSettings,
    local_broker_owner,
    local_token,
    running_server_url,
    running_state,
    starting_platform,
    wait_for_start,
)
from towpath_contracts.problems.registry import ProblemError
from towpath_fabric import socket_owners

LISTENS = "0: 0100007F:2253 00000000:0000 0A 00000000:00000000 00:00000000 00000000 {user} 0 575 1"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """The folder of a platform that runs, and its address: this process holds both."""
    folder = tmp_path / ".towpath"
    folder.mkdir(mode=0o700)
    with socket.create_server(("127.0.0.1", 0)) as listener, (folder / "lock").open("w") as lock:
        (folder / "lock").chmod(0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        token = folder / "authorization"
        token.write_text("Authorization: Bearer secret\n")
        token.chmod(0o600)
        (folder / "state.json").write_text(json.dumps({"gateway_url": url, "pid": os.getpid()}))
        yield folder, url


def test_the_token_goes_to_the_platform_of_this_user(place: tuple[Path, str]) -> None:
    folder, url = place
    assert local_token(url, folder) == "secret"


@pytest.fixture
def unnamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the folder says which platform is meant."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("TOWPATH_SERVER", "TOWPATH_API_KEY", "TOWPATH_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("unnamed")
def test_clients_of_others_are_given_the_address_and_the_key_of_the_platform_here(place: tuple[Path, str]) -> None:
    _, url = place
    found = find_platform()
    assert (found.url, found.api_key) == (url, "secret")
    assert found.headers == {"Authorization": "Bearer secret"}
    assert "secret" not in repr(found)


@pytest.mark.usefixtures("unnamed")
@pytest.mark.parametrize("key", [None, "twp_k"])
def test_clients_of_others_are_given_what_the_environment_names(
    place: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    monkeypatch.setenv("TOWPATH_SERVER", "https://towpath.example/")
    if key is not None:
        monkeypatch.setenv("TOWPATH_API_KEY", key)
    found = find_platform()
    assert (found.url, found.api_key) == ("https://towpath.example", key or ""), "not the token of the one here"
    assert bool(found.headers) is (key is not None)


@pytest.mark.usefixtures("unnamed")
def test_where_no_platform_runs_a_program_is_told_to_start_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnavailableError, match=r"none of yours runs on \./\.towpath") as caught:
        find_platform()
    assert (caught.value.code, caught.value.remedy.partition(",")[0]) == ("server_unreachable", "Start it: towpath up")
    project = Path("shop")
    project.mkdir()
    (project / "towpath.yaml").write_text("kind: Project\n")
    with pytest.raises(UnavailableError) as caught:
        find_platform()
    assert "shop" in caught.value.remedy
    monkeypatch.setenv("TOWPATH_API_KEY", "twp_k")
    assert find_platform().url == DEFAULT_SERVER, "as Client() does: its key is for a platform that listens there"
    monkeypatch.setenv("TOWPATH_SERVER", "http://me:hidden@localhost:1")
    assert "hidden" not in repr(find_platform()) and find_platform().api_key not in repr(find_platform())


@pytest.mark.usefixtures("unnamed")
def test_a_platform_that_still_starts_is_not_taken_for_another(place: tuple[Path, str]) -> None:
    folder, _ = place
    (folder / "state.json").unlink()
    (folder / "lock").write_text(json.dumps({"pid": os.getpid()}))
    with pytest.raises(UnavailableError, match="is still starting"):
        find_platform()


@pytest.mark.usefixtures("unnamed")
@pytest.mark.parametrize(
    ("server", "told"),
    [("nats://ann:pw@broker:4222", "is a broker, and a gateway is asked here"), ("localhost:8787", "no address of a")],
)
def test_an_address_that_is_no_gateways_is_refused(server: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_SERVER", server)
    with pytest.raises(RefusedError, match=told) as caught:
        find_platform()
    assert "TOWPATH_SERVER" in str(caught.value) and "pw" not in str(caught.value)


def test_a_lock_that_somebody_holds_is_no_platform(place: tuple[Path, str]) -> None:
    folder, url = place
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    (folder / "state.json").write_text(json.dumps({"gateway_url": url, "pid": ended.pid}))
    assert local_token(url, folder) is None
    (folder / "state.json").write_text(json.dumps({"gateway_url": url}))
    assert local_token(url, folder) is None


@pytest.mark.parametrize("name", ["", "state.json", "authorization"])
def test_what_others_may_write_counts_for_nothing(place: tuple[Path, str], name: str) -> None:
    folder, url = place
    (folder / name).chmod(0o777)
    assert local_token(url, folder) is None


def test_nobody_listens_where_the_platform_is_said_to_be(place: tuple[Path, str]) -> None:
    folder, _ = place
    with socket.create_server(("127.0.0.1", 0)) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}"
    (folder / "state.json").write_text(json.dumps({"gateway_url": url, "pid": os.getpid()}))
    assert local_token(url, folder) is None


def test_the_token_does_not_go_to_a_listener_of_another_user(
    place: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, url = place
    port = f"{int(url.rpartition(':')[2]):04X}"
    for user, token in ((os.getuid(), "secret"), (os.getuid() + 1, None)):
        table = tmp_path / "tcp"
        table.write_text("\n".join(["  sl  local_address", LISTENS.format(user=user).replace("2253", port)]))
        monkeypatch.setattr("towpath.client.settings.socket_tables", partial(socket_owners.socket_tables, [table]))
        assert local_token(url, folder) == token


def test_the_broker_of_the_platform_here_has_to_be_of_this_user(place: tuple[Path, str]) -> None:
    folder, _ = place
    state = {"nats_url": "nats://127.0.0.1:4321", "pid": os.getpid()}
    (folder / "state.json").write_text(json.dumps(state))
    assert local_broker_owner("nats://127.0.0.1:4321", folder) == os.getuid()
    assert local_broker_owner("nats://worker:secret@127.0.0.1:4321", folder) == os.getuid()
    for other in ("nats://127.0.0.1:4322", "nats://broker:4321", "nats://localhost:4321"):
        assert local_broker_owner(other, folder) is None
    (folder / "state.json").chmod(0o666)
    assert local_broker_owner("nats://127.0.0.1:4321", folder) is None


@pytest.mark.parametrize("name", ["", "lock", "state.json"])
def test_a_platform_that_another_user_planted_is_not_asked(
    place: tuple[Path, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be sent the key of TOWPATH_API_KEY."""
    folder, url = place
    monkeypatch.chdir(folder.parent)
    monkeypatch.delenv("TOWPATH_SERVER", raising=False)
    assert running_server_url() == ClientSettings().target().server == ConnectionOptions().address() == url
    if os.geteuid() == 0:
        os.chown(folder / name, 65_534, 65_534)
    else:
        (folder / name).chmod(0o777)
    assert running_state() is running_server_url() is None
    assert ClientSettings().target().server == ConnectionOptions().address() == DEFAULT_SERVER


@pytest.fixture
def start(place: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a platform that has just begun to start, in which commands are given."""
    folder, url = place
    (folder / "lock").write_text(json.dumps({"pid": os.getpid()}))
    (folder / "state.json").write_text(json.dumps({"gateway_url": url, "pid": 2**31 - 1}))  # of one before it
    monkeypatch.chdir(folder.parent)
    for name in ("TOWPATH_SERVER", "TOWPATH_API_KEY", "TOWPATH_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TOWPATH_CONTEXTS_FILE", str(folder.parent / "contexts.json"))
    assert options.START_POLL_S == 0.1
    monkeypatch.setattr(options, "START_POLL_S", 0.01)
    return folder


def test_nobody_else_is_asked_while_the_platform_of_the_folder_starts(
    start: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert options.START_TIMEOUT_S == 20.0
    monkeypatch.setattr(options, "START_TIMEOUT_S", 0.05)
    (start / "state.json").unlink()
    told = f"the platform on ./.towpath (pid {os.getpid()}) is still starting"
    assert main(["runs", "list", "-o", "table"]) == 6
    notice, refusal = capsys.readouterr().err.split("\n", 1)
    assert notice == f"{told}; waiting for it"
    assert told in refusal
    assert "Wait until its terminal says: ready in …" in refusal
    for ask in (ConnectionOptions().address, lambda: served_target(ConnectionOptions(), Path())):
        with pytest.raises(ProblemError, match="is still starting"):
            ask()
    assert ConnectionOptions(server="http://x").address() == "http://x"


async def test_a_command_waits_until_the_platform_of_the_folder_has_started(
    start: Path, place: tuple[Path, str]
) -> None:
    async def go_on() -> None:
        for more in ({"gateway_url": None}, {"gateway_url": place[1]}):
            (start / "state.json").write_text(json.dumps({"pid": os.getpid(), "starting": True, **more}))
            await asyncio.sleep(0.05)
        waited.append(connecting.done())
        (start / "state.json").write_text(json.dumps({"pid": os.getpid(), "gateway_url": place[1]}))

    async def connect() -> str:
        async with ConnectionOptions().connect() as client:
            return client.server

    waited: list[bool] = []
    connecting = asyncio.create_task(connect())
    await go_on()
    assert await asyncio.wait_for(connecting, 10) == place[1]
    assert waited == [False]


async def test_a_client_waits_until_the_platform_of_the_folder_has_started(
    start: Path, place: tuple[Path, str]
) -> None:
    def ready() -> None:
        (start / "state.json").write_text(json.dumps({"pid": os.getpid(), "gateway_url": place[1]}))

    for kind in (Client, SyncClient):
        (start / "state.json").unlink()
        client = kind()
        assert client.server == DEFAULT_SERVER
        entering = asyncio.create_task(entered(client))
        await asyncio.sleep(0.05)
        assert not entering.done()
        ready()
        assert await asyncio.wait_for(entering, 60) == place[1]
    (start / "state.json").unlink()
    async with Client("http://127.0.0.1:9") as named:
        assert named.server == "http://127.0.0.1:9", "one that is named is not waited for"


async def entered(client: Client | SyncClient) -> str:
    if isinstance(client, Client):
        async with client:
            return client.server

    def inside() -> str:
        with client:
            return client.server

    return await asyncio.to_thread(inside)


async def test_a_platform_that_takes_long_to_start_is_told_to_a_program(start: Path) -> None:
    assert inspect.signature(wait_for_start).parameters["timeout_s"].default == 20.0
    assert inspect.signature(wait_for_start).parameters["poll_s"].default == 0.1
    (start / "state.json").unlink()
    with pytest.raises(UnavailableError, match=r"still starting"):
        await wait_for_start(0.01, 0.001)


async def test_a_start_that_fails_is_told(start: Path) -> None:
    async def connect() -> None:
        async with ConnectionOptions().connect():
            pass

    connecting = asyncio.create_task(connect())
    await asyncio.sleep(0.03)
    (start / "lock").write_text("")  # what another process holds is no start of a platform
    with pytest.raises(ProblemError, match="ended before it was ready"):
        await asyncio.wait_for(connecting, 10)


def test_a_platform_without_a_gateway_does_not_start_for_ever(start: Path) -> None:
    assert starting_platform() == os.getpid()
    (start / "state.json").write_text(json.dumps({"gateway_url": None, "pid": os.getpid()}))
    assert starting_platform() is None
    assert ConnectionOptions().address() == DEFAULT_SERVER


def test_a_worker_that_is_started_by_hand_knows_whose_keys_it_hides(place: tuple[Path, str]) -> None:
    folder, url = place
    (folder / "nats").mkdir(mode=0o700)
    (folder / "nats" / "passwords.json").write_text(json.dumps({"worker": "secret"}))
    state = {"gateway_url": url, "nats_url": "nats://127.0.0.1:4222"}
    (folder / "state.json").write_text(json.dumps({**state, "pid": os.getpid()}))
    script = (
        "import subprocess; from towpath.cli.administration.process_commands import join_platform; "
        "join_platform('worker'); subprocess.run(['env'])"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOWPATH_")}
    words = [sys.executable, "-c", script]
    told = subprocess.run(words, cwd=folder.parent, env=environment, capture_output=True, text=True, check=True).stdout
    assert f"TOWPATH_STATE_FILE={folder}/state.json" in told.splitlines()


async def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(RefusedError, match="http://"):
        Client("localhost:8787")
