"""The examples of many agents are run as their READMEs say, on one platform: a team, a pipeline, a plan of its own.

Rows B9, B11, E1 and E11 are shown by them, and what a person at the terminal sees of runs below others.
"""

import asyncio
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
import pytest_asyncio
import yaml
from tests.support.places import ROOT

from towpath import Client
from towpath.cli import main
from towpath_contracts.events.log import (
    ChildEnded,
    ChildStarted,
    InstructionIssued,
    LogEntry,
    PlanAccepted,
    PlanStateChanged,
)
from towpath_contracts.runs.tree import RunTreeNode
from towpath_embedded.network_files.network_folder import NetworkFolderPublisher
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder

pytestmark = pytest.mark.asyncio(loop_scope="module")

EXAMPLES = {
    name: ROOT / "examples" / name / "README.md" for name in ("research_team", "document_pipeline", "self_planning")
}
NOTE = {"message": "The lamp sold best, 41 times. Only 3 are left, so order some."}


class Place(NamedTuple):
    """The platform of all three, and the folder in which their tools leave files."""

    client: Client
    folder: Path


def commands(name: str, program: str) -> list[list[str]]:
    """Return the words of every command of an example's README that starts with *program*."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", EXAMPLES[name].read_text("utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith(program)]
    return [[str(ROOT / word) if word.startswith("examples/") else word for word in shlex.split(one)] for one in lines]


def given(name: str, option: str) -> list[Path]:
    """Return what an example's `towpath up` is given by *option*."""
    (up,) = commands(name, "towpath up")
    return [Path(value) for word, value in pairwise(up) if word == option]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place() -> AsyncIterator[Place]:
    with temporary_folder() as folder:
        policies = [yaml.safe_load(path.read_text("utf-8")) for name in EXAMPLES for path in given(name, "--policy")]
        rules = [rule for policy in policies for rule in policy["rules"]]
        (folder / "policy.yaml").write_text(yaml.safe_dump({"kind": "Policy", "rules": rules}), "utf-8")
        modules = tuple(str(path) for name in EXAMPLES for path in given(name, "--worker"))
        platform = Platform(
            folder / "d",
            environment={"RESEARCH_FOLDER": str(folder), "PIPELINE_FOLDER": str(folder)},
            role_environment={"tas": {"TOWPATH_POLICY_FILE": str(folder / "policy.yaml")}},
            workers=[WorkerLaunch(modules=modules)],
            durable=False,
            starts="fork",
        )
        async with platform, Client(platform.client_url) as client:
            lines: list[str] = []
            for path in [path for name in EXAMPLES for path in given(name, "--networks")]:
                await NetworkFolderPublisher(path, platform.client_url, lines.append).publish_changed()
            assert lines == [f"network.yaml: network {name} version 1" for name in ("research_team", "self_planning")]
            yield Place(client, folder)


