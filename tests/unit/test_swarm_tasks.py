"""What a task makes of a network that is a swarm, and what such a network can't take (features B9-B11)."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.engine_machine import agent, snapshot

from towpath_contracts.networks import NetworkVersion, Snapshot
from towpath_contracts.swarms import CompiledSwarm
from towpath_contracts.tasks import SubmitTask
from towpath_orchestrator.settings import OrchestratorSettings
from towpath_orchestrator.tasks import check_task, created_event

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


def network(mode: str) -> Snapshot:
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
    assert ("/goal", "swarm_takes_messages") in refused(mode, goal={"goal": "Win."})
    assert ("/background", "swarm_takes_messages") in refused(mode, background={"objective": "Win."})
    assert refused(mode, agent_key="ghost") == [("/agent_key", "agent_not_found")]
    assert refused(mode, agent_key="other") == [("/agent_key", "agent_not_found")]
    assert refused(mode, agent_key="b") == ([] if mode == "handoff" else [("/agent_key", "agent_not_found")])


def test_the_answer_of_a_workflow_has_the_form_that_its_last_agent_gives_it() -> None:
    schema = {"response_schema": {"type": "object"}}
    assert refused("workflow", **schema) == [("/response_schema", "response_schema_invalid")]
    assert refused("team", **schema) == refused("handoff", **schema) == []
