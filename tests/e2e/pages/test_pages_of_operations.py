"""The blocks of the page about operations, run as they stand on a live platform and in a folder with deploy/."""

import asyncio
import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import nats
from tests.e2e.pages.conftest import Play, World
from tests.support.places import ROOT

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


def test_credentials_of_the_broker(play: Play, world: World) -> None:
    shutil.copytree(ROOT / "deploy", "deploy")
    page = play("docs/guides/three-machines.md")
    page.shell()
    page.shell()
    play("docs/guides/javascript-nats.md").shell()
    assert Path("deploy/secrets/web.env").is_file()
