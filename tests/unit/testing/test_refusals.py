"""What a harness refuses is said with what a test can do about it: no command line, no worker, no other platform."""

import gc
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import towpath.testing
from towpath import Agent, Network, PolicyRule, RefusedError, RunFailedError, RunTimeoutError, tool
from towpath.client.budgets import budget_of
from towpath.errors import DeclarationError, TowpathError
from towpath.project.mcp_servers import load_servers
from towpath.project.project_file import read_project
from towpath.tasks.task import task_of
from towpath.testing import execute_tool, harness, respond, route, script
from towpath_contracts.problems.registry import problem
from towpath_testing.evaluation.suite_file import read_suite
from towpath_testing.refusals import REMEDIES, error_in_test
from towpath_testing.sync import SyncHarness

ASKS = [{"name": "ask-first", "tool": "*", "effect": "require_approval"}]


@tool(effect_class="pure")
def price(item: str) -> int:
    """Say what an item costs."""
    return len(item)


LONE = Network("lone", [Agent("clerk", prompt="{tools}", tools=[price], can_respond=True, default=True)])
ASKED = script([execute_tool("price", item="tea"), respond("done")])


async def opened(network: Network) -> None:
    async with harness(network, policy=ASKS):
        raise AssertionError("it was opened")


async def test_a_tool_that_was_not_given_is_to_be_given_to_the_harness() -> None:
    with pytest.raises(RefusedError) as refused:
        await opened(LONE)
    line = opened.__code__.co_firstlineno + 1
    assert str(refused.value) == (
        f"network_invalid: {__file__}:{line}: lone: clerk is equipped with price, which nobody registered. "
        "Give the harness the tools that it lacks: harness(…, tools=[price])."
    )
    assert refused.value.__suppress_context__  # what the services say to each other is not printed above it


def test_the_name_of_a_tool_is_answered_with_the_function_to_give() -> None:
    with pytest.raises(DeclarationError) as refused:
        harness(LONE, policy=ASKS, tools=["price.find"])
    assert "there is no module price.find; give a dotted name, or a path that ends in .py. tools= takes the " in str(
        refused.value
    )
    with pytest.raises(DeclarationError, match=r"no_tools\.py") as refused:
        harness(LONE, policy=ASKS, tools=["./no_tools.py"])
    assert "FUNCTION" not in str(refused.value)


def test_a_file_whose_tool_was_not_given_is_not_said_to_be_wrong(tmp_path: Path) -> None:
    file = tmp_path / "hotel.yaml"
    agent = "{key: desk, is_default: true, allow_respond: true, equipped_tools: [pric]}"
    file.write_text(f"name: hotel\nagents:\n  - {agent}\n")
    with pytest.raises(RefusedError) as refused:
        harness(file, policy=ASKS, tools=[price]).__enter__()
    assert "which nobody registered; did you mean 'price'?" in str(refused.value)
    assert refused.value.remedy.endswith(
        "tools=[…], with the functions, their module or its file), or correct the file at the line that is named."
    )
    file.write_text(f"name: hotel\nagents:\n  - {agent.replace('allow_respond: true, ', '')}\n")
    with pytest.raises(RefusedError) as refused:
        harness(file, policy=ASKS, tools=[price]).__enter__()
    assert refused.value.remedy.startswith("Correct the file at the line")


async def test_a_run_that_waits_at_a_gate_is_told_with_the_calls_that_settle_it() -> None:
    async with harness(LONE, policy=ASKS, tools=[price], model=ASKED) as h:
        run = await h.run("What is tea?")
        gate = await h.next_gate("60s")
        with pytest.raises(RunTimeoutError) as late:
            await run.result("0.05s")
        assert str(late.value) == (
            "timeout: after 0.05 s the run is waiting and waits for: approval: rule ask-first wants a person's "
            "approval. Settle the gate first: gate = await h.next_gate(), then await gate.approve() or await "
            "gate.deny(reason)."
        )
        await gate.approve()
        assert (await run.result()).text == "done"


def test_without_asyncio_nothing_is_awaited() -> None:
    with harness(LONE, policy=ASKS, tools=[price], model=ASKED) as h:
        run = h.run("What is tea?")
        h.next_gate("60s")
        with pytest.raises(RunTimeoutError, match=r"gate = h\.next_gate\(\), then gate\.approve\(\) or gate\.deny"):
            run.result(0.05)
        with pytest.raises(AttributeError, match=r"has no 'status': result = run\.result\(\), then result\.status$"):
            _ = run.status


@pytest.mark.filterwarnings("error")
async def test_in_an_async_test_a_harness_without_asyncio_says_what_to_take(
    towpath_harness: Callable[..., SyncHarness],
) -> None:
    with pytest.raises(RuntimeError, match=r"in an async test open one with async with harness\(…\) as h, and await"):
        towpath_harness(LONE, policy=ASKS, tools=[price])
    gc.collect()  # a coroutine that nobody awaited warns when it goes


@pytest.fixture
def opened_before(towpath_harness: Callable[..., SyncHarness]) -> SyncHarness:
    return towpath_harness(LONE, policy=ASKS, tools=[price], model=ASKED)


@pytest.mark.filterwarnings("error")
async def test_one_that_a_fixture_opened_says_the_same(opened_before: SyncHarness) -> None:
    with pytest.raises(RuntimeError, match=r"async with harness\(…\) as h"):
        opened_before.run("What is tea?")
    gc.collect()


