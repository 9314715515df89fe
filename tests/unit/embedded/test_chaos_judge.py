"""The judge sees every kind of wrong: a record that is in order, with one thing tampered with at a time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from towpath_embedded.chaos.judge import JudgeReport, judge_record
from towpath_embedded.chaos.outside import ToolEffectRecord, append_mark, read_marks
from towpath_embedded.chaos.stored_runs import StoredRunRows

RUN, PAY, LOOK, GATE = "r-1", "e-pay", "e-look", "g-1"
Rows = dict[str, list[dict[str, Any]]]


def in_order() -> tuple[Rows, list[ToolEffectRecord]]:
    """A completed run with a pure call and a payment; the payment's outcome was unknown, and a person settled it."""
    log = (
        ("run_created", {}),
        ("decision_received", {"request_id": "q-1"}),
        ("gate_opened", {"gate_id": GATE}),
        ("gate_closed", {"gate_id": GATE}),
        ("tool_call_finished", {"execution_id": PAY, "status": "succeeded"}),
        ("tool_call_finished", {"execution_id": LOOK, "status": "succeeded"}),
        ("run_finished", {"status": "completed"}),
    )
    owned = {"run_id": RUN, "project": "p"}
    calls = [
        {**owned, "execution_id": key, "tool": tool, "effect_class": effect, "status": "succeeded", "settled_by": by}
        for key, tool, effect, by in ((PAY, "pay", "irreversible", "ada"), (LOOK, "look", "pure", ""))
    ]
    entries = (
        (PAY, "decision", "allow", 10.0, {}),
        (LOOK, "decision", "allow", 10.0, {}),
        (PAY, "outcome", "unknown", 12.0, {"reason": "the worker was lost"}),
        (PAY, "settled", "happened", 13.0, {}),
    )
    rows: Rows = {
        "runs": [{**owned, "status": "completed", "reason": "", "seq": len(log), "step": 1, "ended_at": 20.0}],
        "events": [
            {"run_id": RUN, "seq": n, "type": type_, "at": 10.0 + n, "event": event}
            for n, (type_, event) in enumerate(log, 1)
        ],
        "gates": [{**owned, "gate_id": GATE, "gate_type": "unknown_effect", "status": "settled", "execution_id": PAY}],
        "calls": calls,
        "audit": [
            {**owned, "execution_id": key, "phase": phase, "verdict": found, "at": at, "actor": "", "detail": detail}
            for key, phase, found, at, detail in entries
        ],
        "fences": [],
        "history": [{**owned, "status": "completed", "seq": len(log), "steps": 1}],
        "dead": [],
        "skipped": [],
        "others": [],
    }
    marks = [
        ToolEffectRecord(execution_id=key, effect_class="pure", at=at, key=key, tool="t")
        for key, at in ((PAY, 11.0), (LOOK, 11.0))
    ]
    return rows, marks


def verdict_of(rows: Rows, marks: list[ToolEffectRecord]) -> JudgeReport:
    return judge_record(StoredRunRows(**rows), marks, [RUN])


def test_what_is_in_order_is_clean_and_what_was_unknown_is_explained() -> None:
    verdict = verdict_of(*in_order())
    assert verdict.clean, str(verdict)
    assert (verdict.runs, verdict.completed, verdict.effects, verdict.share) == (1, 1, 2, 1.0)
    (unknown,) = verdict.unknown
    assert (unknown.execution_id, unknown.why, unknown.verdicts) == (PAY, "the worker was lost", ("happened",))
    assert unknown.happened == 1


def _drop(name: str, place: int = 0) -> Callable[[Rows, list[ToolEffectRecord]], object]:
    return lambda rows, _: rows[name].pop(place)


def _set(name: str, place: int, **values: Any) -> Callable[[Rows, list[ToolEffectRecord]], object]:
    return lambda rows, _: rows[name][place].update(values)


def _mark(**values: Any) -> Callable[[Rows, list[ToolEffectRecord]], object]:
    return lambda _, marks: marks.append(ToolEffectRecord(effect_class="irreversible", **values))


