"""The blocks of the pages about the command line, storage and quotas, run as they stand."""

import json
from pathlib import Path

import pytest
from tests.docs_site.code_blocks import blocks_of
from tests.e2e.pages.conftest import Play, World
from tests.support.places import ROOT


def test_cli(play: Play, world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = play("docs/cli.md")
    with monkeypatch.context() as patch:
        patch.setenv("TOWPATH_CONTEXTS_FILE", str(tmp_path / "contexts.json"))
        Path("prod.key").write_text("twp_none", "utf-8")
        page.shell(codes={"runs list": 6})
    question = {"network": "support", "agent_key": "billing", "tool": "orders.refund"}
    Path("question.json").write_text(json.dumps(question), "utf-8")
    page.shell()
    page.shell(codes={"dry-run": 5})
    run = world.ask("tools", "call", "orders.find", "--as", "billing", "--args", '{"order_id": "8812"}')
    entries = world.ask("audit", "search", "--run", run["run_id"], "--phase", "decision")["entries"]
    world.ask("networks", "publish", str(changed_network(world)))
    given = {"0192f3": run["run_id"], "0192f4": world.ended(), "1204": str(entries[0]["entry_id"])}
    page.shell(given, confirmed="rollback")


def changed_network(world: World) -> Path:
    """Write the sample's network with another limit, as its next version."""
    spec = world.ask("networks", "show", "support")["spec"]
    path = Path("support.json")
    path.write_text(json.dumps({"kind": "Network", **spec, "max_steps": 11}), "utf-8")
    return path


def test_storage(play: Play) -> None:
    play("docs/storage.md").shell()


def test_projects(play: Play, world: World) -> None:
    page = play("docs/projects.md")
    with world.approving():
        page.shell()
    page.shell()


def test_guides_of_chats_and_clients(play: Play, world: World) -> None:
    play("docs/guides/approvals-in-chat.md").shell()
    page = play("docs/guides/openai.md")
    page.shell()
    page.shell({"GATE_ID": world.waiting()[1]})


def test_coming_from_another_framework(play: Play) -> None:
    page = play("docs/guides/coming-from.md")
    (program,) = [block.text for block in blocks_of(ROOT / page.page) if block.name == "weather.py"]
    Path("weather.py").write_text(program, "utf-8")
    page.shell()
