"""Who may have something erased, and when: another person at once, whoever asked after the delay."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from towpath_audit import sealed_erasures
from towpath_contracts.problems.registry import Problem
from towpath_contracts.tools.erasures import DecideErasure, ErasureView, RequestErasure
from towpath_tas.core.erasure_rules import (
    EXPIRES,
    ErasureDecision,
    ErasureRules,
    RunToErase,
    decide,
    requested_detail,
    selection_problem,
    time_problem,
    tree_problem,
)

NOW = datetime(2026, 11, 24, tzinfo=UTC)
RULES = ErasureRules(delay=timedelta(hours=72))
ALONE = ErasureRules(delay=timedelta(hours=72), single_person=True)
ERASURE = ErasureView(
    erasure_id=UUID(int=1),
    project="p",
    status="requested",
    caller="mia",
    reason="request 4711",
    requested_by="dana",
    requested_at=NOW,
    alone_from=NOW + RULES.delay,
)


def said(actor: str, verdict: str = "confirm") -> DecideErasure:
    return DecideErasure.model_validate(
        {"project": "p", "erasure_id": ERASURE.erasure_id, "verdict": verdict, "actor": actor, "key_prefix": "k"}
    )


@pytest.mark.parametrize(
    ("actor", "after_h", "rules", "becomes"),
    [
        ("eve", 0, RULES, "confirmed"),
        ("dana", 0, RULES, "second_person_required"),
        ("dana", 71.9, RULES, "second_person_required"),
        ("dana", 72, RULES, "after_delay"),
        ("dana", 0, ALONE, "single_person"),
        ("eve", 0, ALONE, "confirmed"),
    ],
)
def test_another_person_confirms_or_time_has_passed(
    actor: str, after_h: float, rules: ErasureRules, becomes: str
) -> None:
    found = decide(ERASURE, said(actor), rules, NOW + timedelta(hours=after_h))
    if becomes == "second_person_required":
        assert isinstance(found, Problem)
        assert found.code == becomes
        return
    assert isinstance(found, ErasureDecision)
    assert (found.status, found.phase) == ("confirmed", "audit.erase_confirmed")
    assert (found.detail["what"], found.detail["requested_by"]) == ({"caller": "mia"}, "dana")
    assert found.detail.keys() & {"after_delay", "single_person"} == {becomes} - {"confirmed"}


@pytest.mark.parametrize("actor", ["dana", "eve"])
def test_a_request_that_nobody_confirmed_in_time_is_asked_for_again(actor: str) -> None:
    last = ERASURE.alone_from + EXPIRES
    assert isinstance(decide(ERASURE, said(actor), ALONE, last - timedelta(seconds=1)), ErasureDecision)
    late = decide(ERASURE, said(actor), ALONE, last)
    assert isinstance(late, Problem)
    assert (late.code, "ask for it again" in (late.detail or "")) == ("erasure_settled", True)
    assert isinstance(decide(ERASURE, said(actor, "withdraw"), ALONE, last), ErasureDecision)


@pytest.mark.parametrize("actor", ["dana", "eve"])
def test_anybody_withdraws_what_is_not_confirmed(actor: str) -> None:
    found = decide(ERASURE, said(actor, "withdraw"), RULES, NOW)
    assert isinstance(found, ErasureDecision)
    assert (found.status, found.phase) == ("withdrawn", "audit.erase_withdrawn")


@pytest.mark.parametrize("status", ["confirmed", "done", "withdrawn"])
@pytest.mark.parametrize("verdict", ["confirm", "withdraw"])
@pytest.mark.parametrize("actor", ["dana", "eve"])
def test_what_is_settled_stays_and_is_answered_again_to_who_decided(status: str, verdict: str, actor: str) -> None:
    settled = ERASURE.model_copy(update={"status": status, "decided_by": "eve", "decided_at": NOW})
    found = decide(settled, said(actor, verdict), ALONE, NOW + timedelta(days=365))
    repeated = actor == "eve" and verdict == ("withdraw" if status == "withdrawn" else "confirm")
    assert found is None if repeated else isinstance(found, Problem) and found.code == "erasure_settled"


RUN, CHILD, PARENT = UUID(int=11), UUID(int=12), UUID(int=10)
OF_RUN = ERASURE.model_copy(update={"kind": "run", "run_id": RUN, "caller": None, "runs": 2, "run_ids": (RUN, CHILD)})


def tree(own: str = "completed", child: str = "failed", parent: str = "completed", **of_child: str) -> list[RunToErase]:
    return [
        RunToErase(RUN, "p", own, erased=False, above=False),
        RunToErase(CHILD, of_child.get("project", "p"), child, erased=False, above=False),
        RunToErase(PARENT, "p", parent, erased=False, above=True),
    ]


def test_a_run_and_all_below_it_are_confirmed_together_by_another_person() -> None:
    found = decide(OF_RUN, said("eve"), RULES, NOW, tree())
    assert isinstance(found, ErasureDecision)
    assert (found.detail["kind"], found.detail["runs"]) == ("run", [str(RUN), str(CHILD)])
    alone = decide(OF_RUN, said("dana"), RULES, NOW, tree())
    assert isinstance(alone, Problem)
    assert alone.code == "second_person_required"


def test_just_the_runs_that_were_shown_are_confirmed() -> None:
    for run_ids in ((RUN,), (), (RUN, CHILD, UUID(int=13))):
        asked = OF_RUN.model_copy(update={"runs": len(run_ids), "run_ids": run_ids})
        found = decide(asked, said("eve"), RULES, NOW, tree())
        assert isinstance(found, Problem)
        assert found.code == "erasure_changed"
        assert isinstance(decide(asked, said("eve", "withdraw"), RULES, NOW, tree()), ErasureDecision)


def test_the_entry_of_a_request_names_the_runs() -> None:
    request = RequestErasure(project="p", actor="dana", reason="r", kind="run", run_id=RUN)
    assert requested_detail(request, OF_RUN)["runs"] == [str(RUN), str(CHILD)]
    assert "runs" not in requested_detail(request, ERASURE)


def test_a_run_with_five_thousand_runs_is_erased_as_one() -> None:
    below = [RunToErase(UUID(int=n), "p", "failed", erased=False, above=False) for n in range(99, 99 + 5_000)]
    assert tree_problem(RUN, "p", [*tree(), *below[: 5_000 - len(tree())]]) is None
    refused = tree_problem(RUN, "p", [*tree(), *below[: 5_001 - len(tree())]])
    assert refused is not None and refused.code == "limit_exceeded"


@pytest.mark.parametrize(
    ("runs", "code"),
    [
        ([], "run_not_found"),
        (tree(own="running"), "run_not_ended"),
        (tree(own="quarantined"), "run_not_ended"),
        (tree(child="waiting"), "run_not_ended"),
        (tree(parent="running"), "run_not_ended"),
        (tree(project="q"), "forbidden"),
        ([RunToErase(RUN, "q", "completed", erased=False, above=False)], "run_not_found"),
        ([RunToErase(RUN, "p", "completed", erased=True, above=False)], "run_erased"),
        (
            tree() + [RunToErase(UUID(int=n), "p", "failed", erased=False, above=False) for n in range(99, 99 + 4_998)],
            "limit_exceeded",
        ),
    ],
)
def test_a_run_is_not_erased_while_something_of_it_lives_or_is_not_the_project_s(
    runs: list[RunToErase], code: str
) -> None:
    refused = tree_problem(RUN, "p", runs)
    assert refused is not None
    assert refused.code == code
    found = decide(OF_RUN, said("eve"), RULES, NOW, runs)
    assert isinstance(found, Problem)
    assert found.code == code
    withdrawn = decide(OF_RUN, said("eve", "withdraw"), RULES, NOW, runs)
    assert isinstance(withdrawn, ErasureDecision), "it can be withdrawn all the same"


@pytest.mark.parametrize(
    ("kind", "named", "good"),
    [
        ("payloads", {}, False),
        ("payloads", {"caller": "mia"}, True),
        ("payloads", {"run_id": RUN}, True),
        ("run", {"run_id": RUN}, True),
        ("run", {}, False),
        ("run", {"run_id": RUN, "caller": "mia"}, False),
        ("run", {"caller": "mia"}, False),
    ],
)
def test_what_is_to_be_erased_is_named_clearly(kind: str, named: dict[str, object], good: bool) -> None:
    request = RequestErasure.model_validate({"project": "p", "actor": "dana", "reason": "r", "kind": kind, **named})
    assert (selection_problem(request) is None) is good


def test_what_is_erased_ends_no_later_than_now() -> None:
    for before, good in ((None, True), (NOW, True), (NOW + timedelta(microseconds=1), False)):
        request = RequestErasure(project="p", actor="dana", reason="r", caller="mia", before=before)
        refused = time_problem(request, NOW)
        assert (refused is None) is good
        assert refused is None or (refused.code, "is" in refused.detail) == ("request_invalid", True)


def test_whoever_verifies_knows_how_long_a_request_can_be_confirmed() -> None:
    assert sealed_erasures.EXPIRES == EXPIRES
