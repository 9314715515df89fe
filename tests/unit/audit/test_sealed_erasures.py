"""What is gone rests on an erasure that the log itself has: asked for, confirmed by somebody else, and carried out."""

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.audit.test_verifier import ALLOW, CALL, RUN, found, made

from towpath_audit import bundle
from towpath_audit.entries import AuditLogEntry, ErasablePayload
from towpath_audit.sealed_erasures import SealedErasures
from towpath_audit.verifier import verify

LATER = "2026-11-25T09:00:00.000000Z"
LAST, TOO_LATE = "2026-12-02T09:00:30.000000Z", "2026-12-02T09:01:30.000000Z"
WHAT = {"run_id": RUN}
GONE = {"erased": True, "at": "2026-11-22T08:00:00.000000Z"}
BEFORE_IT = "2026-11-22T07:59:59.999999Z"
SHIFTED = {"before": "2026-11-22T10:00:00+02:00"}


def own(phase: str, actor: str, detail: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "phase": f"audit.{phase}",
        "actor": actor,
        "execution_id": None,
        "detail": {"erasure_id": "e1", **detail},
    } | fields


def asked(**more: Any) -> dict[str, Any]:
    return own("erase_requested", "dana", {"what": WHAT, "alone_from": "2026-11-25T09:00:00+00:00", **more})


def confirmed(actor: str = "eve", at: str = "2026-11-22T09:00:00.000000Z", **more: Any) -> dict[str, Any]:
    return own("erase_confirmed", actor, {"what": WHAT, **more}, at=at)


def erased(*entries: int, **more: Any) -> dict[str, Any]:
    return own("erased", "eve", {"entries": list(entries), **more})


@pytest.mark.parametrize(
    "steps",
    [
        [asked(), confirmed(), erased(0)],
        [asked(), confirmed("dana", LATER, after_delay=True), erased(0)],
        [asked(), confirmed("dana", single_person=True), erased(0)],
        [asked(), confirmed(at=LAST), erased(0)],
        [asked(), confirmed(), erased(7), erased(0)],
        [asked(what={"before": LATER}), confirmed(what={"before": LATER}), erased(0)],
        [asked(kind="run"), confirmed(kind="run", runs=[RUN]), erased(0)],
        # Both were written while a clock that had been set back came up to the last checkpoint: the ids tell.
        [{**asked(), "at": GONE["at"]}, confirmed(), erased(0)],
    ],
)
def test_a_payload_may_be_gone_that_was_asked_for_confirmed_and_erased(steps: list[dict[str, Any]]) -> None:
    report = verify(made(dict(GONE), *map(dict, steps)))
    assert (report.faults, report.figures["payloads_erased"]) == ([], 1)


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([asked(), confirmed()], "no erasure in the log names it"),
        ([erased(0)], "was asked for by nobody"),
        ([confirmed(), erased(0)], "was asked for by nobody"),
        ([asked(), erased(0)], "was confirmed by nobody"),
        ([asked(), erased(0), confirmed()], "was confirmed by nobody"),
        ([asked(), confirmed("dana"), erased(0)], "was confirmed by nobody"),
        ([asked(), confirmed("dana", after_delay=True), erased(0)], "was confirmed by nobody"),
        ([asked(), confirmed(at=TOO_LATE), erased(0)], "was confirmed by nobody"),
        ([asked(), confirmed("dana", TOO_LATE, after_delay=True), erased(0)], "was confirmed by nobody"),
        ([asked(alone_from="x"), confirmed(), erased(0)], "was confirmed by nobody"),
        ([asked(alone_from="x"), confirmed("dana", LATER, after_delay=True), erased(0)], "was confirmed by nobody"),
        ([asked(what={"run_id": CALL}), confirmed(), erased(0)], "was confirmed by nobody"),
        ([asked(what={"run_id": CALL}), confirmed(what={"run_id": CALL}), erased(0)], "for something else"),
        ([asked(what={}), confirmed(what={}), erased(0)], "for something else"),
        ([asked(what=SHIFTED), confirmed(what={"before": "2026-11-22T08:00:00Z"}), erased(0)], "for something else"),
        ([{**asked(), "at": BEFORE_IT}, confirmed(), erased(0)], "asked for before it was written"),
        ([asked(kind="run"), confirmed(kind="run", runs=[CALL]), erased(0)], "for something else"),
        ([asked(kind="run"), confirmed(runs=[RUN]), erased(0)], "was confirmed by nobody"),
        ([{**one, "project": "q"} for one in (asked(), confirmed(), erased(0))], "for something else"),
    ],
)  # fmt: skip
def test_what_one_of_the_three_entries_lacks_covers_nothing(steps: list[dict[str, Any]], why: str) -> None:
    report = verify(made(dict(GONE), *map(dict, steps)))
    assert [(fault.code, fault.leaf) for fault in report.faults] == [("payload_missing", 0)]
    assert why in report.faults[0].message


