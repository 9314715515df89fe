"""Whose platform the client takes the one beside it for, before it sends it the token."""

import fcntl
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from towpath.client.settings import listener_users, local_token

LISTENS = "0: 0100007F:2253 00000000:0000 0A 00000000:00000000 00:00000000 00000000 {user} 0 575 1"
EVERYWHERE = "0: 00000000000000000000000000000000:2253 " + "0" * 32 + ":0000 0A 0:0 00:0 0 {user} 0 575 1"
ELSEWHERE = "0: 0200007F:2253 00000000:0000 0A 00000000:00000000 00:00000000 00000000 {user} 0 575 1"
CONNECTED = "0: 0100007F:2253 0100007F:E95E 01 00000000:00000000 03:00000610 00000000 {user} 0 0 3"
PORT = 0x2253


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


@pytest.mark.parametrize(
    ("rows", "users"),
    [
        ([LISTENS.format(user=1000)], {1000}),
        ([LISTENS.format(user=65534), EVERYWHERE.format(user=1000)], {65534, 1000}),
        ([CONNECTED.format(user=1000), ELSEWHERE.format(user=1000)], set()),
    ],
)
def test_whoever_may_answer_at_a_port_is_found_in_the_tables_of_the_kernel(rows: list[str], users: set[int]) -> None:
    assert listener_users("\n".join(["  sl  local_address …", *rows]), PORT) == users
    assert listener_users("\n".join(["  sl  local_address …", *rows]), PORT + 1) == set()


def test_the_token_does_not_go_to_a_listener_of_another_user(
    place: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, url = place
    port = f"{int(url.rpartition(':')[2]):04X}"
    for user, token in ((os.getuid(), "secret"), (os.getuid() + 1, None)):
        table = tmp_path / "tcp"
        table.write_text("\n".join(["  sl  local_address", LISTENS.format(user=user).replace("2253", port)]))
        monkeypatch.setattr("towpath.client.settings._NET_TABLES", (table,))
        assert local_token(url, folder) == token
