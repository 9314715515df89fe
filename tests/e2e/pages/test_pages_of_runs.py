"""The blocks of the page about runs, run as they stand: goals, plans, background runs, and what people do to runs."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
import yaml
from pydantic import BaseModel
from tests.docs_site.page_player import PagePlayer
from tests.e2e.pages.conftest import Play, World
from tests.e2e.pages.examples import REVIEWED, Review, played, publish
from tests.support.places import EXAMPLES

from towpath import Goal, HostMount, Objective

GOAL = [*("--goal", "Make the tests pass.", "--criterion", "tests.failed == 0")]
READERS = ("finder", "reader", "writer")
SLOW = [{"action": "RESPOND", "delay_ms": 60_000}]


@pytest.fixture
def live(world: World) -> Iterator[tuple[str, str]]:
    """A run that waits for a person, and a goal run whose model takes a minute to answer."""
    publish(world, "goal", "mender", played("goal"))
    Path("slow.json").write_text(json.dumps(SLOW), "utf-8")
    found = world.waiting()[0], world.ask("run", "mender", *GOAL, "--script", "slow.json", "--detach")["run_id"]
    yield found
    for run_id in found:
        world.ask("runs", "cancel", run_id, "--wait")


def test_runs(play: Play, world: World, live: tuple[str, str]) -> None:
    page = play("docs/runs.md")
    with world.approving():
        page.python(world.platform.address)
    page.python(world.platform.address, run_id=(looked_at := world.waiting()[0]))
    ended = world.ask("runs", "watch", looked_at)
    assert ended["status"] == "completed" and "50" in json.dumps(world.ask("audit", "search", "--run", looked_at))
    judged = {"kind": "validate", "valid": True, "criteria": [{"criterion": 1, "met": True, "evidence": "it is"}]}
    script = [*played("goal"), *[judged] * 4]
    publish(world, "goal", "mender", script, goal={"require_evidence": False})
    given = {"goal": "Make it pass.", "acceptance_criteria": [{"when": "tests.failed == 0"}]}
    Path("goal.json").write_text(json.dumps(given), "utf-8")
    *_, shown = page.shell(read={"RUN": lambda out: str(json.loads(out)["run_id"])})
    assert "criteria_met" in shown.out
    pursued = page.python(world.platform.address, Goal=Goal)
    assert pursued["result"].reason == "criteria_met", pursued["state"]
    world.publish("papers", *({"key": name, "prompt_template": f"You are {name}."} for name in READERS))
    planned = {"network": "papers", "steps": [{"type": "agent", "agent": {"agent_key": "writer", "prompt": "Write."}}]}
    Path("plan.json").write_text(json.dumps(planned), "utf-8")
    run_id = world.ask("run", "papers", "--plan", "plan.json")["run_id"]
    page.shell({"RUN": run_id})
    assert page.python(world.platform.address, run_id=run_id)["top"].children
    assert page.task()["status"] == "completed"
    organised(page, world)
    waiting, slow = live
    page.shell({"RUN": [waiting] * 4 + [slow]})
    reviewed(page, world)


def organised(page: PagePlayer, world: World) -> None:
    """Have the example's organiser plan by the rule of the page."""
    rules = yaml.safe_load((EXAMPLES / "self_planning" / "policy.yaml").read_text("utf-8"))["rules"]
    (rule,) = yaml.safe_load(page.take("yaml").text)
    told = {"kind": "Policy", "rules": [rule, *(one for one in rules if one["tool"] != rule["tool"])]}
    Path("planning.yaml").write_text(yaml.safe_dump(told), "utf-8")
    world.ask("policy", "apply", "planning.yaml")
    publish(world, "self_planning", "self_planning", played("self_planning", "plan.json"))
    assert world.ask("run", "self_planning", "What do we tell?")["status"] == "completed"


def reviewed(page: PagePlayer, world: World) -> None:
    """Run the objectives of the page, and look at what the last one wrote."""
    publish(world, "background_review", "review", REVIEWED)
    world.ask("policy", "apply", str(world.platform.data.parent / "policy.yaml"))
    shutil.copytree(EXAMPLES / "background_review" / "change", "diff")
    Path("docs").mkdir()
    Path("docs", "checklist.md").write_text("Cookies: HttpOnly.", "utf-8")
    Path("review.json").write_text(json.dumps(Review.model_json_schema()), "utf-8")
    objective = {"objective": "Review the change.", "deliverable_schema": Review.model_json_schema()}
    Path("objective.json").write_text(json.dumps(objective), "utf-8")
    done = page.shell()
    assert [json.loads(one.out)["status"] for one in done] == ["completed"] * 2
    names = {"BaseModel": BaseModel, "Literal": Literal, "HostMount": HostMount, "Objective": Objective}
    result = page.python(world.platform.address, **names)["result"]
    assert (result.status, result.deliverable.verdict) == ("completed", "approve")
    run_id = json.loads(done[-1].out)["run_id"]
    page.shell({"RUN": run_id, "PATH": "notes/review.md", "FOLDER": "exported"})
    assert Path("exported", "notes", "review.md").read_text("utf-8") == "Nothing is wrong.\n"
    page.shell({"RUN": run_id})