@pytest.mark.parametrize("phase", ["policy.applied", "key.created", "audit.dropped"])
def test_payloads_that_are_never_erased_are_covered_by_no_erasure(phase: str) -> None:
    lines = made({**GONE, "phase": phase}, asked(), confirmed(), erased(0))
    assert found(lines) == [("payload_missing", 0)]


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ({"kept": True, "project": "p"}, None),
        ({"kept": False}, "decision_without_run_event"),
        ({"kept": False, "erased": True, "project": "p"}, "decision_without_run_event"),
        ({"kept": True, "project": "ghost"}, "requester_changed"),
    ],
)
def test_a_run_whose_row_is_gone_or_hidden_is_a_fault_whatever_is_left_of_its_log(
    row: dict[str, Any], code: str | None
) -> None:
    lines = made(dict(ALLOW), extra=(bundle.step(CALL, RUN, 3, **row),))
    assert found(lines) == ([(code, 0)] if code else [])


def test_a_row_of_the_ledger_is_empty_only_where_the_erasure_of_its_run_is_in_the_log() -> None:
    stored = bundle.stored(1, {"erased": True, "tool": "t"})  # leaf 0 applies the policy
    step = bundle.step(CALL, RUN, None, kept=False, erased=True)
    steps = [asked(kind="run"), confirmed(kind="run", runs=[RUN])]

    def lines(*entries: dict[str, Any]) -> list[str]:
        return made(dict(ALLOW), *map(dict, entries), extra=(stored, step))

    report = verify(lines(*steps))
    assert (report.faults, report.figures["runs_erased"]) == ([], 1)
    both = [("decision_without_run_event", 0), ("stored_missing", 0)]
    another = [asked(kind="run"), confirmed(kind="run", runs=[CALL])]
    named = asked(kind="run", runs=[RUN])
    assert found(lines(named, steps[1])) == []
    more = [asked(kind="run", runs=[CALL]), confirmed(kind="run", runs=[CALL, RUN])]
    for entries in (
        [],
        steps[:1],
        steps[1:],
        another,
        more,
        [named, confirmed(kind="run", runs=[RUN, CALL])],
        [erased(runs=[RUN])],
        [asked(), confirmed(runs=[RUN]), erased(0)],
    ):
        assert sorted(found(lines(*entries))) == both
    changed = bundle.stored(1, {"erased": True, "tool": "another"})
    assert found(made(dict(ALLOW), *map(dict, steps), extra=(changed,))) == [("stored_changed", 0)]


def test_a_call_that_no_row_asks_for_is_excused_by_no_erasure_of_its_run() -> None:
    steps = [asked(kind="run"), confirmed(kind="run", runs=[RUN])]
    assert found(made({**ALLOW, "execution_id": RUN}, *steps)) == [("decision_without_run_event", 0)]


