"""What may be changed about the task of a fork, and what is said of what may not."""

from datetime import UTC, datetime
from typing import Any

from tests.support.engine.machine import agent, snapshot

from towpath_contracts.events.log import RunCreated
from towpath_contracts.networks.spec import NetworkVersion
from towpath_contracts.runs.forks import ForkChanges, ForkOptions
from towpath_contracts.tasks import SubmitTask
from towpath_orchestrator.core.fork_changes import changed_names, changed_task, fork_problem
from towpath_orchestrator.core.tasks import created_event
from towpath_orchestrator.settings import OrchestratorSettings

NETWORK = snapshot(agent("lead", default=True, allow_respond=True))
GOAL = {"goal": {"goal": "Go.", "acceptance_criteria": [{"text": "It is done."}]}}


def created(**task: Any) -> RunCreated:
    version = NetworkVersion(
        project="default", name="desk", version=1, digest="sha256:00", published_at=datetime.now(UTC), published_by="me"
    )
    given = SubmitTask.model_validate({"network": "desk", "user_message": "Hi.", **task})
    return created_event(given, version, NETWORK, "me", "sha256:0" if "script" in task else None)


def refused(changes: dict[str, Any], done: int = 0, **more: Any) -> list[tuple[str, str]]:
    task = created(**more.pop("task", {}))
    options = ForkOptions.model_validate({"from_step": 1, "changes": changes, **more})
    found = fork_problem(options, task, done, OrchestratorSettings(embedded=True, max_timeout_ms=60_000))
    return [] if found is None else [(one.pointer.removeprefix("/changes/"), one.code) for one in found.errors]


def test_every_reason_against_the_changes_is_told() -> None:
    fine = {"model": "openai:x", "max_steps": 3, "max_tool_errors": 1, "timeout_ms": 60_000}
    assert refused(fine, done=2) == []
    assert refused({"model": "gpt-5", "max_steps": 2, "timeout_ms": 60_001}, done=2) == [
        ("model", "model_unknown"),
        ("max_steps", "limit_exceeded"),
        ("timeout_ms", "limit_exceeded"),
    ]
    assert refused({"model": "openai:x"}, script=[{}]) == [("model", "script_unplayed")]
    assert refused({"model": "scripted:other"}, script=[{}]) == []
    assert fork_problem(ForkOptions(from_step=1), created(), 0, OrchestratorSettings(embedded=True)) is None


def test_a_budget_is_changed_only_where_it_is_not_shared() -> None:
    assert refused({"budget": {"usd": 1.0}}) == [("budget", "budget_shared")]
    assert refused({"budget": {"usd": 1.0}}, fresh_budget=True) == []


def test_the_message_is_changed_only_before_anything_was_decided_for_it() -> None:
    assert refused({"user_message": "Another one."}) == []
    assert refused({"user_message": "Another one."}, done=1) == [("user_message", "message_answered")]
    assert refused({"user_message": "Another one."}, task=GOAL) == [("user_message", "message_answered")]


def test_what_is_not_changed_stays_and_a_model_takes_the_place_of_the_script() -> None:
    task = created(script=[{}], max_steps=4, labels={"team": "a"})
    assert changed_task(task, ForkChanges()) == task
    found = changed_task(task, ForkChanges(model="openai:x", max_steps=9))
    assert (found.model, found.script_digest, found.max_steps, found.labels) == ("openai:x", None, 9, task.labels)
    assert changed_task(task, ForkChanges(model="scripted:other")).script_digest == task.script_digest
    planned = created(plan={"prompt": "Plan it."}).model_copy(update={"planner_model": "openai:planner"})
    assert changed_task(planned, ForkChanges(model="openai:x")).planner_model is None


def test_of_a_budget_and_of_settings_only_what_is_given_changes() -> None:
    task = created(budget={"usd": 2.0, "tokens": 100, "on_soft": "gate"}, model_settings={"seed": 1, "top_p": 0.5})
    changes = ForkChanges.model_validate({"budget": {"usd": 5.0}, "model_settings": {"top_p": 0.9}})
    found = changed_task(task, changes)
    assert found.budget is not None and found.model_settings is not None
    assert (found.budget.usd, found.budget.tokens, found.budget.on_soft) == (5.0, 100, "gate")
    assert (found.model_settings.seed, found.model_settings.top_p) == (1, 0.9)
    assert changed_task(created(), changes).budget == changes.budget
    assert changed_names(changes) == ["budget", "model_settings"]
