"""Rows B9 and B10 on the running platform: workflows whose stages really overlap, and handoffs that know everything."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from pydantic import BaseModel
from tests.support.engine_machine import route
from tests.support.goal_place import respond, use
from tests.support.objective_runs import prompts_in

from towpath import Agent, Client, RefusedError, Swarm
from towpath_contracts.events import LogEntry
from towpath_contracts.views import RunView
from towpath_embedded.identity import temporary_folder
from towpath_embedded.platform import Platform
from towpath_embedded.roles import WorkerCommand

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOOLS = Path(__file__).parents[1] / "support" / "swarm_tools.py"
POLICY = """
kind: Policy
rules:
  - {name: meet, tool: round.meet, effect: allow}
"""


class Total(BaseModel):
    """What the pair is asked for."""

    total: int


A, B, C = (Agent(key, prompt=f"You are {key}.", tools=["round.meet"]) for key in "abc")
D = Agent("d")
ROUND = Swarm("round", flow=(C | A | B) >> D)
DESK = Swarm(
    "desk",
    [
        Agent("triage", tools=["round.meet"], routes=["expert", "pair"]),
        Agent("expert", routes=["triage"], description="Knows orders."),
        Swarm("pair", flow=Agent("first") >> Agent("second")),
    ],
    mode="handoff",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncIterator[Client]:
    with temporary_folder() as folder:
        (folder / "policy.yaml").write_text(POLICY)
        policy = {"tas": {"TOWPATH_POLICY_FILE": str(folder / "policy.yaml")}}
        workers = [WorkerCommand(modules=(str(TOOLS),))]
        async with (
            Platform(folder / "d", role_environment=policy, workers=workers, durable=False, starts="fork") as platform,
            Client(platform.gateway_url) as connected,
        ):
            for swarm in (ROUND, DESK):
                await connected.networks.publish(swarm)
            yield connected


def says(agent: str, text: str, **more: Any) -> dict[str, Any]:
    return {**respond(text), "agent": agent, **more}


async def log(client: Client, run_id: uuid.UUID) -> list[LogEntry]:
    return [entry async for entry in client.events(run_id)]


async def children(client: Client, run: RunView) -> dict[str, list[LogEntry]]:
    """Return the logs of a run's children by their agents."""
    started = [entry.event for entry in await log(client, run.run_id) if entry.event.type == "child_started"]
    return {one.task.agent_key: await log(client, one.child_id) for one in started}


def times(entries: list[LogEntry], kind: str) -> list[Any]:
    return [entry.at for entry in entries if entry.event.type == kind]


async def test_b9_a_parallel_stage_overlaps_and_is_joined_in_the_order_of_names(client: Client) -> None:
    """Row B9: flow DSL `a >> b`, `(a | b) >> c`, groups truly parallel, joined in name order."""
    topic = str(uuid.uuid4())
    script = [
        entry
        for key, slow in (("a", 400), ("b", 200), ("c", 0))  # they end against the order of their names
        for entry in (
            use("round.meet", key, topic=topic, who=key, parties=3),
            says(key, f"{key} was here", delay_ms=slow),
        )
    ]
    run = await client.run("round", "Meet.", script=[*script, says("d", "All came.")], timeout=90)
    assert (run.kind, run.status, run.final) == ("swarm", "completed", {"message": "All came."})
    logs = await children(client, run)
    assert list(logs) == ["a", "b", "c", "d"]
    begun = [times(logs[key], "instruction_issued")[0] for key in "abc"]
    ended = [times(logs[key], "tool_call_finished")[0] for key in "abc"]
    assert max(begun) < min(ended), "all three calls start before the first of them ends"
    created = {key: entries[0].event for key, entries in logs.items()}
    assert [created[key].user_message for key in "abc"] == ["Meet."] * 3
    assert created["d"].user_message == "a was here\n\nb was here\n\nc was here"
    assert [created[key].max_steps for key in "abcd"] == [10] * 4


async def test_b10_control_passes_with_all_that_was_said_and_done(client: Client) -> None:
    """Row B10: output equal to a declared handoff name transfers with full history."""
    script = [
        use("round.meet", "triage", topic=str(uuid.uuid4()), who="triage", parties=1),
        says("triage", " expert "),
        says("expert", "It is order 7."),
    ]
    task = {"network": "desk", "user_message": "Where is it?", "script": script, "debug": True}
    async with httpx2.AsyncClient(base_url=client.server, timeout=90) as http:
        answer = (await http.post("/run", json=task)).json()
    run = await client.get(answer["run_id"])
    assert (run.status, run.final, run.agent_key) == ("completed", {"message": "It is order 7."}, "expert")
    entries = await log(client, run.run_id)
    moved = [entry.event for entry in entries if entry.event.type in ("handed_off", "agent_transferred")]
    assert [(event.type, event.source, event.target) for event in moved] == [
        ("handed_off", "triage", "expert"),
        ("agent_transferred", "triage", "expert"),
    ]
    last = prompts_in(answer)[-1]
    for told in ("Where is it?", "[step 1] triage: try round.meet", "round.meet(", '"who":"triage"', "expert "):
        assert told in last


