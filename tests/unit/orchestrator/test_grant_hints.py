"""A grant that names a tool which the network has not: the first few are told which one was probably meant."""

import random
import time

from tests.support.engine.machine import agent, snapshot, tool

from towpath_contracts.problems.near_names import SUGGESTED
from towpath_contracts.problems.registry import Problem
from towpath_contracts.tasks import SubmitTask
from towpath_orchestrator.core.tasks import MAX_TOLD_TOOLS, check_task
from towpath_orchestrator.settings import OrchestratorSettings


def refused(names: list[str], granted: list[str]) -> Problem:
    network = snapshot(agent("a"), tools=tuple(map(tool, names)))
    grant = [{"tool": name} for name in granted]
    task = SubmitTask.model_validate({"network": "desk", "user_message": "x", "grant": grant})
    found = check_task(task, network, OrchestratorSettings(embedded=True))
    assert found is not None
    return found


def test_every_unknown_tool_is_listed_and_the_first_are_told_what_was_meant() -> None:
    found = refused(["desk.send"], ["desk.sned"] * (SUGGESTED + 3))
    assert [one.code for one in found.errors] == ["tool_unknown"] * (SUGGESTED + 3)
    assert ["did you mean 'desk.send'?" in one.detail for one in found.errors] == [True] * SUGGESTED + [False] * 3


def test_what_is_like_nothing_is_told_some_of_the_tools() -> None:
    assert refused(["b.y", "a.x"], ["quux"]).errors[0].detail.endswith("; tools are: a.x, b.y")
    many = refused([f"desk.tool_{place:03}" for place in range(MAX_TOLD_TOOLS + 1)], ["quux"])
    assert many.errors[0].detail.endswith(f"desk.tool_{MAX_TOLD_TOOLS - 1:03}, …")


def test_names_that_take_long_to_be_compared_hold_nobody_up() -> None:
    letters, chance = list("abcdefghijklmnop" * 7 + "qrstuv"), random.Random(7)
    names = ["evil." + "".join(chance.sample(letters, len(letters))) for _ in range(656)]
    network = snapshot(agent("a"), tools=tuple(map(tool, names[:400])))
    grant = [{"tool": name} for name in names[400:]]
    task = SubmitTask.model_validate({"network": "desk", "user_message": "x", "grant": grant})
    began = time.thread_time()
    found = check_task(task, network, OrchestratorSettings(embedded=True))
    assert time.thread_time() - began < 1  # letter by letter it would be a minute
    assert found is not None
    assert len(found.errors) == 256
