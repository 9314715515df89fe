"""The report of a campaign: whose fault is whose, what counts as a problem, and how a person sees it."""

from dataclasses import replace
from typing import Any

import pytest

from towpath.cli.administration.chaos_command import _show
from towpath.cli.shared.output import OutputPrinter
from towpath_embedded.chaos.campaign import CampaignActions, TargetRun
from towpath_embedded.chaos.faults import Strike
from towpath_embedded.chaos.judge import JudgeReport, UnknownOutcomeCall
from towpath_embedded.chaos.plan import StrikePlanEntry, StrikeTrigger
from towpath_embedded.chaos.report import CampaignFindings, differing_runs, report_document
from towpath_embedded.chaos.run_watcher import ObservedRunLog
from towpath_embedded.chaos.stored_runs import StoredRunRows

RUNS = ("00000000-0000-7000-8000-000000000001", "00000000-0000-7000-8000-000000000002")
CALL = "00000000-0000-5000-8000-00000000000a"
FIRST, SECOND = (StrikeTrigger(network="net", event="call", nth=nth) for nth in (1, 2))


def target(number: int, fault: str, boundary: StrikeTrigger, *, recovered_at: float = 12.0) -> TargetRun:
    log = ObservedRunLog(types={1: "call", 2: "end"}, seen_at={1: 9.0, 2: recovered_at})
    strike = Strike(process="p", at=10.0, wall=100.0, waited_s=0.0)
    return TargetRun(
        cell=StrikePlanEntry(number=number, fault=fault, boundary=boundary), run_id=RUNS[number], strike=strike, log=log
    )


@pytest.fixture
def found() -> CampaignFindings:
    """A campaign of two strikes after which nothing is wrong; one call was unknown and settled."""
    result = CampaignActions(
        boundaries=(FIRST, SECOND),
        targets=[target(0, "stop.tas", SECOND, recovered_at=16.0), target(1, "kill.nats", FIRST)],
        run_ids=dict.fromkeys(RUNS, "net"),
        gate_answers={"happened": 1},
        quiet=True,
    )
    unknown = UnknownOutcomeCall(
        run_id=RUNS[1],
        execution_id=CALL,
        tool="pay",
        effect_class="irreversible",
        why="lost",
        verdicts=("happened",),
        happened=1,
    )
    verdict = JudgeReport(runs=2, completed=2, unknown=[unknown])
    audit = [
        {"execution_id": CALL, "phase": phase, "verdict": item, "at": at, "actor": "worker-2"}
        for phase, item, at in (("claim", "granted", 99.5), ("outcome", "unknown", 104.0))
    ]
    record = StoredRunRows(calls=[{"execution_id": CALL, "run_id": RUNS[1]}], audit=audit, events=[])
    return CampaignFindings(result=result, record=record, verdict=verdict, differing=(), replay_mismatches=())


def report(found: CampaignFindings, expected: tuple[str, ...] = ("kill.nats", "stop.tas")) -> dict[str, Any]:
    return report_document(found, seed=7, expected=expected, facts={"seconds": 3.0})


def test_strikes_are_counted_by_fault_and_by_boundary_in_the_order_of_the_log(found: CampaignFindings) -> None:
    shown = report(found)
    assert (shown["seed"], shown["strikes"], shown["kills"], shown["problems"]) == (7, 2, 1, [])
    assert [*shown["matrix"]] == [FIRST.label, SECOND.label]
    assert shown["matrix"][FIRST.label]["kill.nats"]["strikes"] == 1
    assert shown["by_fault"]["kill.nats"]["unknown"] == 1
    assert shown["by_fault"]["stop.tas"]["unknown"] == 0
    assert shown["by_fault"]["stop.tas"]["recovery_s"]["p50"] == 6.0
    assert shown["recovery_s"] == {"p50": 6.0, "p99": 6.0, "max": 6.0}
    assert shown["unknown"][0]["where"] == f"pay of run {RUNS[1]}"
    assert shown["unknown"][0]["claimed_by"] == "worker-2"
    assert shown["unknown"][0]["strikes"][0] == "kill.nats of p +0.50 s after the claim"
    assert shown["unknown_by_cause"] == {"irreversible: lost": 1}


def test_an_unknown_that_no_strike_explains_is_a_problem(found: CampaignFindings) -> None:
    for row in found.record.audit:
        row["at"] += 60
    assert report(found)["problems"] == [f"unknown without a strike: pay of run {RUNS[1]}"]


def test_a_finding_is_a_problem_and_belongs_to_the_strike_at_its_run(found: CampaignFindings) -> None:
    found.verdict.dup.append(f"{CALL} (irreversible) happened 2 times")
    found.verdict.lost.append(f"{RUNS[0]} is running")
    shown = report(found)
    assert (shown["lost"], shown["duplicates"]) == (1, 1)
    assert shown["by_fault"]["kill.nats"]["duplicates"] == shown["by_fault"]["stop.tas"]["lost"] == 1
    assert shown["by_fault"]["stop.tas"]["duplicates"] == shown["by_fault"]["kill.nats"]["lost"] == 0
    assert [problem.split(":")[0] for problem in shown["problems"]] == ["lost", "duplicates"]


