"""The blocks of the pages about evaluations, deploying, upgrades, backups and workers, run as they stand."""

import asyncio
import json
import shutil

import pytest
from tests.e2e.pages.conftest import Play, World
from tests.support.decider.model_servers import KEY
from tests.support.places import EXAMPLES, ROOT


@pytest.fixture
def providers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that ask models by themselves find those of the pages' platform."""
    monkeypatch.setenv("TOWPATH_OPENAI_BASE_URL", f"{world.platform.models_url}/v1")
    monkeypatch.setenv("TOWPATH_GEMINI_BASE_URL", world.platform.models_url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("GEMINI_API_KEY", KEY)


def begin_afresh(world: World) -> str:
    """Forget the refunds of the sample, whose orders can be refunded once; returns the platform's address."""
    (world.platform.data.parent / "orders.sqlite3").unlink(missing_ok=True)
    return world.platform.address


def test_a_project(play: Play, world: World, providers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    page, deploying = play("docs/evaluation.md"), play("docs/guides/deploying.md")
    world.ask("init", "help-desk")
    monkeypatch.chdir("help-desk")
    page.file("yaml", "tests/evaluation.yaml")
    page.shell()
    begin_afresh(world)
    page.shell(read={"http://127.0.0.1:8787": lambda _: begin_afresh(world)})
    deploying.shell()
    shutil.copytree(ROOT / "deploy", "deploy")
    deploying.shell()
    world.publish_sample()


def test_upgrades(play: Play, servers: None) -> None:
    page = play("docs/guides/upgrading.md")
    while page.left:
        page.shell()


def test_tools(play: Play, world: World, servers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    passwords = json.loads((world.platform.data / "nats" / "passwords.json").read_text("utf-8"))
    monkeypatch.setenv("TOWPATH_NATS_USER", "worker")
    monkeypatch.setenv("TOWPATH_NATS_PASSWORD", passwords["worker"])
    page = play("docs/tools.md")
    worker = page.python(in_place={"nats://127.0.0.1:4222": world.platform.nats_url})
    asyncio.run(worker["main"]())
    assert world.ask("tools", "show", "look")
    shutil.copy(EXAMPLES / "support" / "tools.py", "tools.py")
    page.shell(codes={"tools lint": 1})
