"""Two runs are the same but for times, attempts, random ids and resends; whatever else differs is reported."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from tests.chaos.crash_points.report import SweepKill, explain_unknown

from towpath_embedded.chaos.comparison import describe_difference
from towpath_embedded.chaos.judge import UnknownOutcomeCall
from towpath_embedded.chaos.stored_runs import StoredRunRows

Rows = dict[str, list[dict[str, Any]]]


def uid(run: int, number: int) -> str:
    return f"0000000{run}-0000-7000-8000-{number:012d}"


def end(run: int, index: int, worker: str) -> tuple[str, dict[str, Any]]:
    where = {"execution_id": uid(run, 10 + index), "step": 1, "call_index": index}
    return "tool_call_finished", {**where, "status": "succeeded", "result": {"n": index}, "worker": worker}


def run_rows(run: int, at: float) -> Rows:
    log: list[tuple[str, dict[str, Any]]] = [
        ("run_created", {"user_message": "Do it."}),
        ("decision_requested", {"request_id": uid(run, 1), "step": 1, "input_preview": "Do it."}),
        end(run, 0, "worker"),
        end(run, 1, "worker-2"),
        ("gate_opened", {"gate_id": uid(run, 3), "expires_at": f"2026-11-22T05:00:0{run}.5Z", "reason": "ask"}),
        ("gate_closed", {"gate_id": uid(run, 3), "verdict": "approved", "by": "ada"}),
        ("run_finished", {"status": "completed", "final": {"message": "done"}}),
    ]
    calls: list[dict[str, Any]] = [
        {"step": 1, "call_index": index, "tool": "t", "status": "succeeded", "effect_class": "irreversible"}
        for index in (0, 1)
    ]
    owner = {"run_id": str(run)}
    return {
        "runs": [{**owner, "status": "completed", "reason": "responded", "step": 2}],
        "events": [
            {**owner, "seq": seq, "at": at + seq, "type": kind, "event": {"type": kind, **body}}
            for seq, (kind, body) in enumerate(log, 1)
        ],
        "gates": [{**owner, "gate_id": uid(run, 3), "gate_type": "approval", "execution_id": None}],
        "calls": [
            {**owner, "execution_id": uid(run, 10 + call["call_index"]), "args_digest": "d", "rule": "r", **call}
            | {"settled_by": "", "attempt": run}
            for call in calls
        ],
    }


def compared(change: Callable[[Rows], object], doubted: tuple[str, ...] = ()) -> str:
    rows = run_rows(2, 500.0)
    change(rows)
    both = {name: [*found, *rows[name]] for name, found in copy.deepcopy(run_rows(1, 100.0)).items()}
    return describe_difference(StoredRunRows(**both), "1", "2", doubted)


def resent(rows: Rows) -> None:
    event = {"type": "effect_resent", "effect_id": uid(2, 1), "attempt": 2}
    rows["events"].insert(2, {"run_id": "2", "seq": 3, "at": 1.0, "type": "effect_resent", "event": event})


def swapped(rows: Rows) -> None:
    rows["events"][2], rows["events"][3] = rows["events"][3], rows["events"][2]


def heard_of_a_child(rows: Rows) -> None:
    event = {"type": "child_waits", "child_id": uid(2, 20), "waits": True}
    rows["events"].insert(2, {"run_id": "2", "seq": 3, "at": 1.0, "type": "child_waits", "event": event})


@pytest.mark.parametrize("change", [len, resent, swapped, heard_of_a_child])
def test_times_ids_attempts_workers_resends_and_the_order_of_parallel_ends_are_left_out(
    change: Callable[[Rows], object],
) -> None:
    assert compared(change) == ""


def set_event(place: int, **values: Any) -> Callable[[Rows], object]:
    return lambda rows: rows["events"][place]["event"].update(values)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda rows: rows["runs"][0].update(status="failed"), "the end"),
        (lambda rows: rows["runs"][0].update(step=3), "the end"),
        (set_event(6, final={"message": "other"}), "the log"),
        (set_event(3, result={"n": 7}), "the log"),
        (set_event(5, by="eve"), "the log"),
        (set_event(1, request_id=uid(2, 10)), "the log"),
        (lambda rows: rows["events"].pop(4), "the log"),
        (lambda rows: rows["events"].append(copy.deepcopy(rows["events"][5])), "the log"),
        (lambda rows: rows["events"].reverse(), "the log"),
        (lambda rows: rows["calls"][1].update(status="failed"), "the ledger"),
        (lambda rows: rows["calls"][1].update(settled_by="ada"), "the ledger"),
        (lambda rows: rows["calls"].pop(), "the ledger"),
    ],
)
def test_whatever_else_differs_is_reported(change: Callable[[Rows], object], where: str) -> None:
    assert f"{where} differs" in compared(change)


def test_what_a_person_decided_about_a_doubt_is_left_out_and_nothing_else() -> None:
    def settled(rows: Rows) -> None:
        rows["events"][2]["event"].update(status="failed", result=None, settled_by="ada")
        rows["calls"][0].update(status="failed", settled_by="ada")

    def shown_at_the_end(rows: Rows) -> None:
        settled(rows)
        rows["events"][6]["event"].update(final={"message": "done", "last_output": "what the person said"})

    assert compared(settled, (uid(2, 10),)) == ""
    assert compared(shown_at_the_end, (uid(2, 10),)) == ""
    assert "the log differs" in compared(shown_at_the_end)
    assert "the log differs" in compared(settled)
    assert "the log differs" in compared(settled, (uid(2, 11),))


def doubt(effect_class: str = "irreversible", *, process: str = "worker", at: float = 11.0) -> tuple[int, int]:
    entries = (("claim", "granted", 10.0, "worker"), ("outcome", "unknown", 25.0, ""))
    audit = [{"execution_id": "e", "phase": p, "verdict": v, "at": t, "actor": a} for p, v, t, a in entries]
    found = UnknownOutcomeCall(
        run_id="r", execution_id="e", tool="t", effect_class=effect_class, why="?", verdicts=(), happened=0
    )
    kill = SweepKill(point="worker.before_tool", nth=1, effect_class="", process=process, at=at)
    explained, unexplained = explain_unknown([found], StoredRunRows(audit=audit), [], [kill])
    return len(explained), len(unexplained)


def test_a_doubt_is_explained_only_by_the_death_of_the_worker_that_held_it() -> None:
    assert doubt() == (1, 0)
    assert doubt("idempotent") == (0, 1)
    assert doubt(process="worker-2") == (0, 1)
    assert doubt(at=9.9) == (1, 0)  # TAS grants to a dead worker what it had asked for
    assert doubt(at=9.7) == (0, 1)  # its successor may have asked
    assert doubt(at=26.0) == (0, 1)