def test_what_retention_dropped_may_have_had_the_request_to_erase_a_run() -> None:
    fields: dict[str, Any] = {"run_id": RUN, "execution_id": None, "rule": None, "policy_version": 0, "at": LATER}
    names = ("project", "verdict", "tool", "operation", "network", "agent_key", "caller", "actor", "commitment")
    gone = AuditLogEntry(entry_id=4, phase="outcome", **dict.fromkeys(names, ""), **fields)
    for partial, kind, asked_for, told_from in (
        (True, "run", False, "~"),
        (True, "payloads", False, "~"),
        (False, "run", False, "~"),
        (True, "run", True, "~"),
        (True, "run", False, LATER),
    ):
        erasures = SealedErasures(partial=partial, told_from=told_from)
        if asked_for:
            erasures.on_entry(replace(gone, phase="audit.erase_requested"), payload({"kind": "run", "erasure_id": "e"}))
        erasures.on_entry(
            replace(gone, phase="audit.erased"), payload({"kind": kind, "entries": [4], "erasure_id": "e"})
        )
        covered = erasures.why_entry_is_uncovered(gone) is None
        assert covered is (partial and kind == "run" and not asked_for and told_from != LATER)
        assert any("can't be told whether they were asked for" in note for note in erasures.notes()) is covered


def payload(detail: dict[str, Any]) -> ErasablePayload:
    return ErasablePayload(salt=bytes(16), args_digest="", detail=json.dumps(detail))


@pytest.mark.parametrize("said", [{}, {"from": 0, "to": 0}, {"to": 3, "edge": []}, {"to": 1, "edge": ["00" * 32]}])
def test_an_entry_of_retention_that_dropped_nothing_excuses_nothing(said: dict[str, Any]) -> None:
    lines = made(dict(GONE), own("dropped", "tas", said), erased(0, kind="run"))
    assert found(lines) == [("payload_missing", 0), ("drop_untrue", 1)]


def test_bundles_of_form_1_are_verified_as_they_were() -> None:
    payload = ErasablePayload(salt=bytes(16), args_digest="", detail='{"entries": [4]}')
    names = ("project", "verdict", "tool", "operation", "network", "agent_key", "caller", "actor", "commitment")
    fields: dict[str, Any] = {"at": LATER, "run_id": None, "execution_id": None, "rule": None, "policy_version": 0}
    entry = AuditLogEntry(entry_id=9, phase="audit.erased", **dict.fromkeys(names, ""), **fields)
    gone = AuditLogEntry(entry_id=4, phase="outcome", **dict.fromkeys(names, ""), **fields)
    for form in (True, False):
        erasures = SealedErasures(confirmations=form)
        erasures.on_entry(entry, payload)
        assert (erasures.why_entry_is_uncovered(gone) is None) is not form


def pruned(before: str, at: str, **more: Any) -> dict[str, Any]:
    return own("pruned", "retention", {"kind": "prune", "what": {"before": before}, "runs": [RUN], **more}, at=at)


PRUNED_STEP = bundle.step(CALL, RUN, None, kept=True, erased=True)
WEEK_LATER = "2026-11-29T09:00:01.000000Z"
AFTER_IT = "2026-11-22T09:00:01+00:00"


@pytest.mark.parametrize(
    ("steps", "faults"),
    [
        ([pruned(AFTER_IT, WEEK_LATER)], []),
        ([pruned(AFTER_IT, "2026-11-29T09:00:00.999999Z")], [("decision_without_run_event", 1)]),
        ([pruned("2026-11-22T09:00:00+00:00", WEEK_LATER)], [("decision_without_run_event", 1)]),
        ([pruned(AFTER_IT, WEEK_LATER, runs=[CALL])], [("decision_without_run_event", 1)]),
        ([pruned("soon", WEEK_LATER)], [("decision_without_run_event", 1)]),
        ([pruned(AFTER_IT, WEEK_LATER) | {"project": "q"}], [("decision_without_run_event", 1)]),
        ([], [("decision_without_run_event", 1)]),
    ],
)
def test_retention_may_take_what_is_a_week_old_and_what_it_names(
    steps: list[dict[str, Any]], faults: list[tuple[str, int]]
) -> None:
    report = verify(made({**ALLOW}, *map(dict, steps), extra=(PRUNED_STEP,)))
    assert [(fault.code, fault.leaf) for fault in report.faults] == faults
    assert report.figures.get("runs_pruned") == (1 if steps else None)


def test_what_retention_takes_never_is_a_payload() -> None:
    lines = made(dict(GONE), pruned(AFTER_IT, WEEK_LATER), erased(0, kind="prune"))
    assert found(lines) == [("payload_missing", 0)]
