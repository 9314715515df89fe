"""The login on a real nats-server: TLS with certificates on both sides, nkeys, and no unencrypted connection."""

import asyncio
import contextlib
import json
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from nats.errors import NoRespondersError
from pydantic import ValidationError
from tests.chaos.servers.half_open import half_open_proxy
from tests.docs_site.taken_blocks import taken
from tests.support.certificates import Authority
from tests.support.tcp_proxy import tcp_proxy
from tests.support.waiting import all_sent, eventually

from towpath.cli import main
from towpath.cli.broker.broker_user_list import authority_configuration, load
from towpath.client.client import Client
from towpath.errors import TowpathError
from towpath_contracts.problems.registry import problem
from towpath_contracts.rpc import PROBLEM_HEADER
from towpath_fabric.nats import bus as bus_module
from towpath_fabric.nats.bus import Bus
from towpath_fabric.nats.login import LoginFileError, connect_options
from towpath_fabric.settings import BrokerSettings, Settings

GOODBYE_S = 30
"""How long asyncio waits for the other end of TLS: its SSL_SHUTDOWN_TIMEOUT."""

NATS = Path(sys.executable).parent / "nats-server"


@dataclass(frozen=True)
class Place:
    """A broker with TLS, whose users have nkeys; `folder` has the certificates, and the seeds as NAME.nkey."""

    folder: Path
    port: int

    def login(self, user: str, **changes: Any) -> dict[str, Any]:
        """What the environment of *user* says."""
        fields = {
            "nats_url": f"nats://127.0.0.1:{self.port}",
            "nats_tls_ca": self.folder / "towpath.pem",
            "nats_tls_cert": self.folder / "service.pem",
            "nats_tls_key": self.folder / "service.key",
            "nats_nkey_file": self.folder / f"{user}.nkey",
            "nats_user": None,
            "nats_password": None,
        }
        return {**fields, **changes}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The broker with the accounts of a deployment, in which every user that is needed here has an nkey."""
    folder = tmp_path_factory.mktemp("login")
    ours, foreign = Authority.make(folder, "towpath"), Authority.make(folder, "elsewhere")
    ours.issue("server")
    ours.issue("service")
    foreign.issue("stranger")
    nkeys = {user: _nkey(folder / f"{user}.nkey") for user in ("tas", "gateway", "orchestrator", "shop")}
    _nkey(folder / "nobody.nkey")
    (folder / "credentials.yaml").write_text(json.dumps({"clients": ["shop"], "nkeys": nkeys}))
    listed = load(folder / "credentials.yaml")
    passwords = {f"NATS_PASSWORD_{user.upper()}": "p" for user in listed.users()}
    (folder / "authority.conf").write_text(authority_configuration(listed.users(), listed.nkeys))
    tls = taken("docs/operations.md: tls {").text
    for name, file in _FILES.items():
        assert f'"/certs/{name}"' in tls
        tls = tls.replace(f"/certs/{name}", str(folder / file))
    (folder / "nats.conf").write_text(
        f"listen: 127.0.0.1:-1\nports_file_dir: {folder}\njetstream {{ store_dir: {folder / 'store'} }}\n"
        f"{tls}include ./authority.conf\n"
    )
    process = subprocess.Popen([NATS, "-c", folder / "nats.conf"], env=passwords, stderr=subprocess.DEVNULL)
    try:
        yield Place(folder, asyncio.run(_port(folder, process.pid)))
    finally:
        process.terminate()
        process.wait(timeout=60)


_FILES: Mapping[str, str] = {"nats.pem": "server.pem", "nats.key": "server.key", "ca.pem": "towpath.pem"}
"""The files of this broker, by their names on the page."""


def _nkey(file: Path) -> str:
    """Make an nkey as people do, and return its public half."""
    done = subprocess.run(
        [sys.executable, "-m", "towpath.cli", "keys", "nkey", file, "-o", "json"], capture_output=True, check=True
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    return str(json.loads(done.stdout)["public"])


async def _port(folder: Path, pid: int) -> int:
    ports = folder / f"nats-server_{pid}.ports"
    await eventually(lambda: ports.exists() and ports.read_text().endswith("}"))
    return int(json.loads(ports.read_text())["nats"][0].rpartition(":")[2])


@contextlib.asynccontextmanager
async def connected(role: str, login: Mapping[str, Any]) -> AsyncIterator[Bus]:
    """The bus of a service that logs in so."""
    bus = Bus(role, Settings(**login))
    try:
        async with asyncio.timeout(60):
            await bus.connect()
        yield bus
    finally:
        await bus.close()


async def refused(place: Place, **changes: Any) -> str:
    """Try to connect with another login, once; returns what was said."""
    import nats

    listed: list[Exception] = []

    async def note(error: Exception) -> None:
        listed.append(error)

    options = connect_options(BrokerSettings(**place.login("tas", **changes)))
    with pytest.raises(Exception) as caught:  # what nats-py met first: ssl's error or its own
        await nats.connect(
            f"nats://127.0.0.1:{place.port}", allow_reconnect=False, connect_timeout=60, error_cb=note, **options
        )
    return " ".join(map(str, [caught.value, *listed])).lower()


async def answered(bus: Bus, subject: str, data: bytes) -> bytes:
    """Ask until somebody answers: who has said that it listens is known to the other account a moment later."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(NoRespondersError):
                return bytes((await bus.nc.request(subject, data, timeout=60)).data)
            await asyncio.sleep(0.05)


