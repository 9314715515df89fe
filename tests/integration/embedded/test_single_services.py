"""`towpath up --only`: some services beside servers that run already, which they leave running."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.support.platform.up_in_process import Lines, status_after

from towpath_embedded.__main__ import app
from towpath_embedded.platform_state import read_state

TOOL = """
from towpath import tool


@tool(name="orders.find", toolset="orders", effect_class="pure")
def find() -> str:
    return "found"
"""


@pytest.fixture
def project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    (folder / "orders.py").write_text(TOOL)
    return folder


def workers_at(gateway_url: str) -> Any:
    authorization = Path(".towpath/authorization").read_text().strip().partition(": ")[2]
    asked = urllib.request.Request(f"{gateway_url}/v1/workers", headers={"Authorization": authorization})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return json.load(answer)["workers"]


def refused(capsys: pytest.CaptureFixture[str], *words: str, code: int = 3) -> Any:
    assert app(("up", "--json", *words), result_action="return_value") == code
    return json.loads(capsys.readouterr().out)


def test_a_gateway_and_a_worker_join_the_platform_of_the_folder_and_leave_it_running(project: Path) -> None:
    def look(told: Lines) -> None:
        told.wait_for("ready in")
        command = [sys.executable, "-m", "towpath.cli", "up", "--only", "gateway,worker", "--port", "auto", "--json"]
        joined = subprocess.Popen([*command, "--worker", "orders.py"], stdout=subprocess.PIPE, text=True)
        try:
            assert joined.stdout is not None
            ready = json.loads(joined.stdout.readline())
            assert set(ready["processes"]) == {"gateway-only", "worker-only"}
            state = read_state(Path(".towpath"))
            assert state is not None
            assert ready["gateway_url"] != state["gateway_url"]
            while not any("orders" in one["toolsets"] for one in workers_at(ready["gateway_url"])):
                told.ended.wait(0.2)
        finally:
            joined.send_signal(signal.SIGINT)
            joined.communicate(timeout=60)
        assert joined.returncode == 0
        pids = [process["pid"] for process in ready["processes"].values()]
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
        state = read_state(Path(".towpath"))
        assert state is not None
        os.kill(state["processes"]["gateway"]["pid"], 0)

    assert status_after(look, "up", "--port", "auto", "--nats-port", "auto") == 0


def test_a_service_joins_the_servers_that_the_environment_names(project: Path) -> None:
    def look(told: Lines) -> None:
        told.wait_for("ready in")
        state = read_state(Path(".towpath"))
        assert state is not None
        password = json.loads(Path(state["nats_passwords"]).read_text())["decider"]
        named = {"NATS_URL": state["nats_url"], "NATS_USER": "decider", "NATS_PASSWORD": password}
        environment = {**os.environ, **{f"TOWPATH_{name}": value for name, value in named.items()}}
        command = [sys.executable, "-m", "towpath.cli", "up", "--only", "decider", "--data", "own", "--json"]
        joined = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            assert joined.stdout is not None
            ready = json.loads(joined.stdout.readline())
            with urllib.request.urlopen(f"{ready['processes']['decider-only']['health_url']}/readyz") as answer:
                assert answer.status == 200
            assert ready["gateway_url"] is None
        finally:
            joined.send_signal(signal.SIGINT)
            joined.communicate(timeout=60)
        assert joined.returncode == 0
        assert [path.name for path in Path("own").iterdir()] == ["logs"], "it keeps nothing but its log there"

    assert status_after(look, "servers") == 0


def test_unknown_names_and_a_folder_without_servers_are_refused(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, "--only", "gatway,worker")
    assert "gatway is no service; did you mean gateway" in said["detail"].replace('"', "").replace("'", "").lower()
    said = refused(capsys, "--only", "worker")
    assert "starts no NATS and no Postgres, and none of yours run on .towpath" in said["detail"]
    assert "python -m towpath_embedded servers" in said["remedy"]
    assert "takes no --ephemeral" in refused(capsys, "--only", "worker", "--ephemeral", code=2)["detail"]
    assert not (project / ".towpath").exists()
