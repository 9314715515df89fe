"""The whole platform with its real services: two of each under kills, and `up` as people use it."""

import asyncio
import json
import os
import pty
import queue
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from tests.docs_site.code_blocks import blocks_of
from tests.support.places import EXAMPLES, ROOT
from tests.support.platform.up_in_process import Lines, status_after
from tests.support.worker.shadowing_modules import imported, write_shadowing_modules

from towpath_embedded.network_files.network_folder import NetworkFolderPublisher
from towpath_embedded.platform import SERVICES, Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_fabric.process_protection import without_secrets

SAMPLE = EXAMPLES / "support"
TWO_OF_EACH = {"orchestrator": 2, "decider": 2, "tas": 2, "log_writer": 2}
TIMEOUT_S = 60.0
FINAL = {"completed", "failed", "escalated", "abandoned", "cancelled", "timed_out"}


def sample_worker(folder: Path) -> WorkerLaunch:
    return WorkerLaunch(modules=(str(SAMPLE / "tools.py"),), builtin=True, directory=folder)


async def submit(client: httpx2.AsyncClient, key: str) -> str:
    body = {
        "network": "support",
        "user_message": "Please refund order 8812.",
        "script": json.loads((SAMPLE / "script.json").read_text()),
        "idempotency_key": key,
    }
    response = await client.post("/v1/runs", json=body)
    assert response.status_code == 202, response.text
    return str(response.json()["run_id"])


async def approve_open_gates(client: httpx2.AsyncClient) -> None:
    for gate in (await client.get("/v1/gates")).json()["gates"]:
        await client.post(f"/v1/gates/{gate['gate_id']}/approve", json={"reason": "checked with the customer"})


async def ended(client: httpx2.AsyncClient, run_id: str) -> dict[str, Any]:
    """Approve whatever waits until the run has ended; a part of the platform may be away meanwhile."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                await approve_open_gates(client)
                run: dict[str, Any] = (await client.get(f"/v1/runs/{run_id}")).json()
            except (httpx2.HTTPError, KeyError):
                run = {}
            if run.get("status") in FINAL:
                return run
            await asyncio.sleep(0.1)


async def test_a_run_ends_though_every_process_is_killed_once(folder: Path) -> None:
    async with Platform(
        folder,
        replicas=TWO_OF_EACH,
        workers=[sample_worker(folder)],
        role_environment={"tas": {"TOWPATH_POLICY_FILE": str(SAMPLE / "policy.yaml"), "TOWPATH_SINGLE_PERSON": "true"}},
        durable=False,
        starts="fork",  # two dozen starts; how they are started makes no difference to how they are replaced
    ) as platform:
        assert {"orchestrator", "orchestrator-2", "tas-2", "worker", "gateway"} <= set(platform.processes)
        listed: list[str] = []
        await NetworkFolderPublisher(SAMPLE, platform.client_url, listed.append).publish_changed()
        assert listed == ["network.yaml: network support version 1"]
        async with httpx2.AsyncClient(base_url=platform.client_url, verify=False, timeout=60) as client:
            run_id = await submit(client, "once")
            waiting = asyncio.create_task(ended(client, run_id))
            for name in list(platform.processes):
                platform.kill(name)
            assert (await waiting)["status"] == "completed"
            assert await submit(client, "once") == run_id
        await platform.wait_ready()
        assert all(state.restarts >= 1 for state in platform.processes.values())


async def test_nobody_gets_the_port_of_a_service_that_is_down(folder: Path) -> None:
    """Whoever reads metrics there would read a stranger's."""
    async with Platform(folder, durable=False, starts="fork") as platform:
        for name in SERVICES:
            await platform.hold(name)
            port = int(platform.health_url(name).rpartition(":")[2])
            with pytest.raises(OSError, match="in use"):
                socket.create_server(("127.0.0.1", port))
            platform.release(name)
        await platform.wait_ready()
        async with httpx2.AsyncClient(verify=False, timeout=60) as client:
            for name in SERVICES:
                assert (await client.get(f"{platform.health_url(name)}/metrics")).status_code == 200


def environment_of(pid: int | None) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(line.split("=", 1) for line in lines if "=" in line)


async def test_a_worker_is_added_to_a_platform_that_runs(folder: Path) -> None:
    async with Platform(
        folder,
        replicas={"decider": 0, "log_writer": 0, "watchdog": 0},  # executed as the others are, for a second of CPU each
        workers=[sample_worker(folder)],
        durable=False,
        starts="exec",
    ) as platform:
        assert_no_credentials_shown({name: state.pid for name, state in platform.processes.items()})
        names = await platform.add_worker(sample_worker(folder))
        assert names == ["worker-2"]
        assert platform.processes["worker-2"].pid is not None


class Reader:
    """Reads a stream in the background, so that a test can wait for a line."""

    def __init__(self, stream: Any) -> None:
        self._lines: queue.Queue[str] = queue.Queue()
        self.thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self.thread.start()

    def _read(self, stream: Any) -> None:
        for line in stream:
            self._lines.put(line.rstrip())

    def wait_for(self, text: str) -> str:
        deadline = time.monotonic() + TIMEOUT_S
        seen: list[str] = []
        while time.monotonic() < deadline:
            try:
                seen.append(self._lines.get(timeout=0.2))
            except queue.Empty:
                continue
            if text in seen[-1]:
                return seen[-1]
        raise AssertionError(f"{text!r} was not told; told was: {seen}")


