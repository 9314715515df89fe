"""The keywords of the SDK against the messages that they become: none is missing, none is of no use."""

import re
from typing import Any, is_typeddict

import pytest
from pydantic import BaseModel

from towpath import Agent, Client, DeclarationError, Network, RefusedError, Swarm, SyncClient
from towpath.client.audit import AuditFilters, ErasureFilters, PayloadSelection
from towpath.client.budgets import BudgetKeywords
from towpath.client.policy import AccessDetails
from towpath.client.resources import DeadLetterFilters
from towpath.client.run_controls import RunFilters
from towpath.networks.network_keywords import NetworkKeywords, SwarmKeywords
from towpath.tasks.task import RunKeywords, TaskKeywords, task_of
from towpath.testing import execute_tool, respond, script
from towpath_contracts.budgets import Budget
from towpath_contracts.dead_letters import ListDeadLetters
from towpath_contracts.networks.spec import NetworkSpec
from towpath_contracts.networks.swarm import SwarmSettings
from towpath_contracts.runs.views import ListRuns
from towpath_contracts.tasks import SubmitTask
from towpath_contracts.tools.access import AuditQuery, CheckAccess
from towpath_contracts.tools.erasures import ListErasures, RequestErasure

BASES = frozenset({"schema_version", "type"})
GIVEN_APART = {
    TaskKeywords: {"network", "user_message", "plan"},
    NetworkKeywords: {"kind", "name", "model", "agents"},
    RunFilters: {"project"},
    AuditFilters: {"project"},
    PayloadSelection: {"project", "actor", "key_prefix", "key_commitment", "kind", "reason"},
    ErasureFilters: {"project", "erasure_id"},
    DeadLetterFilters: {"project", "unowned", "run_id", "dead_letter_id"},
    BudgetKeywords: set(),
    AccessDetails: {"project", "network", "agent_key", "tool"},
}
"""Fields that a method names by itself, that the platform fills, or that a page of the list does not take."""

TABLE: list[tuple[Any, type[BaseModel], set[str]]] = [
    (TaskKeywords, SubmitTask, {"deadline"}),
    (NetworkKeywords, NetworkSpec, set()),
    (RunFilters, ListRuns, set()),
    (AuditFilters, AuditQuery, set()),
    (PayloadSelection, RequestErasure, set()),
    (ErasureFilters, ListErasures, set()),
    (DeadLetterFilters, ListDeadLetters, set()),
    (BudgetKeywords, Budget, set()),
    (AccessDetails, CheckAccess, set()),
]


@pytest.mark.parametrize(("keywords", "message", "own"), TABLE, ids=lambda one: getattr(one, "__name__", ""))
def test_keywords_are_the_fields_of_the_message(keywords: Any, message: type[BaseModel], own: set[str]) -> None:
    assert is_typeddict(keywords)
    assert set(keywords.__annotations__) == set(message.model_fields) - BASES - GIVEN_APART[keywords] | own


def test_a_swarm_and_a_run_without_asyncio_take_more() -> None:
    assert set(SwarmKeywords.__annotations__) - set(NetworkKeywords.__annotations__) == set(
        SwarmSettings.model_fields
    ) & {
        "max_handoffs",
        "max_parallel",
        "agent_steps",
    }
    assert set(RunKeywords.__annotations__) - set(TaskKeywords.__annotations__) == {
        "server",
        "api_key",
        "caller",
        "timeout",
    }


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"max_stepz": 3}, ": a task takes no 'max_stepz'; did you mean 'max_steps'?"),
        ({"output_typ": 3}, ": a task takes no 'output_typ'; did you mean 'output_type'?"),
        ({"xyz": 3}, ", plan, output_type, timeout"),
        ({"session": 1}, ": a task takes no 'session': a conversation is run.reply(run, message)"),
        ({"max_turns": 3}, ": a task takes no 'max_turns': how many steps a run has is max_steps="),
        ({"key": "a"}, ": a task takes no 'key': what makes a repeated submit the same run is idempotency_key="),
        ({"budget": 0.5}, ": a mapping of keys and values belongs here, such as budget=Budget(usd=0.5)"),
        ({"labels": ["a"]}, 'a mapping of keys and values belongs here, such as labels={"team": "billing"}'),
        ({"budget": {"dollars": 1}}, ": budget: there is no field 'dollars'; there are model_calls, on_soft,"),
        ({"grant": [{"tol": "a"}]}, ": grant: there is no field 'tol'; did you mean 'tool'?"),
        ({"goal": {"goal": "g", "settings": {"max_step": 2}}}, ": goal.settings: there is no field 'max_step'"),
    ],
)
def test_a_wrong_word_in_a_task_is_told_with_the_one_that_is_near(written: dict[str, Any], meant: str) -> None:
    with pytest.raises(RefusedError) as caught:
        task_of("n", "hello", written)
    assert meant in caught.value.problem.detail and "/" not in str(caught.value).replace(__file__, "")


