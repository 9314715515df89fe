"""Whatever is public says by file and line which keyword it does not take, or which value, and what was meant."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

import towpath
import towpath.testing
from towpath import Budget, DeclarationError, Goal, RefusedError, tool
from towpath.testing import execute_tool, respond, route, script
from towpath_contracts.budgets import Budget as BudgetOfMessage
from towpath_contracts.tasks import SubmitTask

HERE = re.escape(__file__)
STEPS = "steps are limited by max_steps=, of the run or of the network"

PUBLIC = [
    *((towpath, name) for name in towpath.__all__),
    *((towpath.testing, name) for name in towpath.testing.__all__),
]

SAYING = {
    "Agent": "max_steps=20",
    "Budget": "usdd=1",
    "Client": "apikey='x'",
    "DidNotHappen": "reason='x'",
    "EgressLimits": "bytes=1",
    "Goal": "criterias=[]",
    "Happened": "results=1",
    "HostMount": "folder='x'",
    "Objective": "goal='x'",
    "Policy": "rule=[]",
    "PolicyRule": "tol='x'",
    "Sandbox": "file='x'",
    "Secret": "name='env:X'",
    "SyncClient": "servr='x'",
    "SystemParameter": "name='x'",
    "Unclear": "reasons='x'",
    "Worker": "toolsets='x'",
    "call": "agents='x'",
    "execute_tools": "reason='x'",
    "harness": "polcy=[]",
    "hook": "events='x'",
    "live": "recrd='x'",
    "load_network": "file='x'",
    "load_policy": "file='x'",
    "replay": "file='x'",
    "respond": "text='x'",
    "route": "agent='x'",
    "script": "moves=[]",
}
"""What is written to declare something, with a keyword that it does not take."""


@pytest.mark.parametrize("name", sorted(SAYING))
def test_a_keyword_that_is_not_taken_is_told_with_its_line(name: str) -> None:
    keyword = SAYING[name].partition("=")[0]
    home = towpath if name in towpath.__all__ else towpath.testing
    with pytest.raises(DeclarationError, match=rf"^{HERE}:\d+: {name} takes no '{keyword}'(; |: )"):
        eval(compile(f"it({SAYING[name]})", __file__, "eval"), {"it": getattr(home, name), "__name__": __name__})


@pytest.mark.parametrize(("home", "name"), PUBLIC, ids=[name for _, name in PUBLIC])
def test_nothing_public_answers_a_keyword_in_the_words_of_pydantic(home: Any, name: str) -> None:
    public = getattr(home, name)
    if not callable(public):
        return
    try:
        found = public(no_such_keyword=1)
        if inspect.iscoroutine(found):
            found.close()
    except (TypeError, ValueError, RefusedError) as error:
        assert "errors.pydantic.dev" not in str(error) or not issubclass(public, BudgetOfMessage)
        assert "argument '_" not in str(error)


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (
            lambda: Budget(steps=20, usd=0.5, wall="10m"),  # type: ignore[call-arg]
            f"Budget takes no 'steps': {STEPS}; no 'wall': time is limited by deadline=, of the run, such as '10m'",
        ),
        (lambda: Budget(usdd=1), "Budget takes no 'usdd'; did you mean 'usd'?"),  # type: ignore[call-arg]
        (lambda: Budget(usd="lots"), "Budget: usd: a number belongs here"),  # type: ignore[arg-type]
        (Budget, "Budget: give at least one of usd, tokens, model_calls, tool_calls"),
        (lambda: tool("x"), "@tool takes its name by keyword: write @tool(name='x')"),  # type: ignore[call-overload]
        (lambda: respond(3), "respond: /payload: a mapping of keys and values belongs here"),  # type: ignore[arg-type]
        (lambda: execute_tool(3), "execute_tool: /tool_name: a text belongs here; quote it"),  # type: ignore[arg-type]
        (lambda: route(agent_key="x"), "route takes no 'agent_key' by name: it stands first, route(…)"),  # type: ignore[call-arg]
        (lambda: script(entrys=[]), "script takes no 'entrys'; did you mean 'entries'?"),  # type: ignore[call-arg]
        (lambda: Goal("x", criterias=[]), "Goal takes no 'criterias'; did you mean 'criteria'?"),  # type: ignore[call-arg]
    ],
)
def test_what_can_not_be_declared_is_told_at_its_line(mistake: Callable[[], Any], said: str) -> None:
    with pytest.raises(DeclarationError, match=rf"^{HERE}:\d+: {re.escape(said)}$") as refused:
        mistake()
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_a_budget_in_a_message_is_validated_as_before() -> None:
    assert issubclass(Budget, BudgetOfMessage) and Budget(usd=1) == Budget.model_validate({"usd": 1})
    with pytest.raises(ValidationError):
        BudgetOfMessage(usdd=1)  # type: ignore[call-arg]
    task = {"network": "desk", "budget": {"usdd": 1}}
    with pytest.raises(ValueError, match=r"errors\.pydantic\.dev"):
        SubmitTask.model_validate(task)


def test_a_call_of_arguments_of_a_tool_takes_any_name() -> None:
    assert execute_tool("price", no_such_keyword=1).action_details.tool_params == {"no_such_keyword": 1}
    assert list(inspect.signature(respond).parameters) == ["payload", "reasoning"]
