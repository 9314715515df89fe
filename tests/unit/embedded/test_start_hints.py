"""Services are imported ahead where `up` will start, and not where it refuses or explains itself."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from towpath_embedded import __main__, start_hints
from towpath_embedded.processes.ports import free_port
from towpath_embedded.start_checks import UpOptions
from towpath_embedded.start_hints import starts_probably

ANY = ("up", "--port", "auto", "--nats-port", "auto")


@pytest.fixture
def busy() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield str(listener.getsockname()[1])


def test_a_start_is_expected_where_nothing_speaks_against_it(tmp_path: Path) -> None:
    policy, port = tmp_path / "policy.yaml", str(free_port())
    policy.touch()
    for words in (ANY, (*ANY, "--json", "--policy", str(policy)), (*ANY, f"--policy={policy}", "--worker", "a", "b")):
        assert starts_probably(list(words)), words
    assert starts_probably(["up", "--port", port, "--nats-port=auto", "--profile", "strict"])


def test_a_start_is_expected_without_any_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_hints, "is_free", lambda _: True)
    assert starts_probably(["up"])


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("servers",),
        ("--help",),
        (*ANY, "--help"),
        (*ANY, "-h"),
        (*ANY, "--attach"),
        (*ANY, "--only", "gateway"),
        (*ANY, "--networks", "/nowhere/at/all"),
        (*ANY, "--mcp", "n" * 5_000),
    ],
)
def test_no_start_is_expected_of_other_commands_of_a_question_and_without_a_file(words: tuple[str, ...]) -> None:
    assert not starts_probably(list(words))


def test_no_start_is_expected_where_ports_or_options_contradict(busy: str, tmp_path: Path) -> None:
    free = str(free_port())
    for ports in (
        (busy, "auto"),
        ("auto", busy),
        (free, free),
        ("99999", "auto"),
        ("9" * 5_000, "auto"),
        ("x", "auto"),
    ):
        assert not starts_probably(["up", "--port", ports[0], f"--nats-port={ports[1]}"]), ports
    assert not starts_probably([*ANY, "--policy", str(tmp_path), "--profile", "open"])


@pytest.mark.parametrize(
    ("words", "ports"),
    [
        ("", (8787, 4222)),
        ("--port auto", (None, None)),
        ("--port auto --nats-port 4222", (None, 4222)),
        ("--port 9000", (9000, 4222)),
        ("--port 9000 --nats-port auto", (9000, None)),
    ],
)
def test_the_port_of_nats_is_any_where_that_of_the_gateway_is_unless_it_is_named(
    words: str, ports: tuple[int | None, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[UpOptions] = []
    monkeypatch.setattr(__main__, "up", lambda options: started.append(options) or 0)
    __main__.app(["up", *words.split()], result_action="return_value")
    assert [(options.gateway_port, options.nats_port) for options in started] == [ports]
    looked_at: list[int] = []
    monkeypatch.setattr(start_hints, "is_free", lambda port: looked_at.append(port) or True)
    assert starts_probably(["up", *words.split()])
    assert looked_at == [port for port in ports if port is not None], "a start is expected by the ports that it takes"


def test_the_hint_imports_nothing_of_the_platform() -> None:
    program = "import sys, towpath_embedded.start_hints; print([n for n in sys.modules if n.startswith('towpath')])"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "['towpath_embedded', 'towpath_embedded.start_hints']"
