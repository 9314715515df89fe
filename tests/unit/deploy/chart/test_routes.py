"""Who may become a node of the chart's broker: whoever knows the login of routes, and with TLS has a node's name."""

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.certificates import Authority
from tests.support.deploy.rendered_chart import ALL, AUTHORITY, FEW, of_kind
from tests.support.places import ROOT
from tests.unit.deploy.chart.test_same_processes import broker_environment

from towpath_embedded.processes.ports import free_port

BIN = Path(sys.executable).parent


def configured(folder: Path, values: dict[str, Any], port: int) -> Path:
    """Write the broker's configuration for this machine, with routes at *port*."""
    changes = {
        "/data": str(folder / "data"),
        "/certs": str(folder),
        "/tmp/nats.pid": str(folder / "pid"),
        "port: 4222": f"port: {free_port()}",
        "127.0.0.1:8222": f"127.0.0.1:{free_port()}",
        "0.0.0.0:6222": f"127.0.0.1:{port}",
    }
    texts = of_kind(values, "ConfigMap")["nats"]["data"]
    text = texts["nats.conf"]
    for old, new in changes.items():
        assert old in text or old == "/certs", old
        text = text.replace(old, new)
    (folder / "nats.conf").write_text(text, "utf-8")
    (folder / "authority.conf").write_text(texts["authority.conf"], "utf-8")
    return folder / "nats.conf"


@contextmanager
def node(folder: Path) -> Iterator[int]:
    """Run a node of the broker; yields the port of its routes."""
    port = free_port()
    passwords = dict.fromkeys(re.findall(r"\$(NATS_PASSWORD_\w+)", AUTHORITY), "password")
    command = [BIN / "nats-server", "-c", configured(folder, FEW, port)]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, env={**broker_environment(FEW), **passwords}, stdout=log, stderr=log)
    try:
        yield port
    finally:
        process.kill()
        process.wait()


def answer(port: int, login: dict[str, str]) -> str:
    """Return what a node says to somebody who connects to its routes as another node."""
    deadline = time.monotonic() + 60
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=60)
            break
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    with connection:
        said = {"verbose": False, "name": "other", "cluster": "towpath", "server_id": "OTHER", **login}
        connection.sendall(f"CONNECT {json.dumps(said)}\r\nPING\r\n".encode())
        heard = b""
        while b"PONG" not in heard and b"-ERR" not in heard and (more := connection.recv(4096)):
            heard += more
    return heard.decode()


def test_whoever_does_not_know_the_login_becomes_no_node(tmp_path: Path) -> None:
    with node(tmp_path) as port:
        assert "PONG" in answer(port, {"user": "route", "pass": "secret"})
        logins: list[dict[str, str]] = [{}, {"user": "route", "pass": "password"}, {"user": "tas", "pass": "password"}]
        for wrong in logins:
            heard = answer(port, wrong)
            assert "Authorization Violation" in heard and "PONG" not in heard


@pytest.mark.parametrize("place", ["chart", "systemd"])
def test_with_tls_a_node_has_a_certificate_for_the_name_of_one(place: str) -> None:
    chart = of_kind(ALL, "ConfigMap")["nats"]["data"]["nats.conf"]
    text = chart if place == "chart" else (ROOT / "deploy" / "systemd" / "nats-cluster.conf").read_text("utf-8")
    [cluster] = re.findall(r"^ *cluster \{.*?^ *tls \{(.*?)\}", text, re.MULTILINE | re.DOTALL)
    assert "verify_cert_and_check_known_urls: true" in cluster and "ca_file:" in cluster


def test_the_broker_reads_the_configuration_with_tls(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path, "ca")
    authority.issue("tls")
    for name in ("ca", "tls"):
        (tmp_path / f"{name}.pem").rename(tmp_path / f"{name}.crt")
    passwords = dict.fromkeys(re.findall(r"\$(NATS_PASSWORD_\w+)", AUTHORITY), "password")
    command = [BIN / "nats-server", "-t", "-c", configured(tmp_path, ALL, free_port())]
    environment = {**broker_environment(ALL), **passwords}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
