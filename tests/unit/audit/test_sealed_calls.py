"""The entries of a call have one digest of arguments, unless a person edited them, and say how the call ended."""

import json
from typing import Any

import pytest

from towpath_audit.bundle import effect
from towpath_audit.entries import AuditLogEntry, ErasablePayload
from towpath_audit.sealed_calls import CallFault, SealedCalls
from towpath_audit.sealed_persons import EntryPlace
from towpath_audit.sealed_rules import SealedRules

RUN, CALL = "run", "call"
ALLOW, ASK, DENY = "decision allow", "decision require_approval", "decision deny"
EDITED, CONSUMED = "approval.edited edited", "approval.consumed allow"
CLAIM, REFUSED, AGAIN = "claim granted", "claim refused", "dispatch again"
DONE, FAILED, UNKNOWN = "outcome succeeded", "outcome failed", "outcome unknown"
HELD, RETRY, HAPPENED = "held waits", "settled retry", "settled happened"


def place(number: int, kind: str, *, run_id: str = RUN, version: int = 1, project: str = "p") -> EntryPlace:
    """The entry with this id, of a phase and a verdict."""
    phase, _, verdict = kind.partition(" ")
    entry = AuditLogEntry(
        entry_id=number,
        at="2026-11-22T11:00:00.000000Z",
        project=project,
        **dict.fromkeys(("tool", "operation", "network", "agent_key", "caller", "actor"), "x"),
        run_id=run_id,
        execution_id=None if phase == "policy.applied" else CALL,
        phase=phase,
        verdict=verdict,
        rule=None,
        policy_version=version,
        commitment="",
    )
    return EntryPlace(entry, number, number)


def payload(args_digest: str = "", **detail: Any) -> ErasablePayload:
    return ErasablePayload(salt=bytes(16), args_digest=args_digest, detail=json.dumps(detail))


def add(calls: SealedCalls, *entries: tuple[str, str | None], run_id: str = RUN) -> list[CallFault]:
    """Add entries of a call as phase, verdict and the digest of the arguments, and return what is wrong."""
    found = []
    for number, (kind, digest) in enumerate(entries, 10):
        found.append(calls.on_entry(place(number, kind, run_id=run_id), None if digest is None else payload(digest)))
    return [fault for fault in found if fault is not None]


@pytest.mark.parametrize(
    ("entries", "faults"),
    [
        ([(ALLOW, "a"), (CLAIM, "a"), (AGAIN, "a"), (CLAIM, "a"), (DONE, "a")], []),
        ([(ALLOW, "a"), (REFUSED, "b"), (CLAIM, "b"), (DONE, "b")], [12, 13]),
        ([(ALLOW, "a"), (AGAIN, "b")], [11]),
        ([(ALLOW, "a"), (UNKNOWN, "a"), (RETRY, "b")], [12]),
        ([(ALLOW, "a"), (UNKNOWN, "a"), (HAPPENED, "b")], [12]),
        ([(ASK, "a"), (CONSUMED, "a"), (CLAIM, "a")], []),
        ([(ASK, "a"), (CONSUMED, "b"), (CLAIM, "b")], [11]),
        ([(ASK, "a"), (ASK, "b"), (EDITED, "b"), (CONSUMED, "b"), (CLAIM, "b")], []),
        ([(ASK, "a"), (ASK, "b"), (EDITED, "c"), (CONSUMED, "b")], [11]),
        ([(ALLOW, "a"), (ASK, "b"), (CONSUMED, "b")], [11]),
        ([(HELD, "b"), (ALLOW, "a"), (CLAIM, "a")], []),
        ([(ALLOW, "a"), (HELD, "a"), (ALLOW, "b")], [12]),
        ([(ALLOW, None), (CLAIM, "b"), (DONE, None)], []),
        ([(CLAIM, "b"), (DONE, "c")], []),
    ],
)
def test_what_is_executed_has_the_arguments_that_were_decided(
    entries: list[tuple[str, str | None]], faults: list[int]
) -> None:
    calls = SealedCalls()
    told = [*add(calls, *entries), *calls.finish()]
    assert [fault.place.entry.entry_id for fault in told] == faults
    assert {fault.code for fault in told} <= {"call_args_changed"}


def test_the_ids_tell_which_decision_came_before_an_entry() -> None:
    """Within a seal the decisions of a call stand first."""
    calls = SealedCalls()
    for number, kind, digest in ((1, ALLOW, "a"), (5, ASK, "b"), (7, CONSUMED, "b"), (6, EDITED, "b"), (3, AGAIN, "a")):
        assert calls.on_entry(place(number, kind), payload(digest)) is None
    assert list(calls.finish()) == []
    assert calls.on_entry(place(9, CLAIM), payload("a")) is not None