async def test_b10_a_swarm_that_is_handed_the_run_answers_for_it(client: Client) -> None:
    script = [{**route("pair"), "agent": "triage"}, says("first", "one"), {**respond({"total": 2}), "agent": "second"}]
    run = await client.run("desk", "Both, please.", script=script, timeout=90, output_type=Total)
    assert (run.status, run.reason, run.output) == ("completed", "responded", Total(total=2))
    tree = await client.tree(run.run_id)
    (pair,) = tree.children
    assert (pair.kind, pair.depth, pair.user_message) == ("swarm", 1, "Both, please.")
    assert [(one.agent_key, one.depth, one.user_message) for one in pair.children] == [
        ("first", 2, "Both, please."),
        ("second", 2, "one"),
    ]


async def test_b10_ten_handoffs_happen_and_no_more(client: Client) -> None:
    """Row B10: `max_handoffs` 10 exactly."""
    ring = [Agent(f"a{n:02}", routes=[f"a{n + 1:02}"] if n < 11 else []) for n in range(12)]
    await client.networks.publish(Swarm("ring", ring, mode="handoff"))
    script = [says(f"a{n:02}", f"a{n + 1:02}") for n in range(11)]
    run = await client.run("ring", "Round we go.", script=script, timeout=90)
    assert (run.status, run.reason, run.agent_key) == ("failed", "max_handoffs_exceeded", "a10")


async def test_b9_what_is_wrong_with_a_swarm_is_told_at_once(client: Client, tmp_path: Path) -> None:
    """Row B9: syntax, cycle, unknown and duplicate names refused."""
    flows = {"a >>": "flow_invalid", "a >> b >> a": "flow_cycle", "(a | a)": "flow_duplicate"}
    for flow, code in {**flows, "a >> x": "swarm_member_unknown"}.items():
        written = {"name": "n", "agents": [A.to_json(), B.to_json()], "swarm": {"mode": "workflow", "flow": flow}}
        with pytest.raises(RefusedError) as refused:
            await client.networks.validate(written)
        assert [(one.pointer, one.code) for one in refused.value.problem.errors][-1] == ("/swarm/flow", code)
    file = tmp_path / "wrong.yaml"
    file.write_text("name: n\nagents:\n  - key: a\nswarm:\n  mode: team\n  flow: a >>\n  members: [a]\n")
    with pytest.raises(RefusedError) as refused:
        await client.networks.validate(file)
    assert f"{file}:6: column 5: a stage is missing after the '>>' of column 3" in refused.value.problem.detail
    assert f"{file}:7: the swarm has one member, a" in refused.value.problem.detail
    for name, said in (
        ("goal", "swarm_takes_messages"),
        ("background", "swarm_takes_messages"),
        ("agent_key", "agent_not_found"),
    ):
        with pytest.raises(RefusedError) as refused:
            await client.submit("round", "Win.", **{name: "b"})
        assert (f"/{name}", said) in [(one.pointer, one.code) for one in refused.value.problem.errors]


async def test_e3_a_plan_that_a_model_writes_and_mends_is_carried_out_by_child_runs(client: Client) -> None:
    """Rows E3, E4, E5: prompt path with one corrective retry, templates over earlier results, parallel steps."""
    steps = [
        {"type": "agent", "agent": {"agent_key": "a", "prompt": "Ask {{ bindings.who }}.", "result_key": "said"}},
        {"type": "parallel", "parallel": {"steps": [
            {"agent_key": "b", "prompt": "Weigh {{ result.said.words[1] }}.", "result_key": "long"},
            {"agent_key": "c", "prompt": "Name it.", "result_key": "name"},
        ]}},
        {"type": "agent", "agent": {"agent_key": "d", "with": {"name": "{{ result.name }}"}}},
    ]  # fmt: skip
    long = {"text": "x" * 70_000}
    script = [
        {"kind": "compile_plan", "steps": [{"type": "agent", "agent": {"agent_key": "ghost", "prompt": "?"}}]},
        {"kind": "compile_plan", "steps": steps},
        {**respond({"words": ["one", "two"]}), "agent": "a"},
        {**respond(long), "agent": "b"},
        says("c", "Tide"),
        says("d", "Done."),
    ]
    task = {"network": "round", "plan": {"prompt": "Plan it.", "bindings": {"who": "the sea"}}, "script": script}
    async with httpx2.AsyncClient(base_url=client.server, timeout=90) as http:
        answer = (await http.post("/v1/runs", json=task)).json()
    run = await client.result(answer["run_id"], timeout=90)
    assert run.final is not None
    assert (run.kind, run.status, run.reason) == ("plan", "completed", "plan_completed"), run.final
    logs = await children(client, run)
    asked = {key: entries[0].event.user_message for key, entries in logs.items()}
    assert asked == {"a": "Ask the sea.", "b": "Weigh two.", "c": "Name it.", "d": '{"name":{"message":"Tide"}}'}
    bindings = run.final["bindings"]
    assert (bindings["name"], bindings["step_03"]) == ({"message": "Tide"}, {"message": "Done."})
    assert (bindings["long"]["bytes"], len(bindings["long"]["preview"])) == (70_011, 2_000)
    tree = await client.tree(run.run_id)
    assert [str(one.run_id) for one in tree.children] == [
        report["exec_id"] for step in run.final["steps"] for report in step.get("children", [step])
    ]
    moved = [entry.event.trigger for entry in await log(client, run.run_id) if entry.event.type == "plan_moved"]
    assert moved[:3] == ["start_plan", "start_plan", "planner_finished"] and moved[-1] == "all_done"