async def test_services_log_in_with_nkeys_over_tls_and_have_their_own_rights(place: Place) -> None:
    async with connected("tas", place.login("tas")) as tas, connected("gateway", place.login("gateway")) as gateway:

        async def answer(message: Any) -> None:
            await message.respond(message.data + b"!")

        await tas.nc.subscribe("svc.tas.check_access", cb=answer)
        await all_sent(tas.nc)
        assert await answered(gateway, "svc.tas.check_access", b"hello") == b"hello!"
        with pytest.raises(TimeoutError):
            await gateway.nc.request("svc.tas.settle_call", b"not for people", timeout=0.5)


async def test_a_broker_that_fell_silent_is_left_without_a_goodbye(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of TLS is a word and its answer, which Python awaits for half a minute; a lost machine gives none."""
    monkeypatch.setattr(bus_module, "PING_INTERVAL_S", 0.5)
    async with half_open_proxy(place.port) as line:
        through = place.login("tas", nats_url=f"nats://127.0.0.1:{line.port}")
        async with connected("tas", through) as tas, connected("gateway", place.login("gateway")) as gateway:

            async def answer(message: Any) -> None:
                await message.respond(b"here")

            await tas.nc.subscribe("svc.tas.check_access", cb=answer)
            await all_sent(tas.nc)
            assert await answered(gateway, "svc.tas.check_access", b"") == b"here"
            line.freeze()
            async with asyncio.timeout(GOODBYE_S - 5):
                await eventually(lambda: tas.reconnects)
            await all_sent(tas.nc)


async def test_a_broker_that_breaks_off_the_handshake_is_tried_again(place: Place) -> None:
    """As one does that is restarted behind a proxy, the first time and later."""
    async with tcp_proxy(place.port) as line:
        line.open = False
        bus = Bus("tas", Settings(**place.login("tas", nats_url=f"nats://127.0.0.1:{line.port}")))
        connecting = asyncio.create_task(bus.connect())
        await eventually(lambda: line.refused >= 3, within_s=30)
        line.open = True
        async with asyncio.timeout(30):
            await connecting
        line.open = False
        line.cut()
        await eventually(lambda: line.refused >= 6, within_s=30)
        line.open = True
        await eventually(lambda: bus.reconnects, within_s=30)
        await all_sent(bus.nc)
        await bus.close()


async def test_a_broker_that_says_nothing_in_the_handshake_is_tried_again(place: Place) -> None:
    async with tcp_proxy(place.port) as line:
        line.silent = True
        bus = Bus("tas", Settings(**place.login("tas", nats_url=f"nats://127.0.0.1:{line.port}")))
        connecting = asyncio.create_task(bus.connect())
        await eventually(lambda: line.connections >= 2, within_s=30)
        line.silent = False
        async with asyncio.timeout(30):
            await connecting
        await bus.close()


async def test_connecting_is_cancelled_also_where_the_handshake_breaks_off_at_the_same_time(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    begin = loop.start_tls

    async def begin_and_cancel(*arguments: Any, **options: Any) -> Any:
        try:
            return await begin(*arguments, **options)
        finally:
            connecting.cancel()

    monkeypatch.setattr(loop, "start_tls", begin_and_cancel)
    async with tcp_proxy(place.port) as line:
        line.open = False
        bus = Bus("tas", Settings(**place.login("tas", nats_url=f"nats://127.0.0.1:{line.port}")))
        connecting = asyncio.create_task(bus.broker.connect())
        await asyncio.wait([connecting], timeout=30)
        assert connecting.cancelled()
        await bus.close()


async def test_a_client_over_nats_has_its_key_and_certificate_from_the_environment(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = place.login("shop")
    for name, value in login.items():
        if value is not None and name != "nats_url":
            monkeypatch.setenv(f"TOWPATH_{name.upper()}", str(value))

    serving = connected("orchestrator", place.login("orchestrator"))
    async with serving as bus, Client(login["nats_url"], caller="shop") as client:

        async def answer(message: Any) -> None:
            refusal = problem("network_not_found", "as it was told")
            headers = {PROBLEM_HEADER: refusal.code}
            await bus.nc.publish(message.reply, refusal.model_dump_json().encode(), headers=headers)

        await bus.nc.subscribe("task.submit.shop", cb=answer)
        await all_sent(bus.nc)
        with pytest.raises(TowpathError, match="as it was told"):
            await client.submit("support", "hi")


async def test_the_wrong_key_certificate_or_authority_is_refused(place: Place) -> None:
    here = place.folder
    assert "authorization" in await refused(place, nats_nkey_file=here / "nobody.nkey")
    assert "certificate verify failed" in await refused(place, nats_tls_ca=here / "elsewhere.pem")
    assert await refused(place, nats_tls_cert=here / "stranger.pem", nats_tls_key=here / "stranger.key")
    assert await refused(place, nats_tls_cert=None, nats_tls_key=None)


async def test_not_a_word_goes_out_in_the_clear_where_tls_is_asked_for(place: Place) -> None:
    """Who sits between and asks for no TLS would be told the password by nats-py alone: its first bytes are CONNECT."""
    listed: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x","version":"2.15.1","max_payload":1048576,"auth_required":true}\r\n')
        listed.append(await reader.read(8))
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    for url, file in ((f"nats://127.0.0.1:{port}", place.folder / "towpath.pem"), (f"tls://127.0.0.1:{port}", None)):
        login = {"nats_url": url, "nats_tls_ca": file, "nats_user": "tas", "nats_password": "secret-word"}
        bus = Bus("tas", Settings(**login))
        trying = asyncio.ensure_future(bus.connect())
        before = len(listed)
        await eventually(lambda before=before: len(listed) > before)
        trying.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await trying
        await bus.close()
    server.close()
    await server.wait_closed()
    assert listed and all(first[:1] == b"\x16" for first in listed), listed  # a TLS handshake


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ({"nats_password": "p", "nats_nkey_file": "tas.nkey"}, "one way to log in"),
        ({"nats_tls_cert": "service.pem"}, "given together"),
        ({"nats_nkey_file": "nowhere.nkey"}, "nats_nkey_file"),
    ],
)
def test_a_login_that_can_not_be_is_refused_at_the_start(place: Place, expected: dict[str, str], words: str) -> None:
    here = {name: place.folder / text if "file" in name or "tls" in name else text for name, text in expected.items()}
    with pytest.raises(ValidationError, match=words):
        Settings(**here)


@pytest.mark.prints("keys nkey")
def test_a_key_that_is_there_is_kept_and_its_public_half_is_shown_again(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    file = place.folder / "tas.nkey"
    before = file.read_bytes()
    assert main(["keys", "nkey", str(file), "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    listed = json.loads((place.folder / "credentials.yaml").read_text())["nkeys"]["tas"]
    assert shown == {"file": str(file), "made": False, "public": listed}
    assert file.read_bytes() == before


def test_files_that_hold_no_key_are_named_and_not_shown(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    pem = place.folder / "server.key"
    with pytest.raises(LoginFileError, match=r"server.key holds no seed") as caught:
        Bus("tas", Settings(**place.login("tas", nats_nkey_file=pem)))
    assert "PRIVATE" not in str(caught.value)
    with pytest.raises(LoginFileError, match=r"can't be used"):
        Bus("tas", Settings(**place.login("tas", nats_tls_ca=place.folder / "tas.nkey")))
    gone = Settings(**place.login("tas", nats_nkey_file=None, nats_creds_file=pem)).model_copy(
        update={"nats_creds_file": place.folder / "gone"}
    )
    with pytest.raises(LoginFileError, match=r"gone can't be read: No such file"):
        Bus("tas", gone)
    assert main(["keys", "nkey", str(pem)]) == 2
    assert "PRIVATE" not in capsys.readouterr().err
