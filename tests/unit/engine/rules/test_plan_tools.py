"""The plan tools, with every limit and every error."""

from typing import Any

import pytest

from towpath_contracts.tools.internal_tools import MAX_PLAN_BYTES, MAX_PLAN_STEPS, PLAN_TOOLS
from towpath_engine.requests.background_context import PLAN_SHOWN_BYTES, shown_plan
from towpath_engine.rules.plan_tools import NO_PLAN, apply_plan, status_of
from towpath_engine.rules.tool_result import InternalToolError
from towpath_engine.state.limits import json_bytes
from towpath_engine.state.workspace import WorkspacePlan, WorkspacePlanStep, plan_from


class Kept:
    """A plan under its tools; a refused call changes nothing."""

    def __init__(self, *titles: str) -> None:
        self.plan: WorkspacePlan | None = None
        if titles:
            self("plan_setup", objective="o", steps=[{"title": title} for title in titles])

    def __call__(self, tool: str, **args: Any) -> dict[str, Any]:
        applied = apply_plan(tool, args, self.plan)
        self.plan = applied.plan or self.plan
        return applied.result

    def refused(self, tool: str, **args: Any) -> str:
        before = self.plan
        with pytest.raises(InternalToolError) as caught:
            self(tool, **args)
        assert self.plan == before
        return caught.value.code

    def steps(self) -> list[str]:
        return [f"{step.step_id} {step.title} {step.status}" for step in (self.plan.steps if self.plan else ())]


@pytest.mark.parametrize("tool", sorted(PLAN_TOOLS - {"plan_setup"}))
def test_without_a_plan_there_is_nothing_to_do(tool: str) -> None:
    args = {
        "plan_add_step": {"title": "t"},
        "plan_update_step": {"step_id": "S001", "title": "t"},
        "plan_mark_step": {"step_id": "S001", "status": "done"},
    }
    with pytest.raises(InternalToolError, match=NO_PLAN):
        apply_plan(tool, args.get(tool, {}), None)


def test_ids_are_counted_from_s001_and_go_on_after_the_highest() -> None:
    kept = Kept("one", "two")
    assert kept("plan_add_step", title="three", details="  ")["step_id"] == "S003"
    assert kept.steps() == ["S001 one pending", "S002 two pending", "S003 three pending"]
    kept.plan = WorkspacePlan(
        objective="o",
        steps=(WorkspacePlanStep(step_id="S007", title="x"), WorkspacePlanStep(step_id="Sabc", title="y")),
    )
    assert kept("plan_add_step", title="next")["step_id"] == "S008", "ids whose rest is no number are skipped"
    kept("plan_mark_step", step_id="s007", status="done")
    again = Kept("first")
    assert again.steps() == ["S001 first pending"], "a new plan begins at S001"


def test_all_done_is_completed_and_a_completed_plan_may_be_reopened() -> None:
    kept = Kept("one", "two")
    for step in ("S001", "S002"):
        kept("plan_mark_step", step_id=step, status="done", note="seen")
    assert kept.plan is not None and kept.plan.status == "completed"
    assert kept.refused("plan_add_step", title="more") == "plan_inactive"
    assert kept.refused("plan_update_step", step_id="S001", title="other") == "plan_inactive"
    kept("plan_mark_step", step_id="S001", status="blocked")
    assert kept.plan.status == "active" and kept.plan.steps[0].notes == ("seen",)
    assert status_of(()) == "completed", "also without any step"


def test_a_cleared_plan_is_abandoned_and_has_no_steps() -> None:
    kept = Kept("one")
    kept("plan_clear")
    assert kept.plan is not None and (kept.plan.status, kept.plan.steps) == ("abandoned", ())
    assert kept.refused("plan_clear") == "plan_inactive"
    assert kept.refused("plan_mark_step", step_id="S001", status="done") == "plan_inactive"
    assert kept.refused("plan_add_step", title="t") == "plan_inactive"
    kept("plan_setup", objective="again")
    assert kept.plan.status == "active", "a plan without steps is active: they are added"


def test_a_change_names_a_step_and_changes_something() -> None:
    kept = Kept("one")
    assert kept.refused("plan_update_step", step_id="S001") == "arguments_invalid"
    assert kept.refused("plan_update_step", step_id="S009", title="t") == "plan_step_unknown"
    assert kept.refused("plan_mark_step", step_id="S001", status="finished") == "arguments_invalid"
    kept("plan_update_step", step_id="S001", title="other", details="how")
    assert kept.plan is not None and (kept.plan.steps[0].title, kept.plan.steps[0].details) == ("other", "how")