def test_two_entries_with_one_id_are_no_error() -> None:
    calls = SealedCalls()
    for digest in ("a", None, "b"):
        calls.on_entry(place(1, ALLOW), None if digest is None else payload(digest))
    assert calls.on_entry(place(1, CLAIM), payload("a")) is None


def test_calls_of_two_runs_are_two_whatever_their_ids() -> None:
    calls = SealedCalls()
    assert add(calls, (ALLOW, "a")) == []
    assert add(calls, (CLAIM, "b"), run_id="other") == []
    assert calls.on_effect(line("started", run_id="other")) is None
    assert calls.on_effect(line("started")) is not None


def line(status: str, *, run_id: str = RUN, last_entry: bool = True) -> dict[str, Any]:
    return effect(run_id=run_id, execution_id=CALL, tool="t", status=status, last_entry=last_entry)


@pytest.mark.parametrize(
    ("entries", "status", "fits"),
    [
        ((ALLOW, CLAIM), "started", True),
        ((ALLOW,), "started", False),
        ((ALLOW, CLAIM, DONE), "succeeded", True),
        ((ALLOW,), "succeeded", False),
        ((ALLOW, CLAIM), "succeeded", False),
        ((ALLOW, CLAIM), "failed", False),
        ((ALLOW, CLAIM), "unknown", False),
        ((ALLOW, CLAIM, FAILED), "succeeded", False),
        ((ALLOW, CLAIM, UNKNOWN), "unknown", True),
        ((ALLOW, CLAIM, UNKNOWN, HAPPENED), "succeeded", True),
        ((ALLOW, CLAIM, UNKNOWN, RETRY), "unknown", False),
        ((ALLOW, CLAIM, UNKNOWN, FAILED), "failed", True),
        ((ALLOW, HELD), "succeeded", False),
        ((ALLOW, CLAIM, DONE, REFUSED), "succeeded", True),
        ((DENY,), "succeeded", False),
    ],
)
def test_the_ledger_says_of_a_call_what_its_last_entry_says(entries: list[str], status: str, fits: bool) -> None:
    calls = SealedCalls()
    add(calls, *((kind, "a") for kind in entries))
    assert (calls.on_effect(line(status)) is None) == fits
    assert calls.on_effect(line(status, last_entry=False)) is None, "its last entry may come later"


@pytest.mark.parametrize(
    ("found", "faults"),
    [
        ({"status": "succeeded", "last_entry": True}, ["effect_without_outcome"]),
        ({"status": "started", "last_entry": True}, []),
        ({"status": "succeeded", "last_entry": False}, []),
        ({"status": "succeeded"}, []),
        (None, []),
    ],
)
def test_a_row_is_held_against_the_entries_also_where_its_date_keeps_it_from_the_effects(
    found: Any, faults: list[str]
) -> None:
    calls = SealedCalls()
    add(calls, (ALLOW, "a"), (CLAIM, "a"))
    calls.on_stored(place(10, ALLOW).entry, 10, 10, found)
    assert [fault.code for fault in calls.differing_rows()] == faults
    calls.on_effect(line("succeeded"))
    assert [*calls.differing_rows()] == [], "it is told of as an effect"


def test_the_last_entry_of_a_call_is_the_one_with_the_highest_id() -> None:
    """Within a seal the claims of a call stand before what was sent again between them."""
    calls = SealedCalls()
    for number, kind in ((1, ALLOW), (2, CLAIM), (4, CLAIM), (3, AGAIN)):
        calls.on_entry(place(number, kind), payload("a"))
    assert calls.on_effect(line("started")) is None


@pytest.mark.parametrize(
    ("applied", "decided", "faults"),
    [
        ({"rules_digest": "r"}, ["r", "r"], []),
        ({"rules_digest": "r"}, ["r", "s", "s"], ["version 1 was applied with (2 entries)"]),
        ({"rules_digest": "r"}, ["s", "q"], ["version 1 was applied with"] * 2),
        ({"rules_digest": "r"}, [None], []),
        ({}, ["s"], []),
        (None, ["s"], []),
    ],
)
def test_decisions_are_by_the_rules_that_their_policy_version_was_applied_with(
    applied: dict[str, str] | None, decided: list[str | None], faults: list[str]
) -> None:
    rules = SealedRules()
    rules.on_entry(place(20, "policy.applied applied", version=2), payload(rules_digest="s"))
    rules.on_entry(place(0, "policy.applied applied", project="q"), payload(rules_digest="s"))
    if applied is not None:
        rules.on_entry(place(1, "policy.applied applied"), payload(**applied))
    for number, digest in enumerate(decided, 2):
        rules.on_entry(place(number, ALLOW), payload(**({} if digest is None else {"rules_digest": digest})))
    rules.on_entry(place(9, DENY), None)
    told = list(rules.finish())
    assert {fault.code for fault in told} <= {"decision_by_other_rules"}
    assert [fault.message.partition("policy ")[2] for fault in told] == faults


