"""Rows B9 to B11 on the running platform: stages that overlap, handoffs that know everything, teams and plans."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import nats
import pytest
import pytest_asyncio
from pydantic import BaseModel
from tests.support.engine.machine import route
from tests.support.places import TESTS
from tests.support.platform.goal_platform import respond, use
from tests.support.platform.objective_runs import prompts_in

from towpath import Agent, Client, RefusedError, Swarm, WaitingGate
from towpath_contracts.events.log import LogEntry
from towpath_contracts.runs.views import RunView
from towpath_contracts.subjects import task_enqueue
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOOLS = TESTS / "support" / "worker" / "swarm_tools.py"
POLICY = """
kind: Policy
rules:
  - {name: meet, tool: round.meet, effect: allow}
  - {name: delegate, tool: "delegate_to_*", effect: allow}
  - {name: look, tool: delegate_to_cid, effect: require_approval}
  - {name: plan, tool: agent_orchestrate, effect: allow}
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
CREW = Swarm(
    "crew",
    [
        Agent("lead"),
        Agent("ann", tools=["round.meet"]),
        Agent("bob", tools=["round.meet"]),
        Agent("cid", description="Counts."),
    ],
    mode="team",
)
PLANNERS = {
    "name": "planners",
    "agents": [
        {"key": "boss", "is_default": True, "allow_respond": True, "equipped_tools": ["agent_orchestrate"]},
        {"key": "scout", "allow_respond": True},
        {"key": "guest", "allow_respond": True, "equipped_tools": ["round.meet"]},
    ],
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform() -> AsyncIterator[Platform]:
    with temporary_folder() as folder:
        (folder / "policy.yaml").write_text(POLICY)
        policy = {"tas": {"TOWPATH_POLICY_FILE": str(folder / "policy.yaml"), "TOWPATH_SINGLE_PERSON": "true"}}
        workers = [WorkerLaunch(modules=(str(TOOLS),))]
        async with Platform(
            folder / "d", role_environment=policy, workers=workers, durable=False, starts="fork"
        ) as running:
            yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(platform: Platform) -> AsyncIterator[Client]:
    async with Client(platform.client_url) as connected:
        for network in (ROUND, DESK, CREW, PLANNERS):
            await connected.networks.publish(network)
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


async def test_b10_control_passes_with_all_messages_and_results(client: Client) -> None:
    """Row B10: output equal to a declared handoff name transfers with full history."""
    script = [
        use("round.meet", "triage", topic=str(uuid.uuid4()), who="triage", parties=1),
        says("triage", " expert "),
        says("expert", "It is order 7."),
    ]
    task = {"network": "desk", "user_message": "Where is it?", "script": script, "debug": True}
    async with httpx2.AsyncClient(base_url=client.server, verify=False, timeout=90) as http:
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
    for part in ("Where is it?", "[step 1] triage: try round.meet", "round.meet(", '"who":"triage"', "expert "):
        assert part in last


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


async def test_b9_all_faults_of_a_swarm_are_reported_at_once(client: Client, tmp_path: Path) -> None:
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
    for name, code in (
        ("goal", "swarm_takes_messages"),
        ("background", "swarm_takes_messages"),
        ("agent_key", "agent_not_found"),
    ):
        with pytest.raises(RefusedError) as refused:
            await client.submit("round", "Win.", **{name: "b"})
        assert (f"/{name}", code) in [(one.pointer, one.code) for one in refused.value.problem.errors]


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
    async with httpx2.AsyncClient(base_url=client.server, verify=False, timeout=90) as http:
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


async def test_b11_members_that_are_asked_at_once_work_at_once_and_one_may_fail(client: Client) -> None:
    """Row B11: the lead gets `delegate_to_<name>(task)`; workers are child runs; worker error is a tool error.

    A person is asked about one of the calls, and changes what that member is to do.
    """
    topic = str(uuid.uuid4())
    asked = {
        "action": "USE_TOOL",
        "action_details": {
            "calls": [
                {"tool_name": f"delegate_to_{name}", "tool_params": {"task": f"Do it, {name}."}}
                for name in ("ann", "bob", "cid")
            ]
        },
        "agent": "lead",
    }
    meet = [use("round.meet", key, topic=topic, who=key, parties=2) for key in ("ann", "bob")]
    script = [asked, *meet, says("ann", "Met."), says("cid", "Two."), says("lead", "Ann met bob, cid counted.")]
    accepted = await client.submit("crew", "Meet and count.", script=script)
    async with asyncio.timeout(90):
        async for event in client.stream(accepted.run_id):
            if isinstance(event, WaitingGate):
                await event.approve(edit={"task": "Count twice, cid."}, reason="to be sure")
    run = await client.result(accepted.run_id)
    assert run.final == {"message": "Ann met bob, cid counted."}
    ended = {
        one.event.tool: one.event for one in await log(client, run.run_id) if one.event.type == "tool_call_finished"
    }
    assert {tool: event.status for tool, event in ended.items()} == {
        "delegate_to_ann": "succeeded",
        "delegate_to_bob": "failed",
        "delegate_to_cid": "succeeded",
    }
    assert ended["delegate_to_ann"].result == {"message": "Met."}
    assert ended["delegate_to_bob"].failure.message.startswith("Delegation to 'bob' failed: failed, ")
    tree = await client.tree(run.run_id)
    assert {node.agent_key: (node.purpose, node.depth, node.user_message) for node in tree.children} == {
        "ann": ("delegate", 1, "Do it, ann."),
        "bob": ("delegate", 1, "Do it, bob."),
        "cid": ("delegate", 1, "Count twice, cid."),
    }
    async with asyncio.timeout(90):
        while await closed(client, run) != {"ann": "succeeded", "bob": "failed", "cid": "succeeded"}:  # noqa: ASYNC110 - it comes over the ledger
            await asyncio.sleep(0.05)


async def closed(client: Client, run: RunView) -> dict[str, str]:
    """Return what the audit holds of the ends of the run's delegates."""
    entries = (await client.audit.search(run_id=str(run.run_id))).entries
    return {one.tool.removeprefix("delegate_to_"): one.verdict for one in entries if one.phase == "outcome"}


async def test_e1_a_plan_of_an_agent_goes_on_at_its_step_when_its_orchestrator_is_killed(
    client: Client, platform: Platform
) -> None:
    """Row E1: `agent_orchestrate` is idempotent under a crash: a plan resumes at the step that it was in."""
    topic = str(uuid.uuid4())
    steps = [
        {"type": "agent", "agent": {"agent_key": "scout", "prompt": "Look.", "result_key": "seen"}},
        {"type": "agent", "agent": {"agent_key": "guest", "with": {"seen": "{{ result.seen.message }}"}}},
    ]
    meet = {name: use("round.meet", "guest", topic=topic, who=name, parties=2) for name in ("first", "second")}
    plan = use("agent_orchestrate", "boss", plan={"steps": steps})
    script = [plan, says("scout", "A lock."), meet["first"], says("guest", "Met."), says("boss", "Done.")]
    accepted = await client.submit("planners", "Plan it.", script=script)

    async def agents() -> list[str]:
        """Return who of the plan has begun a call or answered."""
        (node,) = (await client.tree(accepted.run_id)).children or (None,)
        begun = [one for one in node.children if one.step] if node is not None else []
        return [one.agent_key for one in begun]

    async with asyncio.timeout(90):
        while "guest" not in await agents():  # noqa: ASYNC110 - what is waited for has no event here
            await asyncio.sleep(0.05)
    platform.kill(next(name for name in platform.processes if name.startswith("orchestrator")))
    await platform.wait_ready()
    other = await client.run(
        "planners", "Come.", agent_key="guest", script=[meet["second"], says("guest", "Met.")], timeout=90
    )
    run = await client.result(accepted.run_id, timeout=90)
    assert (other.status, run.status, run.final) == ("completed", "completed", {"message": "Done."})
    (call,) = [one.event for one in await log(client, run.run_id) if one.event.type == "tool_call_finished"]
    assert (call.status, call.result["success"]) == ("succeeded", True)
    assert call.result["bindings"]["seen"] == {"message": "A lock."}
    (node,) = (await client.tree(run.run_id)).children
    assert [str(one.run_id) for one in node.children] == [step["exec_id"] for step in call.result["steps"]]
    begun = [one.event for one in await log(client, node.run_id) if one.event.type == "plan_step_started"]
    assert [event.step_id for event in begun] == ["step_01", "step_02"], "nothing is begun twice"
    assert begun[1].inputs == ('{"seen":"A lock."}',)


LOOK = {"type": "agent", "agent": {"agent_key": "scout", "prompt": "Look."}}
RAISED: list[tuple[dict[str, Any], str]] = [
    ({"plan": {"steps": [LOOK] * 13}}, "/plan/plan/steps"),
    ({"plan": {"steps": [LOOK]}, "max_parallel": 5}, "/plan/max_parallel"),
    ({"plan": {"steps": [LOOK]}, "max_depth": 9}, "/plan/max_depth"),
    ({"plan": {"steps": [LOOK]}, "timeout_ms": 10**12}, "/plan/timeout_ms"),
]
"""Plans that ask for more than the server's caps, and the place of what is too much."""


async def enqueue(platform: Platform, tasks: list[dict[str, Any]]) -> None:
    """Enqueue tasks and wait until each has been set aside."""
    database = await asyncpg.connect(platform.dsn())
    nc = await nats.connect(platform.nats_url)
    try:
        for task in tasks:
            await nc.jetstream().publish(task_enqueue("anonymous"), json.dumps(task).encode())
        async with asyncio.timeout(90):
            aside = "SELECT count(*) FROM runs.dead_letter WHERE subject LIKE 'task.enqueue.%'"
            while await database.fetchval(aside) < len(tasks):  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0.05)
    finally:
        await nc.close()
        await database.close()


