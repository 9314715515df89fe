"""What the checks of the mixtures find in trees that are not as they must be; in sound ones they find nothing."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from tests.mixtures.checks import Mark, Tree, WaitWatch, findings, spending_findings
from tests.mixtures.mixture import KINDS, Mixture, mixture

Json = dict[str, Any]
Change = Callable[[Tree, list[Mark]], object]

MADE = Mixture(number=1, kind="network", task={}, budget=1)


def call(execution_id: str, tool: str) -> Json:
    return {"type": "tool_call_finished", "execution_id": execution_id, "tool": tool, "status": "succeeded"}


def log(*events: Json) -> list[Json]:
    return [{"seq": seq, "event": event} for seq, event in enumerate(events, 1)]


def sound() -> tuple[Tree, list[Mark]]:
    end = {"type": "run_finished"}
    top = {"run_id": "top", "parent_run_id": None, "status": "completed", "reason": "responded", "final": {}}
    below = {**top, "run_id": "below", "parent_run_id": "top"}
    logs = {
        "top": log(
            {"type": "child_started", "child_id": "below"},
            {"type": "gate_opened", "gate_id": "g"},
            {"type": "gate_closed", "gate_id": "g"},
            call("c1", "mix.pay"),
            {"type": "child_ended", "child_id": "below"},
            end,
        ),
        "below": log(end, {"type": "outcome_recorded"}),
    }
    return Tree(top, [top, below], logs, []), [Mark("top", "c1", "mix.pay", "t1")]


def append(run: str, event: Json) -> Change:
    return lambda tree, _marks: tree.logs[run].insert(0, {"seq": 0, "event": event})


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda _tree, marks: marks.append(marks[0]), "happened 2 times"),
        (lambda _tree, marks: marks.clear(), "succeeded, and nothing happened"),
        (lambda _tree, marks: marks.append(Mark("top", "c2", "mix.look", "t2")), "does not know it"),
        (lambda _tree, marks: marks.append(Mark("top", "c2", "mix.pay", "t1")), "happened as 2 calls"),
        (lambda tree, _marks: tree.root.update(status="failed"), "is failed, responded"),
        (lambda tree, _marks: tree.runs[1].update(status="running"), "is still running"),
        (lambda tree, _marks: tree.gates.append({"gate_id": "g"}), "open after the end"),
        (lambda tree, _marks: tree.logs["top"].pop(1), "gaps or repetitions"),
        (lambda tree, _marks: tree.logs["below"].pop(0), "0 ends"),
        (append("below", {"type": "run_finished"}), "2 ends"),
        (append("top", {"type": "child_started", "child_id": "below"}), "is born 2 times"),
        (append("top", {"type": "child_started", "child_id": "lost"}), "has no run"),
        (append("top", {"type": "child_ended", "child_id": "below"}), "has ended 2 times"),
        (append("top", {"type": "gate_closed", "gate_id": "g"}), "was closed 2 times"),
        (append("top", call("c1", "mix.pay")), "has 2 outcomes"),
    ],
)
def test_what_must_not_be_is_found(change: Change, found: str) -> None:
    tree, marks = deepcopy(sound())
    assert findings(MADE, tree, marks) == []
    change(tree, marks)
    assert any(found in one for one in findings(MADE, tree, marks))


def test_a_run_and_its_forks_share_one_budget() -> None:
    tree, _ = sound()
    assert spending_findings(MADE, [tree]) == []
    assert "2 calls succeeded on a budget of 1" in spending_findings(MADE, [tree, deepcopy(tree)])[0]


def test_a_fork_of_what_is_in_no_doubt_has_to_complete_as_well() -> None:
    tree, marks = deepcopy(sound())
    tree.root.update(status="failed")
    assert any("(fork)" in one and "is failed" in one for one in findings(MADE, tree, marks, is_fork=True))


def test_a_run_that_waits_must_say_for_what_unless_something_happened_a_moment_ago() -> None:
    watch = WaitWatch()
    said = {"run_id": "r", "status": "waiting", "waits": ["approval"], "seq": 5}
    silent = {**said, "waits": []}
    looks = [(said, 0.0), (said, 9.0), (silent, 10.0), (said, 16.0), (silent, 17.0), ({**silent, "seq": 6}, 23.0)]
    assert [watch.look(run, at) for run, at in looks] == [None] * 6
    assert watch.look({**silent, "seq": 6}, 27.9) is None
    assert "does not say for what" in str(watch.look({**silent, "seq": 6}, 28.0))


def test_a_number_always_makes_the_same_mixture_and_each_kind_comes() -> None:
    made = [mixture(number) for number in range(200)]
    assert made == [mixture(number) for number in range(200)]
    assert {one.kind for one in made[: len(KINDS)]} == {*KINDS}
    for wanted in ("budget", "cancel_after_s", "cancel_at_gate", "fork"):
        assert 10 < sum(bool(getattr(one, wanted)) for one in made) < 190, wanted