async def test_a_run_is_asked_for_its_result_first() -> None:
    async with harness(LONE, policy=ASKS, tools=[price], model=script([respond("done")])) as h:
        run = await h.run("Hello")
        with pytest.raises(AttributeError, match=r"has no 'text': result = await run\.result\(\), then result\.text$"):
            _ = run.text
        with pytest.raises(AttributeError, match=r"has no 'txt'$"):
            _ = run.txt


async def test_without_a_model_the_run_says_what_to_give_to_the_harness() -> None:
    async with harness(LONE, policy=ASKS, tools=[price]) as h:
        result = await (await h.run("Hello")).result()
    assert "none was given: harness(…, model=script([…])), or model=FUNCTION" in result.view.message


def settled_twice(h: SyncHarness) -> None:
    h.run("What is tea?")
    gate = h.next_gate()
    gate.approve()
    gate.deny("no")


def settled_by_its_caller(h: SyncHarness) -> None:
    h.run("What is tea?")
    h.next_gate().approve(by="tester")


def settled_with_a_wrong_word(h: SyncHarness) -> None:
    h.run("What is tea?")
    h.next_gate().resolve("retry", "again")


def run_in_another_version(h: SyncHarness) -> None:
    h.run("What is tea?", version=7)


@pytest.mark.parametrize(
    ("mistake", "code"),
    [
        (settled_twice, "gate_settled"),
        (settled_by_its_caller, "requester_may_not_approve"),
        (settled_with_a_wrong_word, "verdict_invalid"),
        (run_in_another_version, "version_not_found"),
    ],
)
def test_what_a_harness_refuses_names_no_command(mistake: object, code: str) -> None:
    with harness(LONE, policy=ASKS, tools=[price], model=ASKED) as h, pytest.raises(TowpathError) as refused:
        mistake(h)  # type: ignore[operator]
    assert refused.value.code == code
    assert str(refused.value).endswith(f" {REMEDIES[code]}")
    assert "towpath " not in str(refused.value)


def test_the_answer_of_a_failed_run_names_its_log() -> None:
    with harness(LONE, policy=ASKS, tools=[price], model=script([])) as h:
        result = h.run("Hello").result()
        with pytest.raises(RunFailedError, match=r"script_exhausted|nothing left") as failed:
            result.as_(dict)  # type: ignore[arg-type]
    assert str(failed.value).endswith(REMEDIES["run_failed"])


@pytest.mark.parametrize("code", sorted(REMEDIES))
def test_a_remedy_of_a_test_takes_the_place_of_one_of_a_platform(code: str) -> None:
    found = error_in_test(problem(code, "so it is"))
    assert found.code == code and found.remedy == REMEDIES[code] and "towpath " not in found.remedy


WRONG = "name: hotel\nagents:\n  - {key: desk, is_defalt: true}\n"
WRITTEN: dict[str, Callable[[Path], object]] = {
    "network file": harness,
    "network of a program": lambda _: harness(Network("no name", [Agent("clerk", prompt="x", default=True)])),
    "network as JSON": lambda _: harness({"name": "hotel", "agents": [{"kye": "desk"}]}),
    "rule": lambda _: PolicyRule("free", effect="allow", tool="orders find"),
    "task": lambda _: task_of("hotel", "x", {"max_steps": 0}),
    "budget": lambda _: budget_of({"tokens": -1}),
    "project": read_project,
    "servers": load_servers,
    "suite": read_suite,
}


@pytest.mark.parametrize("mistake", WRITTEN)
def test_a_refusal_of_what_a_person_wrote_is_not_followed_by_the_errors_of_a_library(
    mistake: str, tmp_path: Path
) -> None:
    """They say the same, in its own words."""
    file = tmp_path / "hotel.yaml"
    file.write_text(WRONG)
    with pytest.raises((TowpathError, DeclarationError)) as refused:
        WRITTEN[mistake](file)
    shown = "".join(traceback.format_exception(refused.value))
    assert "pydantic" not in shown
    assert shown.count("Traceback") == 1


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ([respond("done")], "model is a list: decisions are played by model=script([…])"),
        (3, "model is 3: write model=script([…]), a function, or a model"),
    ],
)
def test_what_is_no_model_is_told_with_the_line_of_the_test(model: Any, told: str) -> None:
    with pytest.raises(DeclarationError, match=rf"^{re.escape(__file__)}:\d+: {re.escape(told)}"):
        harness(LONE, model=model)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("use", r"a scripted call is execute_tool\(…\)"),
        ("TestModel", r"decisions written beforehand are script\(\[…\]\)"),
        ("FunctionModel", "a function is a model as it is"),
    ],
)
def test_a_name_of_another_framework_is_told_with_what_there_is(name: str, instead: str) -> None:
    with pytest.raises(ImportError, match=f"towpath.testing has no {name}: {instead}"):
        getattr(towpath.testing, name)
    assert not hasattr(towpath.testing, "scriptt")


async def test_a_decision_that_was_refused_and_mended_leaves_a_word_in_the_result() -> None:
    async with harness(LONE, tools=[price], model=script([route("zz"), respond("done")])) as h:
        run = await h.run("hello")
        result = await run.result()
    assert result.status == "completed"
    assert "; 1 decision was refused: route_not_allowed: clerk may not route to 'zz'" in repr(result)