def test_a_call_that_does_not_wait_says_where_the_options_of_waiting_belong() -> None:
    with pytest.raises(RefusedError, match=r"takes no 'timeout': this call waits for no end.*run\(…, timeout=…\)"):
        task_of("n", "hello", {"timeout": 3}, without_end=True)
    with pytest.raises(RefusedError, match=r"did you mean 'deadline'"):
        task_of("n", "hello", {"deadlin": 3}, without_end=True)


def test_an_empty_message_is_told_in_the_words_of_python() -> None:
    with pytest.raises(RefusedError, match=r": message is required unless") as caught:
        task_of("n", "", {})
    assert "user_message" not in caught.value.problem.detail


async def test_a_wrong_word_is_told_with_the_line_of_the_program() -> None:
    async with Client("nats://127.0.0.1:1") as client:
        with pytest.raises(RefusedError) as caught:
            await client.submit("n", "hello", max_stepz=3)  # type: ignore[call-arg]
    assert re.match(rf"{re.escape(__file__)}:\d+: a task takes no 'max_stepz'", caught.value.problem.detail)


def test_a_wrong_word_is_told_with_the_line_of_a_program_without_asyncio() -> None:
    with SyncClient("nats://127.0.0.1:1") as client, pytest.raises(RefusedError) as caught:
        client.submit("n", "hello", max_stepz=3)  # type: ignore[call-arg]
    assert re.match(rf"{re.escape(__file__)}:\d+: a task takes no 'max_stepz'", caught.value.problem.detail)


def test_a_script_of_a_task_takes_the_moves_of_a_test() -> None:
    moves = [execute_tool("price", item="lamp"), respond("29 EUR."), {"action": "RESPOND"}, "as it is"]
    for given in (moves, tuple(moves), script(moves)):
        task = task_of("n", "hello", {"script": given})
        assert task.script == (
            {"action": "USE_TOOL", "action_details": {"tool_name": "price", "tool_params": {"item": "lamp"}}},
            {"action": "RESPOND", "action_details": {"payload": {"message": "29 EUR."}}},
            {"action": "RESPOND"},
            "as it is",
        )
    with pytest.raises(RefusedError, match="script: a list belongs here"):
        task_of("n", "hello", {"script": "hi"})


async def test_a_wrong_word_is_refused_before_anything_is_connected() -> None:
    async with Client("nats://127.0.0.1:1") as client:
        with pytest.raises(RefusedError, match="did you mean 'max_steps'"):
            await client.submit("n", max_stepz=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", [Network, Swarm])
def test_a_wrong_word_in_a_network_is_told_at_its_line_with_the_one_that_is_meant(kind: Any) -> None:
    line = rf"{re.escape(__file__)}:\d+: {kind.__name__} takes no "
    for written, meant in (
        ({"max_stepz": 3}, r"'max_stepz'; did you mean 'max_steps'\?"),
        ({"max_turns": 3}, "'max_turns': how many steps a run has is max_steps="),
        ({"default": "a"}, r"'default': the agent that begins says so itself: Agent\(…, default=True\)"),
        ({"tools": []}, r"'tools': tools are those of an agent: Agent\(…, tools=\[…\]\)"),
    ):
        with pytest.raises(DeclarationError, match=line + meant):
            kind("n", [Agent("a")], **written)