@contextmanager
def up(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], Reader, Reader]]:
    """A running `up`; ended with Ctrl-C."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "towpath_embedded", "up", "--port", "auto", "--nats-port", "auto", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1"},
    )
    out, err = Reader(process.stdout), Reader(process.stderr)
    try:
        yield process, out, err
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(TIMEOUT_S)
        out.thread.join(TIMEOUT_S)
        err.thread.join(TIMEOUT_S)
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def test_up_tells_what_matters_stops_in_order_and_goes_on_with_the_runs_it_left_unfinished(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = folder / "shop"
    shutil.copytree(SAMPLE, project)
    for place in (folder, project):  # none of them is imported, though the platform works beside them
        write_shadowing_modules(place)
    policy, network = project / "policy.yaml", project / "network.yaml"
    forgotten = folder / "forgotten.py"
    forgotten.write_text("def count(): ...\n")
    with policy.open("a", encoding="utf-8") as file:
        file.write("  - {name: typo, tool: orders.find, effect: deny, when: args.order_id == 5}\n")
    workers = ("--worker", str(project / "tools.py"), "--worker", str(forgotten))
    words = (*workers, "--policy", str(policy), "--networks", str(project))
    asked = time.monotonic()
    with up(folder, "--json", *words) as (process, out, err):
        ready = json.loads(out.wait_for("gateway_url"))
        waited_s = time.monotonic() - asked
        assert 0.8 * waited_s < ready["ready_s"] < waited_s + 0.1, "it counts from the start of its process"
        assert set(ready["processes"]) >= {"gateway", "orchestrator", "decider", "tas", "log_writer", "worker"}
        assert ready["data"] == str(folder / ".towpath")
        counts = {"networks": 1, "agents": 3, "tools": 2, "stayed": 0, "need_approval": 1, "refused": 0}
        assert ready["loaded"] == {**counts, "warnings": len(ready["warnings"])}
        assert any(": rule typo: " in warning for warning in ready["warnings"]), "what a policy is warned of counts"
        assert f"{forgotten} has no tool: " in ready["warnings"][0] and "(count)" in ready["warnings"][0]
        err.wait_for("tas is ready after")
        assert_prometheus_is_told_of_all(folder, ready["processes"])
        assert_no_credentials_shown({name: entry["pid"] for name, entry in ready["processes"].items()})
        err.wait_for("network support version 1")
        err.wait_for("rule typo: args.order_id == 5 compares a text with a number")
        run_id = asyncio.run(_submit_and_wait_for_the_gate(ready["gateway_url"], local_token(folder)))
        policy.write_text(policy.read_text().replace("<= 100", "<= 50").replace("> 100", "> 50"))
        err.wait_for("policy applied")
        policy.write_text("rules: [")
        err.wait_for("policy.yaml was refused")
        network.write_text(network.read_text().replace("max_steps: 10", "max_steps: 12"))
        err.wait_for("network support version 2")
        network.write_text(network.read_text().replace("is_default: true", "is_default: false"))
        err.wait_for("was refused")
        os.kill(ready["processes"]["decider"]["pid"], signal.SIGKILL)
        err.wait_for("decider was ended by SIGKILL")
        err.wait_for("decider is back")
        os.kill(ready["pid"], signal.SIGINT)
        assert "unfinished runs are kept; they go on with the next start: 1 waiting" in err.wait_for("stopping")
    assert process.returncode == 0
    assert not any(Path(f"/proc/{entry['pid']}").exists() for entry in ready["processes"].values())
    for file in (policy, network):
        shutil.copy(SAMPLE / file.name, file)
    words = ("--worker", str(project / "tools.py"), "--policy", str(policy), "--networks", str(project))
    ours, theirs = pty.openpty()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("BROWSER", browser_in(folder))
    with os.fdopen(theirs) as terminal, os.fdopen(ours):
        monkeypatch.setattr(sys, "stdin", terminal)
        look = partial(_look_and_press_keys, folder, run_id, ours, (ready["gateway_url"], ready["nats_url"]))
        assert status_after(look, "up", "--port", "auto", "--nats-port", "auto", "--single-person", *words) == 0
    monkeypatch.undo()
    assert imported(folder) == imported(project) == []


def assert_prometheus_is_told_of_all(folder: Path, processes: Mapping[str, Any]) -> None:
    """Run what the page about operations has for Prometheus, and ask every address that it is told of for metrics."""
    page = {block.name: block.text for block in blocks_of(ROOT / "docs/operations.md") if block.name}
    subprocess.run([sys.executable, "-P", "-c", page["targets.py"]], cwd=folder, check=True)
    (job,) = yaml.safe_load(page["prometheus.yml"])["scrape_configs"]
    (written,) = (folder / name for name in job["file_sd_configs"][0]["files"])
    told = {one["labels"]["process"]: one["targets"][0] for one in json.loads(written.read_text())}
    assert set(told) == set(processes) - {"nats", "postgres"}
    for address in told.values():
        assert "\nprocess_cpu_seconds_total " in httpx2.get(f"http://{address}/metrics").text


def _look_and_press_keys(folder: Path, run_id: str, terminal: int, before: tuple[str, str], told: Lines) -> None:
    """Look at what a person is told, and do what they may do at the terminal; the last key ends the platform.

    It answers where it answered *before*: the ports of the folder's last start are free.
    """
    gateway = told.wait_for("API").split()[1].removesuffix("/v1")
    assert (gateway, told.wait_for("NATS").split()[1]) == before
    assert "Ctrl-C stops all" in told.wait_for("ready in")
    told.wait_for("q quit")
    assert "1 gate waits for a person by now: towpath gates list" in told.wait_for("by now")
    token = local_token(folder)
    assert asyncio.run(_end(gateway, token, run_id))["status"] == "completed"
    failing = asyncio.run(_submit(gateway, token, model="scripted:of-nobody"))
    assert f"towpath runs show {failing[-12:]}" in told.wait_for("failed: script_missing")
    asyncio.run(_submit(gateway, token, script=json.loads((SAMPLE / "script.json").read_text())))
    assert "waits: orders.refund" in told.wait_for("towpath gates approve")
    tools = folder / "shop" / "tools.py"
    tools.write_text(f"{tools.read_text()}\n# more\n")
    assert "shop/tools.py: worker restarted, " in told.wait_for("worker restarted")
    policy = folder / "shop" / "policy.yaml"
    policy.write_text(policy.read_text().replace("> 100", "> 500").replace("<= 100", "<= 500"))
    impact = "2 rules changed; 2 past calls would be allowed"
    assert impact in told.wait_for("policy.yaml in force: version")
    os.write(terminal, b"r")
    assert "as before" in told.wait_for("policy.yaml in force: version")
    os.write(terminal, b"r")
    told.wait_for("network support version")
    os.write(terminal, b"o")
    told.wait_for("opening the console in a browser")
    deadline = time.monotonic() + TIMEOUT_S
    while not (folder / "opened").exists():
        assert time.monotonic() < deadline, "no browser was opened"
        time.sleep(0.05)
    link = told_address((folder / "opened").read_text())
    assert link.startswith(f"{gateway}/sign-in?token=")
    entered = httpx2.get(link, headers={"Sec-Fetch-Site": "cross-site"}, verify=False)  # as from a file
    assert (entered.status_code, entered.headers["refresh"], len(entered.cookies)) == (200, "0; url=/", 1)
    os.write(terminal, b"d")
    told.wait_for("checks, nothing is wrong")
    os.write(terminal, b"q")
    told.wait_for("stopping")
    told.ended.wait(TIMEOUT_S)


def browser_in(folder: Path) -> str:
    """Make a browser that keeps the file that it is to open."""
    program = folder / "browser"
    kept = folder / "opened"
    program.write_text(f'#!/bin/sh\ncp "${{1#file://}}" "{kept}.new" && mv "{kept}.new" "{kept}"\n')
    program.chmod(0o755)
    return str(program)


def told_address(page: str) -> str:
    """Return where a page leads by itself."""
    return page.partition("0; url=")[2].partition('"')[0]


def assert_no_credentials_shown(pids: Mapping[str, int | None]) -> None:
    """A forked process got its environment by a socket, an executed one its secrets by a pipe: none is listed."""
    for name, pid in pids.items():
        shown = environment_of(pid)
        assert without_secrets(shown)[1] == {}, name
        assert ("TOWPATH_TICKET_KEY_FILE" in shown) <= (name == "tas")


def local_token(folder: Path) -> dict[str, str]:
    """Return the header that curl sends with `--header @.towpath/authorization`."""
    place = folder / ".towpath" / "authorization"
    assert place.stat().st_mode & 0o777 == 0o600
    name, _, value = place.read_text().strip().partition(": ")
    return {name: value}


async def _submit_and_wait_for_the_gate(gateway_url: str, headers: dict[str, str]) -> str:
    async with (
        httpx2.AsyncClient(base_url=gateway_url, verify=False, headers=headers, timeout=60) as client,
        asyncio.timeout(TIMEOUT_S),
    ):
        run_id = await submit(client, "kept")
        while not (await client.get("/v1/gates")).json()["gates"]:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)
        return run_id


async def _submit(gateway_url: str, headers: dict[str, str], **task: Any) -> str:
    async with httpx2.AsyncClient(base_url=gateway_url, verify=False, headers=headers, timeout=60) as client:
        body = {"network": "support", "user_message": "Please refund order 8812.", **task}
        return str((await client.post("/v1/runs", json=body)).raise_for_status().json()["run_id"])


async def _end(gateway_url: str, headers: dict[str, str], run_id: str) -> dict[str, Any]:
    async with httpx2.AsyncClient(base_url=gateway_url, verify=False, headers=headers, timeout=60) as client:
        return await ended(client, run_id)
