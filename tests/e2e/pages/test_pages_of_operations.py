"""The blocks of the page about operations, run as they stand on a live platform and in a folder with deploy/."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nats
import pytest
from tests.docs_site.shell_blocks import shell_commands
from tests.docs_site.taken_blocks import settings_of, taken
from tests.e2e.pages.conftest import Play, World
from tests.support.places import ROOT

from towpath.cli import main
from towpath_embedded.processes.ports import free_port

REPEATED = 2
"""Messages that nobody can handle: one is sent again, one is discarded."""


def letters(world: World) -> list[str]:
    """Publish tasks that nobody can read, and return dead letters of such."""

    async def publish() -> None:
        client = await nats.connect(world.platform.nats_url, inbox_prefix=b"_INBOX_client_anonymous")
        for _ in range(REPEATED):
            await client.publish("task.enqueue.anonymous", b'{"network": 7}')
        await client.drain()

    asyncio.run(publish())
    until = time.monotonic() + 90
    while len(found := world.ask("queues", "dead", "list", "--stream", "TASKS")["letters"]) < REPEATED:
        assert time.monotonic() < until, "no dead letters"
        time.sleep(0.05)
    return [str(one["dead_letter_id"]) for one in found[:REPEATED]]


def test_a_broker_of_three_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The part of a node's file, with the ports and folders of three on this machine."""
    names, ports, routes = ("one", "two", "three"), [free_port() for _ in "abc"], [free_port() for _ in "abc"]
    rights = (ROOT / "deploy" / "authority.conf").read_text("utf-8")
    passwords = dict.fromkeys(re.findall(r"\$(\w+)", rights), "a-password")
    (tmp_path / "authority.conf").write_text(rights, "utf-8")
    part = taken("docs/reliability.md: server_name").text
    for name, port in zip(names, routes, strict=True):
        part = part.replace(f"nats://{name}:6222", f"nats://127.0.0.1:{port}")
    with contextlib.ExitStack() as stack:
        for name, port, route in zip(names, ports, routes, strict=True):
            text = part.replace("server_name: one", f"server_name: {name}").replace('"/data"', f'"{tmp_path / name}"')
            text = text.replace("0.0.0.0:6222", f"127.0.0.1:{route}").replace("port: 4222", f"listen: 127.0.0.1:{port}")
            (tmp_path / f"{name}.conf").write_text(text, "utf-8")
            command = [Path(sys.executable).parent / "nats-server", "-c", tmp_path / f"{name}.conf"]
            node = stack.enter_context(subprocess.Popen(command, env=passwords, stderr=subprocess.DEVNULL))
            stack.callback(node.terminate)
        told = settings_of(taken("docs/reliability.md: TOWPATH_NATS_URL"))
        for name, port in zip(names, ports, strict=True):
            told = {
                one: value.replace(f"nats://{name}:4222", f"nats://127.0.0.1:{port}") for one, value in told.items()
            }
        for name, value in told.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("TOWPATH_NATS_USER", "deploy")
        monkeypatch.setenv("TOWPATH_NATS_PASSWORD", "a-password")
        (command,) = shell_commands(taken("docs/reliability.md: towpath streams").text, {})
        until = time.monotonic() + 90
        while main(command.words[1:]):
            assert time.monotonic() < until, "the nodes are no cluster"
        assert asyncio.run(replicas()) == {3}


async def replicas() -> set[int]:
    """Return how many nodes keep each stream of the broker that the settings name."""
    client = await nats.connect(
        os.environ["TOWPATH_NATS_URL"].split(","), user="deploy", password="a-password", inbox_prefix=b"_INBOX_deploy"
    )
    try:
        return {one.config.num_replicas for one in await client.jetstream().streams_info()}
    finally:
        await client.close()


def spare_worker(world: World) -> str:
    """Return the worker of the notes, which no page calls."""
    workers: list[dict[str, Any]] = world.ask("workers", "list", "--toolset", "notes")["workers"]
    return str(workers[0]["worker_id"])


def deployment() -> None:
    """Make a folder with deploy/ and its secrets, as whoever deploys has it."""
    shutil.copytree(ROOT / "deploy", "deploy")
    subprocess.run(["deploy/make-secrets"], check=True, capture_output=True)


def test_operations(play: Play, world: World) -> None:
    page = play("docs/operations.md")
    run_id = world.ended()
    world.publish("stock", {"key": "clerk"})
    world.ask("run", "stock", "Are there lamps?")
    page.shell({"RUN": run_id})
    page.shell({"postgresql://…": world.platform.database_url})
    page.shell({"RUN": run_id})
    assert "The order is 8813." in json.dumps(page.shell({"RUN": run_id}))
    page.shell({"RUN": run_id})
    again, dropped = letters(world)
    page.shell({"17": again, "18": dropped})
    page.shell({"4f1c09aa": spare_worker(world)})
    world.waiting()
    page.shell()
    page.shell({"RUN": world.waiting()[0]})
    deployment()
    page.shell()
    page.shell()
    page.shell()
    assert Path("deploy/secrets/tas.nkey").is_file()


def test_three_machines(play: Play, world: World, servers: None, tmp_path: Path) -> None:
    """What one machine does for all of them; the rest of the page takes systemd."""
    shutil.copytree(ROOT / "deploy", "deploy")
    page = play("docs/guides/three-machines.md")
    page.shell()
    command = ["openssl", "verify", "-CAfile", "ca.pem", "-purpose", "sslserver", "-verify_hostname", "one", "nats.pem"]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    page.shell()
    page.shell()
    page.shell({"/opt/towpath-0.2/bin/towpath": "towpath"})
    page.shell({"/backups": str(tmp_path / "backups"), "/backups/": f"{tmp_path}/backups/"})
    assert len([*Path("backups").glob("*.dump")]) == 1
    play("docs/guides/javascript-nats.md").shell()
    assert Path("deploy/secrets/web.env").is_file()
