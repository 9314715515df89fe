"""The blocks of the examples' READMEs, and of the overviews in README.md and the tutorial, run as they stand."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml
from tests.docs_site.code_blocks import blocks_of
from tests.docs_site.page_player import Said
from tests.e2e.pages.conftest import Play, World
from tests.e2e.pages.examples import REVIEWED, Review, played, publish
from tests.support.places import ROOT

from towpath.cli import main


@pytest.fixture
def in_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands begin in the folder of a clone, as they say."""
    monkeypatch.chdir(ROOT)


def run_of(said: Said) -> str:
    """Return the run that a command of it has told of last."""
    return re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", said.out)[-1]


def newest(world: World, network: str) -> str:
    """Return the newest run of a network."""
    (run, *_) = world.ask("runs", "list", "--network", network)["runs"]
    return str(run["run_id"])


def test_a_team_and_plans(play: Play, world: World, in_clone: None, capfd: pytest.CaptureFixture[str]) -> None:
    team = play("examples/research_team/README.md")
    team.shell()
    team.shell(read={"RUN": lambda _: newest(world, "research_team")})
    plans = play("examples/self_planning/README.md")
    plans.shell()
    _, prompted, *_ = plans.shell(read={"RUN": lambda _: newest(world, "self_planning")})
    capfd.readouterr()
    assert main(["runs", "tree", run_of(prompted), "-o", "table"]) == 0
    shown = [re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27} ", "", line) for line in capfd.readouterr().out.splitlines()]
    assert shown == plans.take("").text.splitlines()


def test_programs_that_begin_runs(play: Play, world: World, in_clone: None) -> None:
    pipeline = play("examples/document_pipeline/README.md")
    pipeline.shell()
    pipeline.shell(read={"RUN": lambda out: out.split()[-1]})
    review = play("examples/background_review/README.md")
    review.shell(read={"RUN": lambda _: newest(world, "review")})


def test_a_goal_an_agent_of_one_s_own_and_the_help_desk(play: Play, world: World, in_clone: None) -> None:
    goal = play("examples/goal/README.md")
    goal.shell(read={"RUN": lambda _: newest(world, "mender")})
    play("examples/base_agent/README.md").shell()
    play("examples/policies/README.md").shell()
    desk = play("examples/support/README.md")
    _, gate = world.waiting()
    with world.approving():
        desk.shell({"GATE": gate})


def test_overviews(play: Play, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for block in blocks_of(ROOT / "docs" / "tutorial.md"):
        if block.name in {"tools.py", "policy.yaml"}:
            Path(block.name).write_text(block.text, "utf-8")
    world.publish("stock", {"key": "clerk"})
    Path("network.yaml").write_text(yaml.safe_dump(json.loads(Path("stock.network.json").read_text("utf-8"))), "utf-8")
    play("README.md").shell()
    page = play("docs/tutorial.md")
    publish(world, "goal", "mender", played("goal"), name="repair")
    publish(world, "background_review", "review", REVIEWED)
    shutil.copytree(ROOT / "examples" / "background_review" / "change", "change")
    Path("review.json").write_text(json.dumps(Review.model_json_schema()), "utf-8")
    page.shell()
    Path("golden").mkdir()
    ended = world.ended()
    with monkeypatch.context() as patch:
        patch.chdir(ROOT)
        world.ask("networks", "publish", "examples/research_team/network.yaml")
        world.ask("networks", "publish", "examples/self_planning/network.yaml")
        page.shell(read={"RUN": lambda _: newest(world, "self_planning")})
    page.shell({"RUN": ended})