def test_a_policy_is_what_its_first_entry_says() -> None:
    rules = SealedRules()
    for digest in ("r", "s"):
        rules.on_entry(place(0, "policy.applied applied"), payload(rules_digest=digest))
    rules.on_entry(place(2, ALLOW), payload(rules_digest="s"))
    assert len(list(rules.finish())) == 1


@pytest.mark.parametrize(
    ("second_at", "entries", "faults"),
    [
        (13, [(ALLOW, 1), (ASK, 1), (CONSUMED, 1)], []),
        (9, [(ALLOW, 2), (ASK, 2), (CONSUMED, 2)], []),
        (9, [(ALLOW, 2), (ALLOW, 1), (ASK, 1)], ["1, and version 2 was in force (2 entries)"]),
        (11, [(CONSUMED, 1), (CLAIM, 1), (CONSUMED, 1)], ["1, and version 2 was in force"]),
        (9, [(CLAIM, 1), (DONE, 1), (DENY, 1)], []),
    ],
)
def test_decisions_are_under_the_newest_policy_version(
    second_at: int, entries: list[tuple[str, int]], faults: list[str]
) -> None:
    """The ids tell which was the newest: within a seal the entries of calls come last."""
    rules = SealedRules()
    rules.on_entry(place(1, "policy.applied applied"), None)
    rules.on_entry(place(second_at, "policy.applied applied", version=2), None)
    rules.on_entry(place(3, "policy.applied applied", version=5, project="q"), None)
    for number, (kind, version) in enumerate(entries, 10):
        rules.on_entry(place(number, kind, version=version), None)
    assert [fault.message.partition("policy version ")[2] for fault in rules.finish()] == faults


def test_whatever_names_its_rules_was_judged_by_them() -> None:
    rules = SealedRules()
    for version in (1, 2):
        rules.on_entry(place(version, "policy.applied applied", version=version), payload(rules_digest=str(version)))
    rules.on_entry(place(3, AGAIN), payload(rules_digest="1"))
    rules.on_entry(place(4, AGAIN), payload())
    (fault,) = rules.finish()
    assert (fault.code, fault.place.entry.entry_id) == ("decision_by_other_rules", 3)


def test_a_version_that_seems_to_be_applied_again_is_not_in_force() -> None:
    rules = SealedRules()
    for number, version in ((1, 1), (3, 2), (5, 1)):
        rules.on_entry(place(number, "policy.applied applied", version=version), None)
    rules.on_entry(place(6, ALLOW), None)
    rules.on_entry(place(7, ALLOW, version=2), None)
    (fault,) = rules.finish()
    assert fault.place.entry.entry_id == 6


def test_an_older_policy_that_is_not_shown_accuses_nobody() -> None:
    rules = SealedRules()
    rules.on_entry(place(3, ALLOW), payload(rules_digest="1"))
    assert list(rules.finish()) == []


def test_an_edit_that_a_bundle_hides_may_be_the_next_entry_after_its_last() -> None:
    for until, told in ((None, 1), ("2026-11-22T11:00:04.999999Z", 0), ("2026-11-22T11:00:05.000001Z", 1)):
        calls = SealedCalls(until=until)
        add(calls, (ALLOW, "a"), (ASK, "b"))
        assert len(list(calls.finish())) == told


@pytest.mark.parametrize(
    ("edited", "by_row", "settings", "faults"),
    [
        (True, "x", {}, 0),
        (True, "eve", {}, 1),
        (True, "", {}, 1),
        (False, "", {}, 0),
        (False, "x", {}, 1),
        (False, "x", {"partial": True}, 0),
        (True, "eve", {"partial": True}, 1),
        (False, "x", {"until": "2026-11-22T12:00:00.000000Z"}, 0),
    ],
)
def test_whom_a_row_names_as_its_editor_has_edited_the_call(
    edited: bool, by_row: str, settings: dict[str, Any], faults: int
) -> None:
    calls = SealedCalls(**settings)
    add(calls, (ASK, "a"), *([(ASK, "b"), (EDITED, "b")] if edited else []), (DENY, "b"))
    last = place(14, DENY).entry
    calls.on_stored(last, 14, 14, {"status": "denied", "last_entry": True, "edited_by": by_row})
    assert [fault.code for fault in calls.finish()] == ["stored_changed"] * faults
