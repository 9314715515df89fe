"""Networks of the examples on the pages' platform, with models that play what a test says."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel
from tests.e2e.pages.conftest import World
from tests.support.places import EXAMPLES
from tests.support.platform.objective_runs import plan, use

REVIEWED = [
    plan("read"),
    use("workspace_write", path="notes/review.md", content="Nothing is wrong.\n"),
    use("plan_mark_step", step_id="S001", status="done", note="It is read."),
    {"kind": "reflect", "verdict": "complete", "note": "All is done."},
    {"kind": "summarize", "summary": "Good.", "deliverable": {"verdict": "approve", "findings": []}},
]
"""What a model says in a background run that reviews."""


class Review(BaseModel):
    """What such a run hands over."""

    verdict: Literal["approve", "request_changes"]
    findings: list[str]


def played(name: str, script: str = "script.json") -> list[Any]:
    """Return what a model says in an example."""
    return list(json.loads((EXAMPLES / name / script).read_text("utf-8")))


def publish(world: World, example: str, model: str, script: Sequence[Any], **more: Any) -> None:
    """Publish the network of an example with a model that plays *script*, and with *more*."""
    (world.platform.data.parent / f"{model}.json").write_text(json.dumps(script), "utf-8")
    spec = yaml.safe_load((EXAMPLES / example / "network.yaml").read_text("utf-8"))
    Path(f"{model}.yaml").write_text(yaml.safe_dump({**spec, "model": f"scripted:{model}", **more}), "utf-8")
    world.ask("networks", "publish", f"{model}.yaml")