TAMPERINGS: list[tuple[str, Callable[[Rows, list[ToolEffectRecord]], object]]] = [
    ("lost", _drop("runs")),
    ("lost", _set("runs", 0, status="running")),
    ("lost", _set("runs", 0, status="quarantined")),
    ("strayed", _set("runs", 0, status="failed")),
    ("strayed", _set("runs", 0, status="cancelled")),
    ("dup", _mark(execution_id=PAY, at=12.0)),
    ("dup", _mark(execution_id=LOOK, at=12.0, key="another key")),
    ("audit_holes", _drop("audit")),
    ("audit_holes", _set("audit", 0, at=11.5)),
    ("audit_holes", _set("audit", 0, verdict="deny")),
    ("orphans", _set("calls", 0, status="started")),
    ("orphans", _set("calls", 0, status="awaiting_approval")),
    ("double", lambda rows, _: rows["events"].append({**rows["events"][4], "seq": 8})),
    ("double", lambda rows, _: rows["events"].append({**rows["events"][1], "seq": 8})),
    ("diff", _drop("events", 2)),
    ("diff", _drop("events", 6)),
    ("diff", _drop("gates")),
    ("diff", _set("gates", 0, status="pending")),
    ("diff", _set("calls", 1, status="failed")),
    ("diff", _set("calls", 1, status="unknown")),
    ("diff", _drop("history")),
    ("diff", _set("history", 0, seq=5)),
    ("diff", _set("history", 0, steps=2)),
    ("diff", _set("calls", 0, project="another")),
    ("diff", _mark(execution_id="nobody's", at=12.0)),
    ("diff", lambda _, marks: marks.pop()),
    ("diff", lambda rows, _: rows["skipped"].append({"run_id": RUN, "seq": 1, "error": "?"})),
    ("diff", _mark(execution_id=PAY, at=11.0, key=LOOK)),
    (
        "late",
        lambda _, marks: marks.__setitem__(0, ToolEffectRecord(execution_id=PAY, effect_class="irreversible", at=21.0)),
    ),
    ("late", lambda rows, _: rows["fences"].append({"run_id": RUN, "fence": 1, "at": 9.0})),
]


@pytest.mark.parametrize(("figure", "tamper"), TAMPERINGS)
def test_one_thing_tampered_with_is_found(
    figure: str, tamper: Callable[[Rows, list[ToolEffectRecord]], object]
) -> None:
    rows, marks = in_order()
    tamper(rows, marks)
    verdict = verdict_of(rows, marks)
    assert not verdict.clean
    assert verdict.findings[figure], str(verdict)


def test_a_person_who_says_retry_allows_one_effect_more() -> None:
    rows, marks = in_order()
    rows["audit"][3]["verdict"] = "retry"
    marks.append(ToolEffectRecord(execution_id=PAY, effect_class="irreversible", at=14.0))
    assert verdict_of(rows, marks).clean
    marks.append(ToolEffectRecord(execution_id=PAY, effect_class="irreversible", at=15.0))
    assert verdict_of(rows, marks).dup == [f"{PAY} (irreversible) happened 3 times"]


def test_a_call_that_may_run_again_is_no_duplicate_and_is_counted() -> None:
    rows, marks = in_order()
    marks.append(ToolEffectRecord(execution_id=LOOK, effect_class="pure", at=12.0, key=LOOK))
    verdict = verdict_of(rows, marks)
    assert verdict.clean
    assert verdict.repeats == 1


def test_a_run_that_waits_for_a_person_is_not_lost() -> None:
    rows, marks = in_order()
    rows["runs"][0].update(status="waiting", seq=3)
    del rows["events"][3:]
    rows["gates"][0]["status"] = "pending"
    rows["calls"][0].update(status="unknown", settled_by="")
    rows["calls"].pop()
    rows["history"][0]["seq"] = 3
    marks.pop()
    verdict = verdict_of(rows, marks)
    assert verdict.clean, str(verdict)
    assert (verdict.waiting_unknown, verdict.completed) == (1, 0)


def test_a_cancelled_run_is_no_stray_where_somebody_asked_for_it() -> None:
    rows, marks = in_order()
    rows["runs"][0]["status"] = "cancelled"
    rows["events"][-1]["event"]["status"] = "cancelled"
    assert verdict_of(rows, marks).strayed
    rows["events"][0]["type"] = "cancel_accepted"
    assert verdict_of(rows, marks).clean


def test_effects_of_runs_that_nobody_asked_about_are_left_out() -> None:
    rows, marks = in_order()
    marks.append(ToolEffectRecord(execution_id="another run's", effect_class="pure", at=12.0))
    rows["others"].append({"execution_id": "another run's"})
    assert verdict_of(rows, marks).clean


def test_marks_are_read_as_they_were_left(tmp_path: Path) -> None:
    place = tmp_path / "outside.txt"
    assert read_marks(place) == ()
    whole = ToolEffectRecord(execution_id=PAY, effect_class="idempotent", attempt=2, at=1.5, pid=7, key="k", tool="a.b")
    bare = ToolEffectRecord(execution_id=LOOK, effect_class="pure", at=2.0)
    append_mark(place, whole)
    append_mark(place, bare)
    with place.open("a") as file:
        file.write("e-old irreversible 99\n")
    assert read_marks(place) == (whole, bare, ToolEffectRecord(execution_id="e-old", effect_class="irreversible"))
