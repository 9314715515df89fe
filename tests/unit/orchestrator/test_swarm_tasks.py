"""What a task makes of a network that is a swarm, and what such a network can't take."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.engine.machine import agent, snapshot
from tests.support.engine.plan_machine import PlanRun

from towpath_contracts.events import log as ev
from towpath_contracts.networks.spec import NetworkSnapshot, NetworkVersion
from towpath_contracts.networks.swarm import CompiledSwarm
from towpath_contracts.tasks import SubmitTask
from towpath_engine.handlers.children import new_child_run
from towpath_orchestrator.core.tasks import check_task, created_event
from towpath_orchestrator.settings import OrchestratorSettings

VERSION = NetworkVersion.model_validate(
    {
        "project": "default",
        "name": "desk",
        "version": 1,
        "digest": "sha256:00",
        "published_at": datetime(2026, 11, 22, tzinfo=UTC),
        "published_by": "ann",
    }
)


def network(mode: str) -> NetworkSnapshot:
    swarm = CompiledSwarm.model_validate(
        {"mode": mode, "members": ("a", "b"), "stages": (("a",),), "handoffs": {"a": ("b",), "b": ()}}
    )
    return snapshot(agent("a"), agent("b"), agent("other"), swarm=swarm, max_steps=20)


def refused(mode: str, **task: Any) -> list[tuple[str, str]]:
    given = SubmitTask.model_validate({"network": "desk", "user_message": "x", **task})
    found = check_task(given, network(mode), OrchestratorSettings(embedded=True))
    return [] if found is None else [(one.pointer, one.code) for one in found.errors]


def test_a_message_makes_a_run_of_the_swarm() -> None:
    created = created_event(
        SubmitTask(network="desk", user_message="x"), VERSION, network("handoff"), "alice", "sha256:aa"
    )
    assert (created.kind, created.agent_key, created.max_steps) == ("swarm", "a", 20)
    assert created.swarm is not None and (created.swarm.name, created.swarm.swarm.mode) == ("", "handoff")


def test_a_plan_or_a_single_instruction_is_one_of_its_agents_alone() -> None:
    one = SubmitTask(network="desk", user_message="x", agent_key="other", single_instruction=True)
    created = created_event(one, VERSION, network("team"), "alice", None)
    assert (created.kind, created.agent_key, created.swarm) == ("network", "other", None)
    steps = [{"id": "s", "type": "agent", "agent": {"agent_key": "b", "prompt": "do"}}]
    plan = SubmitTask.model_validate({"network": "desk", "plan": {"plan": {"steps": steps}}})
    created = created_event(plan, VERSION, network("workflow"), "alice", None)
    assert (created.kind, created.swarm) == ("plan", None)


@pytest.mark.parametrize("mode", ["workflow", "handoff", "team"])
def test_a_swarm_takes_messages_alone(mode: str) -> None:
    assert refused(mode) == []
    wanted = [] if mode == "team" else [("/goal", "swarm_takes_messages")]
    assert refused(mode, goal={"goal": "Win."}) == wanted
    assert ("/background", "swarm_takes_messages") in refused(mode, background={"objective": "Win."})
    assert refused(mode, agent_key="ghost") == [("/agent_key", "agent_not_found")]
    assert refused(mode, agent_key="other") == [("/agent_key", "agent_not_found")]
    assert refused(mode, agent_key="b") == ([] if mode == "handoff" else [("/agent_key", "agent_not_found")])


def test_the_lead_of_a_team_pursues_a_goal() -> None:
    pursued = SubmitTask.model_validate({"network": "desk", "goal": {"goal": "Win."}})
    created = created_event(pursued, VERSION, network("team"), "alice", None)
    assert (created.kind, created.agent_key) == ("goal", "a")
    assert created.swarm is not None and created.swarm.swarm.mode == "team" and created.goal is not None
    assert refused("team", goal={"goal": "Win."}, agent_key="b") == [("/agent_key", "agent_not_found")]


def test_only_the_answer_of_one_agent_can_have_a_form() -> None:
    schema = {"response_schema": {"type": "object"}}
    assert [refused(mode, **schema) for mode in ("workflow", "team", "handoff")] == [[], [], []]
    last = CompiledSwarm(mode="workflow", members=("a", "b"), stages=(("a", "b"),))
    assert not last.answers_alone
    for mode, stages in (("workflow", (("a",), ("last",))), ("handoff", (("a",),))):
        around = CompiledSwarm.model_validate(
            {"mode": mode, "members": ("a", "last"), "stages": stages, "swarms": {"last": last}}
        )
        assert not around.answers_alone
        task = SubmitTask.model_validate({"network": "desk", "user_message": "x", **schema})
        found = check_task(task, snapshot(agent("a"), agent("b"), swarm=around), OrchestratorSettings())
        assert found is not None and [one.code for one in found.errors] == ["response_schema_invalid"]


def test_whoever_answers_for_the_run_gets_the_form_of_its_answer() -> None:
    """The last agent of a workflow has it, those before have not; a nested swarm at the end passes it on."""
    schema = {"type": "object", "required": ["total"]}
    inner = {"mode": "workflow", "members": ["cid", "dan"], "stages": [["cid"], ["dan"]]}
    swarm = {"mode": "workflow", "members": ["ann", "end"], "stages": [["ann"], ["end"]], "swarms": {"end": inner}}
    run = PlanRun(kind="swarm", swarm={"swarm": swarm}, user_message="Sum up.", response_schema=schema)
    run.end(final={"message": "A draft."})
    first, last = (event.task for event in run.events(ev.ChildStarted))
    assert (first.response_schema, last.response_schema) == (None, schema)
    born = new_child_run(run.state, run.events(ev.ChildStarted)[1]).task
    assert born.swarm is not None and (born.response_schema, born.swarm.name) == (schema, "end")