async def test_e7_no_door_lets_more_in_than_the_caps(client: Client, platform: Platform) -> None:
    """Row E7: depth 3, steps 12, parallel 4: refused over HTTP and NATS, in network files, and from an agent."""
    async with Client(platform.nats_url) as by_nats:
        for through in (client, by_nats):
            for raised, pointer in RAISED:
                with pytest.raises(RefusedError) as refused:
                    await through.submit("planners", "Go.", plan=raised)
                assert pointer in [one.pointer for one in refused.value.problem.errors]
    await enqueue(platform, [{"network": "planners", "user_message": "Go.", "plan": raised} for raised, _ in RAISED])
    deep = {f"s{n}": {"mode": "workflow", "members": [f"s{n + 1}"]} for n in range(3)}
    deep["s3"] = {"mode": "workflow", "members": ["scout"]}
    for swarm in ({"mode": "team", "max_parallel": 5}, {"mode": "workflow", "members": ["s0"], "swarms": deep}):
        with pytest.raises(RefusedError):
            await client.networks.publish({"name": "raised", "agents": PLANNERS["agents"], "swarm": swarm})
    agents = ({"agent_key": "boss", "prompt": prompt} for prompt in ("Plan on.", "Go deeper.", "Ask more.", "Again."))
    script = [
        *(use("agent_orchestrate", "boss", **raised) for raised, _pointer in RAISED),
        *(use("agent_orchestrate", "boss", plan={"steps": [{"type": "agent", "agent": one}]}) for one in agents),
        says("boss", "As deep as it goes."),
        *(says("boss", "Below it is done.") for _ in range(2)),
        says("boss", "Done."),
    ]
    run = await client.run("planners", "Plan it.", script=script, timeout=90)
    assert (run.status, run.final) == ("completed", {"message": "Done."}), run.reason
    calls = (one.event for one in await log(client, run.run_id) if one.event.type.startswith("tool_call_"))
    ends = [getattr(one, "status", "denied") for one in calls]
    assert ends[-1] == "succeeded" and "succeeded" not in ends[:-1], "each was an error"
    below = await client.tree(run.run_id)
    for depth in (1, 2, 3):
        (plan,) = below.children
        (below,) = plan.children
        assert (plan.kind, plan.depth, below.agent_key, below.depth) == ("plan", depth, "boss", depth)
    assert "depth_exceeded" in str(await log(client, below.run_id))