@pytest.mark.parametrize(
    ("tool", "field", "limit", "more"),
    [
        ("plan_setup", "objective", 240, {}),
        ("plan_add_step", "title", 160, {}),
        ("plan_add_step", "details", 512, {"title": "t"}),
        ("plan_mark_step", "note", 512, {"step_id": "S001", "status": "done"}),
    ],
)
def test_texts_are_ascii_and_bounded(tool: str, field: str, limit: int, more: dict[str, Any]) -> None:
    kept = Kept("one")
    assert kept.refused(tool, **more, **{field: "x" * (limit + 1)}) == "arguments_invalid"
    assert kept.refused(tool, **more, **{field: "é"}) == "arguments_invalid"
    kept(tool, **more, **{field: "x" * limit})


def test_a_plan_has_a_bounded_number_of_steps_and_reads_back() -> None:
    kept = Kept(*[f"step {number}" for number in range(MAX_PLAN_STEPS)])
    assert kept.refused("plan_add_step", title="one more") == "plan_full"
    assert kept.plan is not None and plan_from(kept.plan.as_json()) == kept.plan
    assert kept("plan_read") == kept.plan.as_json()
    for wrong in ({"objective": " "}, {"objective": "o", "steps": [{"title": ""}]}, {"objective": 1}, {"extra": 1}):
        assert kept.refused("plan_setup", **wrong) == "arguments_invalid"


def test_d5_a_plan_is_bounded_as_a_whole_and_can_still_be_worked_off() -> None:
    """Row D5, limits: a whole plan has at most 64 KiB; what would make it larger is refused, a status never is."""
    assert MAX_PLAN_BYTES == 65_536
    kept = Kept()
    long = [{"title": "t" * 160, "details": "d" * 512}] * MAX_PLAN_STEPS
    escaped = [{"title": "t", "details": "\x01" * 512}] * MAX_PLAN_STEPS
    assert kept.refused("plan_setup", objective="o", steps=escaped) == "plan_too_large", "bytes count, not characters"
    kept("plan_setup", objective="o", steps=long)
    room = MAX_PLAN_BYTES - json_bytes(kept("plan_read"))
    for number in range(room // 516):
        kept("plan_mark_step", step_id=f"S{1 + number // 16:03d}", status="pending", note="n" * 512)
    assert kept.refused("plan_mark_step", step_id="S002", status="done", note="n" * 512) == "plan_too_large"
    kept("plan_update_step", step_id="S001", details="")
    kept("plan_mark_step", step_id="S001", status="done", note="n" * 512)
    assert kept.refused("plan_update_step", step_id="S001", details="d" * 512) == "plan_too_large"
    for number in range(1, MAX_PLAN_STEPS + 1):
        kept("plan_mark_step", step_id=f"S{number:03d}", status="in_progress")
    assert json_bytes(kept("plan_read")) < MAX_PLAN_BYTES + 1_000


def test_a_prompt_shows_a_large_plan_without_its_older_words_and_says_so() -> None:
    """Row D4: the snapshot has the plan; one that is too large for a prompt is shortened, and says by what."""
    kept = Kept(*["look"] * 40)
    assert kept.plan is not None and shown_plan(kept.plan) == kept.plan.as_json()
    for note in range(3):
        for number in range(1, 41):
            kept("plan_mark_step", step_id=f"S{number:03d}", status="in_progress", note=f"{note}" * 400)
    shown = shown_plan(kept.plan)
    assert shown["left_out"] == "older notes" and {tuple(step["notes"]) for step in shown["steps"]} == {("2" * 400,)}
    huge = WorkspacePlan(
        objective="o", steps=tuple(WorkspacePlanStep(step_id="S1", title="t", details="d" * 512) for _ in range(999))
    )
    bare = shown_plan(huge)
    assert bare["left_out"].startswith("notes and details, and ") and json_bytes(bare) < PLAN_SHOWN_BYTES + 200


def test_a_step_keeps_its_last_32_notes() -> None:
    kept = Kept("one")
    for number in range(34):
        kept("plan_mark_step", step_id="S001", status="in_progress", note=f"n{number}")
        assert kept.plan is not None
        assert kept.plan.steps[0].notes == tuple(f"n{place}" for place in range(max(0, number - 31), number + 1))