@pytest.fixture
def ask(place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run one command line beside the platform's own loop; gives what it prints as JSON."""
    monkeypatch.setenv("TOWPATH_SERVER", place.client.server)

    async def run(words: list[str]) -> Any:
        code = await asyncio.to_thread(main, [*words, "-o", "json"])
        shown = capsys.readouterr()
        assert code == 0, shown
        return json.loads(shown.out)

    return run


def runs_of(name: str) -> list[list[str]]:
    """Return the `towpath run …` commands of an example, to be waited for without being watched."""
    return [[word for word in words[1:] if word != "--watch"] for words in commands(name, "towpath run ")]


def played(name: str) -> list[Any]:
    """Return the decisions of the first of these commands."""
    return list(json.loads(Path(runs_of(name)[0][-1]).read_text("utf-8")))


async def tree(ask: Any, run_id: str) -> RunTreeNode:
    """Return what `towpath runs tree` shows."""
    return RunTreeNode.model_validate(await ask(["runs", "tree", run_id]))


async def log(place: Place, run_id: Any) -> list[LogEntry]:
    return [entry async for entry in place.client.events(run_id)]


async def test_b11_a_lead_and_three_workers_answer_a_question(place: Place, ask: Any) -> None:
    """Row B11: the lead gets `delegate_to_<name>(task)`; workers are child runs."""
    (command,) = runs_of("research_team")
    run = await ask(command)
    assert (run["kind"], run["status"]) == ("swarm", "completed")
    assert run["final"]["message"].startswith("Yes, one that takes its heat from the canal")
    top = await tree(ask, run["run_id"])
    assert [(one.agent_key, one.depth, one.status) for one in top.children] == [
        (name, 1, "completed") for name in ("costs", "technique", "objections")
    ]
    events = [entry.event for entry in await log(place, run["run_id"])]
    steps = [event for event in events if isinstance(event, ChildStarted | ChildEnded | InstructionIssued)]
    assert [type(event) for event in (steps[0], *steps[-2:])] == [InstructionIssued] * 3, "the lead waits for all three"
    assert sum(isinstance(event, ChildEnded) for event in steps[1:-2]) == 3
    assert "3,800 EUR a year less" in (place.folder / "heat-pump.md").read_text("utf-8")


async def test_b9_a_document_goes_through_a_pipeline_whose_reviews_run_at_once(
    place: Place, ask: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Row B9: `a >> (b | c | d) >> e`, joined in the order of names."""
    ((_python, program, *words),) = commands("document_pipeline", "python ")
    spec = importlib.util.spec_from_file_location("pipeline", program)
    assert spec is not None and spec.loader is not None
    pipeline = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pipeline)
    await pipeline.main([*words, "--server", place.client.server])
    *children, final, shown = capsys.readouterr().out.splitlines()
    names = ["draft", "facts", "legal", "style", "merge"]
    assert [line.split()[:2] for line in children] == [[name, "completed"] for name in names]
    assert final.startswith('completed: {"message": "The document final is written')
    top = await tree(ask, shown.split()[-1])
    reviews = [line for line in top.children[-1].user_message.splitlines() if line]
    assert [line.split(":")[0] for line in reviews] == ["Facts", "Legal", "Style"]
    drafted, merged = ((place.folder / f"{name}.md").read_text("utf-8") for name in ("draft", "final"))
    assert ("1842" in drafted, "1842" in merged, "1824" in merged) == (True, False, True)


@pytest.mark.parametrize(("which", "mended"), [(0, 0), (1, 1)], ids=["plan", "prompt"])
async def test_e1_e3_an_agent_plans_its_own_work(place: Place, ask: Any, which: int, mended: int) -> None:
    """Row E1: `agent_orchestrate` with a plan or a prompt; row E3: a planner that mends its plan once."""
    run = await ask(runs_of("self_planning")[which])
    assert (run["kind"], run["status"], run["final"]) == ("network", "completed", NOTE)
    top = await tree(ask, run["run_id"])
    (plan,) = top.children
    assert (plan.kind, plan.status, plan.depth) == ("plan", "completed", 1)
    assert [(one.agent_key, one.depth) for one in plan.children] == [("sales", 1), ("stock", 1), ("writer", 1)]
    assert '{"best":"lamp","left":3,"sold":41}' in plan.children[-1].user_message
    events = [entry.event for entry in await log(place, plan.run_id)]
    (accepted,) = [event for event in events if isinstance(event, PlanAccepted)]
    assert accepted.origin == ("planned" if mended else "given")
    refused = [str(event.error) for event in events if isinstance(event, PlanStateChanged) and event.error is not None]
    assert len(refused) == mended
    assert all("author" in one and "result.left" in one for one in refused), "both mistakes are reported at once"


async def test_the_same_plan_needs_no_planner(place: Place, ask: Any) -> None:
    run = await ask(runs_of("self_planning")[2])
    assert (run["kind"], run["status"], run["final"]["bindings"]["note"]) == ("plan", "completed", NOTE)
    top = await tree(ask, run["run_id"])
    assert [(one.agent_key, one.subject) for one in top.children] == [
        ("sales", "look[0]"), ("stock", "look[1]"), ("writer", "write"),
    ]  # fmt: skip


async def test_e11_a_cancel_of_the_top_reaches_every_run_below_it(place: Place) -> None:
    """Row E11: cancellation reaches every child, here those of a plan that an agent has made."""
    slow = [{"agent": key, "delay_ms": 60_000} for key in ("sales", "stock")]
    accepted = await place.client.submit("self_planning", "Plan it.", script=[played("self_planning")[0], *slow])

    async def below() -> list[RunTreeNode]:
        top = await place.client.tree(accepted.run_id)
        return [node for plan in top.children for node in (plan, *plan.children)]

    async with asyncio.timeout(90):
        while len(await below()) < 3:  # noqa: ASYNC110 - what is waited for has no event here
            await asyncio.sleep(0.05)
        await place.client.cancel(accepted.run_id, "not needed")
        run = await place.client.result(accepted.run_id)
    assert run.status == "cancelled"
    assert [(node.depth, node.status) for node in await below()] == [(1, "cancelled")] * 3


async def notices_of(run_id: str, server: str, *words: str) -> str:
    """Return what `towpath runs watch` says beside its output until it has said all *words*."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "towpath.cli", "runs", "watch", run_id, "-o", "jsonl"),
        env={**os.environ, "TOWPATH_SERVER": server}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    said = ""
    try:
        assert process.stderr is not None
        async with asyncio.timeout(60):
            while not all(word in said for word in words):
                said += (await process.stderr.readline()).decode()
    finally:
        process.kill()
        shown, _ = await process.communicate()
    assert {json.loads(line).get("path", []) == [] for line in shown.splitlines()} == {True}, "its own log alone"
    return said


async def agents_of_plan(place: Place, run_id: UUID) -> list[RunTreeNode]:
    return [leaf for one in (await place.client.tree(run_id)).children for leaf in one.children]


async def test_c11_who_looks_at_a_run_sees_the_gates_of_those_below_it(
    place: Place, ask: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Row C11: at the terminal too, two levels below the run that somebody watches."""
    slow = [{"agent": key, "delay_ms": 60_000} for key in ("sales", "stock")]
    accepted = await place.client.submit("self_planning", "Plan it.", script=[played("self_planning")[0], *slow])
    run_id = str(accepted.run_id)
    async with asyncio.timeout(90):
        while len(leaves := await agents_of_plan(place, accepted.run_id)) < 2:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.05)
    gates = [str((await place.client.gate(one.run_id, f"is {one.agent_key} needed?")).gate_id) for one in leaves]
    said = await notices_of(run_id, place.client.server, *gates)
    notices = [
        f"{gate} (local put a gate on the run: is {one.agent_key}" for gate, one in zip(gates, leaves, strict=True)
    ]
    assert all(notice in said for notice in notices), said
    async with asyncio.timeout(60):
        while (await place.client.get(run_id)).status != "waiting":  # noqa: ASYNC110 - there is no event here
            await asyncio.sleep(0.05)
    seen = await ask(["runs", "show", run_id])
    assert {line.split(": ")[-1] for line in seen["waits"]} == {"is sales needed?", "is stock needed?"}
    log = await ask(["runs", "log", run_id])
    assert (log["status"], [one["type"] for one in log["execution_log"]]) == ("waiting", ["agent"]), (
        "it can be read now"
    )
    for words in (["runs", "tree", run_id], ["gates", "list", "--run", run_id]):
        assert await asyncio.to_thread(main, [*words, "-o", "table"]) == 0
        shown = [line.strip() for line in capsys.readouterr().out.splitlines()]
        for gate, leaf in zip(gates, leaves, strict=True):
            (line,) = [one for one in shown if gate in one]
            above = line if words[0] == "gates" else shown[shown.index(line) - 1]
            assert str(leaf.run_id) in above, "whose gate it is"
    await place.client.cancel(accepted.run_id, "seen")


async def test_c3_a_deadline_is_given_at_the_terminal(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row C3: `--deadline` bounds the run; `--wait` is how long somebody watches."""
    monkeypatch.setenv("TOWPATH_SERVER", place.client.server)
    (script := tmp_path / "slow.json").write_text(json.dumps([{"action": "RESPOND", "delay_ms": 60_000}]), "utf-8")
    words = ["run", "self_planning", "Plan it.", "--script", str(script), "--deadline", "300ms", "-o", "json"]
    assert await asyncio.to_thread(main, words) == 1
    run = json.loads(capsys.readouterr().out)
    assert (run["status"], run["reason"]) == ("timed_out", "deadline_exceeded")
    assert run["message"] == "the run used its 300 ms of active time"