def test_what_never_struck_is_a_problem(found: CampaignFindings) -> None:
    found.result.targets[0].strike = None
    assert report(found, ("kill.nats", "wipe.nats"))["problems"] == [
        "the fault wipe.nats never struck",
        f"stop.tas never struck at {SECOND.label}: no run came to it",
    ]


def test_unrest_idleness_and_other_outcomes_are_problems(found: CampaignFindings) -> None:
    found.result.quiet = False
    found.verdict.completed = 1
    worse = replace(found, differing=("a",), replay_mismatches=("b", "c"))
    shown = report(worse)
    assert (shown["differing"], shown["replay_mismatches"], shown["completed_share"]) == (1, 2, 0.5)
    assert len(shown["problems"]) == 4


def test_a_run_may_differ_by_a_persons_decision_or_a_time_limit_and_by_nothing_else(found: CampaignFindings) -> None:
    def record(**changes: Any) -> StoredRunRows:
        common = {"step": 1, "call_index": 0, "tool": "t", "effect_class": "pure", "args_digest": "d", "rule": "r"}
        usual = {"type": "tool_call_finished", "execution_id": CALL, "step": 1, "call_index": 0, "status": "succeeded"}
        ends = {RUNS[0]: usual, RUNS[1]: {**usual, **changes}}
        status = {run_id: event["status"] for run_id, event in ends.items()}
        calls = [{**common, "run_id": r, "execution_id": CALL, "status": status[r], "settled_by": ""} for r in RUNS]
        return StoredRunRows(
            runs=[{"run_id": run_id, "status": "completed", "reason": "", "step": 1} for run_id in RUNS],
            events=[
                {"run_id": run_id, "seq": 1, "type": "tool_call_finished", "event": event}
                for run_id, event in ends.items()
            ],
            calls=calls,
        )

    found.result.references["net"] = RUNS[0]
    found.verdict.unknown.clear()
    assert differing_runs(found.result, record(), found.verdict) == []
    assert differing_runs(found.result, record(status="failed", failure={"code": "tool_timeout"}), found.verdict) == []
    (text,) = differing_runs(found.result, record(status="failed", failure={"code": "no_such"}), found.verdict)
    assert text.startswith(f"{RUNS[1]}: the log differs from that of {RUNS[0]}")


@pytest.mark.parametrize(
    ("kind", "doubted", "status", "compared"),
    [
        ("goal", True, "failed", False),  # a person said that the call of its child did not happen
        ("background", True, "failed", False),
        ("goal", True, "succeeded", True),
        ("goal", False, "failed", True),
        ("network", True, "failed", True),
    ],
)
def test_a_goal_goes_another_way_where_a_doubted_call_of_its_child_did_not_happen(
    found: CampaignFindings, kind: str, doubted: bool, status: str, compared: bool
) -> None:
    child = "00000000-0000-7000-8000-000000000003"
    events: list[dict[str, Any]] = [
        {"run_id": run_id, "seq": 1, "type": "run_created", "event": {"type": "run_created", "kind": kind}}
        for run_id in RUNS
    ]
    started = {"type": "child_started", "child_id": child}
    events.append({"run_id": RUNS[1], "seq": 2, "type": "child_started", "event": started})
    record = StoredRunRows(
        runs=[{"run_id": run_id, "status": "completed", "reason": "", "step": 1} for run_id in RUNS],
        events=events,
        calls=[{"run_id": child, "execution_id": CALL, "status": status}],
    )
    found.result.references["net"] = RUNS[0]
    found.verdict.unknown[:] = [replace(found.verdict.unknown[0], run_id=child)] if doubted else []
    assert bool(differing_runs(found.result, record, found.verdict)) == compared


def test_a_person_sees_the_matrix_the_figures_and_every_problem(
    found: CampaignFindings, capsys: pytest.CaptureFixture[str]
) -> None:
    _show(report(found), OutputPrinter("table"))
    calm = capsys.readouterr().out
    assert "net call#1" in calm
    assert "1 u1" in calm
    assert "1 kills among 2 strikes; 2 of 2 runs completed (100.0%); 3 s, seed 7" in calm
    assert "everything held" in calm
    assert "unknown 1 times: irreversible: lost" in calm
    found.verdict.lost.append(f"{RUNS[0]} is running")
    _show(report(found), OutputPrinter("table"))
    alarmed = capsys.readouterr().out
    assert "1 L1" in alarmed
    assert f"lost: 1, for example {RUNS[0]} is running" in alarmed
    assert "not everything held" in alarmed
