"""What a table says of a tool that waits for a person needs an entry; so does a key's revocation, a minute later."""

import json
from typing import Any

import pytest

from towpath_audit import sealed_persons
from towpath_audit.entries import AuditLogEntry, ErasablePayload
from towpath_audit.sealed_persons import OPERATED, EntryPlace, SealedPersons
from towpath_gateway.core.api_keys import SCOPES

EXPORTED = "2026-11-22T12:00:00.000000Z"
HOUR_BEFORE = "2026-11-22T11:00:00.000000Z"
JUST_BEFORE = "2026-11-22T11:59:30.000000Z"
YEAR_AFTER = "2027-11-22T11:59:30.000000Z"
ACCEPTED = {"status": "accepted", "decided_by": "mia"}


def add(
    persons: SealedPersons,
    phase: str,
    found: Any = None,
    *,
    at: str = HOUR_BEFORE,
    verdict: str = "",
    project: str = "x",
    tool: str = "x",
    erased: bool = False,
    **detail: Any,
) -> None:
    """Add an entry of *phase* with these details, which may be *erased*, as the next one."""
    number = add.__dict__["count"] = add.__dict__.get("count", 0) + 1
    entry = AuditLogEntry(
        entry_id=number,
        at=at,
        **dict.fromkeys(("operation", "network", "agent_key", "caller"), "x"),
        tool=tool,
        project=project,
        run_id=None,
        execution_id=None,
        phase=phase,
        verdict=verdict or phase.partition(".")[2],
        actor="mia",
        rule=None,
        policy_version=1,
        commitment="",
    )
    payload = ErasablePayload(salt=bytes(16), args_digest="", detail=json.dumps(detail))
    persons.on_entry(EntryPlace(entry, number, number), None if erased else payload, found)


@pytest.mark.parametrize(
    ("found", "decided", "faults"),
    [
        ({"status": "pending", "decided_at": None}, None, []),
        ({**ACCEPTED, "decided_at": HOUR_BEFORE}, None, ["stored_changed"]),
        ({**ACCEPTED, "decided_at": None}, None, ["stored_changed"]),
        ({**ACCEPTED, "decided_at": YEAR_AFTER}, None, ["stored_changed"]),
        ({**ACCEPTED, "decided_at": JUST_BEFORE}, None, []),
        ({**ACCEPTED, "decided_at": "2026-11-22T11:58:30.000000Z"}, None, ["stored_changed"]),
        ({**ACCEPTED, "decided_at": "2026-11-23T11:00:00.000000Z"}, None, []),
        ({**ACCEPTED, "decided_at": "2026-11-23T13:00:00.000000Z"}, None, ["stored_changed"]),
        ({**ACCEPTED, "decided_at": HOUR_BEFORE}, 2, []),
        ({**ACCEPTED, "decided_at": HOUR_BEFORE}, 3, ["stored_changed"]),
    ],
)
def test_a_tool_that_waited_is_accepted_by_an_entry_about_that_version(
    found: Any, decided: int | None, faults: list[str]
) -> None:
    persons = SealedPersons(exported_at=EXPORTED)
    add(persons, "tool.proposed", found, version=2)
    if decided is not None:
        add(persons, "tool.accepted", version=decided)
    assert [fault.code for fault in persons.finish()] == faults


def test_in_a_bundle_that_ends_earlier_the_entry_may_come_later() -> None:
    persons = SealedPersons(exported_at=EXPORTED, until=JUST_BEFORE)
    add(persons, "tool.proposed", {**ACCEPTED, "decided_at": HOUR_BEFORE}, version=2)
    assert list(persons.finish()) == []


@pytest.mark.parametrize(
    ("caller", "revoked", "faults"),
    [
        ("mia", None, 0),
        ("noa", None, 1),
        ("mia", "2026-11-22T10:59:30.000000Z", 0),
        ("mia", "2026-11-22T10:00:00.000000Z", 1),
    ],
)
def test_whoever_votes_has_a_key_that_counts(caller: str, revoked: str | None, faults: int) -> None:
    persons = SealedPersons(exported_at=EXPORTED)
    add(persons, "key.created", key="k", caller=caller)
    if revoked is not None:
        add(persons, "key.revoked", at=revoked, key="k")
    add(persons, "approval.approved", by_key="k")
    assert [fault.code for fault in persons.finish()] == ["key_unmade"] * faults


def test_a_key_that_was_revoked_counts_no_more_also_where_it_is_revoked_again() -> None:
    persons = SealedPersons(exported_at=EXPORTED)
    add(persons, "key.created", key="k", caller="mia")
    add(persons, "key.revoked", at="2026-11-22T10:00:00.000000Z", key="k")
    add(persons, "approval.approved", by_key="k")
    add(persons, "key.revoked", at=JUST_BEFORE, key="k")
    assert [fault.code for fault in persons.finish()] == ["key_unmade"]


def test_a_key_counts_in_the_project_that_it_was_made_for() -> None:
    for project, faults in (("x", []), ("y", ["key_unmade"])):
        persons = SealedPersons(exported_at=EXPORTED)
        add(persons, "key.created", project=project, key="k", caller="mia")
        add(persons, "approval.approved", by_key="k")
        assert [fault.code for fault in persons.finish()] == faults


def test_keys_from_before_a_bundle_are_counted_only() -> None:
    persons = SealedPersons(exported_at=EXPORTED, partial=True)
    add(persons, "approval.approved", by_key="k")
    assert list(persons.finish()) == []
    assert persons.unseen_keys == 1


def test_a_key_without_a_name_is_nobodys() -> None:
    for partial in (False, True):
        persons = SealedPersons(exported_at=EXPORTED, partial=partial)
        add(persons, "approval.approved", by_key="", by_commitment="c")
        assert [fault.code for fault in persons.finish()] == ["key_unmade"]
    persons = SealedPersons(exported_at=EXPORTED)
    add(persons, "approval.approved", by_key="")
    assert [*persons.finish()] == [], "a platform without keys has none"


def test_an_entry_of_the_log_itself_may_be_by_a_key_that_was_made_after_the_time_asked_for() -> None:
    persons = SealedPersons(exported_at=EXPORTED, until=HOUR_BEFORE)
    add(persons, "audit.erase_requested", at=JUST_BEFORE, by_key="k")
    assert list(persons.finish()) == []
    assert persons.unseen_keys == 1


def test_what_could_not_be_sealed_is_not_held_against_tables() -> None:
    persons = SealedPersons(exported_at=EXPORTED, sealed=False)
    add(persons, "tool.proposed", {**ACCEPTED, "decided_at": HOUR_BEFORE}, version=2)
    assert list(persons.finish()) == []


@pytest.mark.parametrize("odd", [[], {}, [[]], None, 1.5])
def test_whatever_a_bundle_says_it_is_read(odd: Any) -> None:
    persons = SealedPersons(exported_at=EXPORTED)
    add(persons, "tool.proposed", {"status": odd, "decided_at": odd}, version=odd)
    add(persons, "tool.accepted", {"status": odd}, version=odd)
    add(persons, "key.created", key=odd, caller=odd)
    add(persons, "approval.approved", by_key=odd)
    add(persons, "switch.paused", kind=odd, name=odd)
    list(persons.finish())


def test_the_work_of_comparing_calls_with_pauses_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed_persons, "MAX_MATCHED", 25)
    persons = SealedPersons(exported_at=EXPORTED)
    for number in range(10):
        add(persons, "switch.paused", kind="tool", name=f"t{number}")
    for _ in range(5):
        add(persons, "decision", verdict="allow")
    assert persons.matched <= 25
    assert persons.unmatched == 3


MADE_KEY = {"key": "k", "caller": "mia", "roles": ["approver"], "scopes": ["gates:resolve"], "expires_at": None}


@pytest.mark.parametrize(
    ("made", "role", "faults"),
    [
        ({}, "approver", []),
        ({"roles": []}, "approver", ["key_without_right"]),
        ({}, "policy_admin", ["key_without_right"]),
        ({"roles": ["approver", "policy_admin"]}, "policy_admin", []),
        ({"scopes": ["runs:write"]}, "approver", ["key_without_right"]),
        ({"expires_at": "2026-11-22T12:00:00.5+02:00"}, "approver", ["key_unmade"]),
        ({"expires_at": "2026-11-22T10:59:30+00:00"}, "approver", []),
        ({"expires_at": "2026-11-22T12:30:00+00:00"}, "approver", []),
        ({"roles": None, "scopes": None}, "policy_admin", []),
    ],
)
def test_whoever_votes_has_the_rights_that_the_key_was_made_with(made: Any, role: str, faults: list[str]) -> None:
    persons = SealedPersons(exported_at=EXPORTED)
    add(persons, "key.created", **{**MADE_KEY, **made})
    add(persons, "approval.vote", by_key="k", approval_id="a")
    add(persons, "decision", verdict="require_approval", approval_id="a", role=role)
    assert [fault.code for fault in persons.finish()] == faults


POLICIES, OPERATOR = {"scopes": ["policy:write"], "roles": ["policy_admin"]}, {"scopes": ["runs:operate"]}


@pytest.mark.parametrize(
    ("phase", "made", "faults"),
    [
        ("policy.applied", {**POLICIES, "roles": []}, []),
        ("policy.applied", {"scopes": ["policy:read"]}, ["key_without_right"]),
        ("policy.applied", {**POLICIES, "caller": "noa"}, ["key_unmade"]),
        *((phase, POLICIES, []) for phase in ("tool.accepted", "tool.refused", "tool.withdrawn", "tool.reinstated")),
        ("tool.accepted", {**POLICIES, "roles": ["approver"]}, ["key_without_right"]),
        ("tool.withdrawn", {"roles": ["policy_admin"]}, ["key_without_right"]),
        ("switch.resumed", {**OPERATOR, "roles": ["operator"]}, []),
        ("switch.resumed", OPERATOR, ["key_without_right"]),
        ("switch.paused", {"roles": ["operator"]}, ["key_without_right"]),
        ("run.paused", {"scopes": ["runs:operate"]}, []),
        ("run.resumed", {"scopes": ["runs:write"]}, ["key_without_right"]),
        ("run.note_given", {"scopes": ["runs:read"]}, ["key_without_right"]),
        *((phase, {"scopes": ["runs:write"]}, []) for phase in ("run.cancel_requested", "run.forked")),
        *((phase, OPERATOR, ["key_without_right"]) for phase in ("run.cancel_requested", "run.forked")),
        ("network.published", {"scopes": ["networks:write"]}, []),
        ("network.published", {"scopes": ["networks:read"]}, ["key_without_right"]),
        *((phase, {**OPERATOR, "roles": ["operator"]}, []) for phase in OPERATED),
        *((phase, OPERATOR, ["key_without_right"]) for phase in OPERATED),
        *((phase, {"roles": ["operator"]}, ["key_without_right"]) for phase in OPERATED),
    ],
)
def test_whoever_changes_what_is_decided_has_the_rights_that_the_key_was_made_with(
    phase: str, made: Any, faults: list[str]
) -> None:
    persons = SealedPersons(exported_at=EXPORTED)
    add(persons, "key.created", **{**MADE_KEY, **made})
    add(persons, phase, by_key="k")
    assert [fault.code for fault in persons.finish()] == faults


@pytest.mark.parametrize(
    ("made", "given", "faults"),
    [
        ({"scopes": ["keys:admin", "runs:read"]}, {"scopes": ["runs:read"], "roles": []}, []),
        ({"scopes": ["keys:admin"]}, {"scopes": [], "roles": ["approver"]}, []),
        ({"scopes": ["runs:read"]}, {"scopes": ["runs:read"], "roles": []}, ["key_without_right"]),
        ({"scopes": ["keys:admin"]}, {"scopes": ["runs:read"], "roles": []}, ["key_without_right"]),
        ({"scopes": ["keys:admin"]}, {"scopes": [], "roles": ["policy_admin"]}, ["key_without_right"]),
        ({"scopes": None, "roles": None}, {"scopes": ["runs:read"], "roles": ["approver"]}, []),
    ],
)
def test_whoever_makes_a_key_gives_on_what_the_own_key_was_made_with(made: Any, given: Any, faults: list[str]) -> None:
    persons = SealedPersons(exported_at=EXPORTED)
    add(persons, "key.created", **{**MADE_KEY, **made})
    add(persons, "key.created", **given, key="l", caller="noa", by_key="k")
    assert [fault.code for fault in persons.finish()] == faults


@pytest.mark.parametrize(("phase", "scope"), [("key.revoked", "keys:admin"), ("settled", "gates:resolve")])
def test_whoever_revokes_a_key_or_settles_a_call_has_a_key_that_was_made_for_it(phase: str, scope: str) -> None:
    for scopes, faults in (([scope], []), (["runs:read"], ["key_without_right"])):
        persons = SealedPersons(exported_at=EXPORTED)
        add(persons, "key.created", **{**MADE_KEY, "scopes": scopes})
        add(persons, phase, key="other", by_key="k")
        assert [fault.code for fault in persons.finish()] == faults


@pytest.mark.parametrize("phase", ["settled", "outcome", "gate.resolved"])
@pytest.mark.parametrize(
    ("made", "faults"),
    [
        ({"roles": ["operator"]}, []),
        ({"roles": ["approver"]}, []),
        ({"roles": []}, ["key_without_right"]),
        ({"roles": ["policy_admin"]}, ["key_without_right"]),
        ({"roles": ["operator"], "scopes": ["runs:write"]}, ["key_without_right"]),
        ({"roles": [], "scopes": [*SCOPES]}, []),
        ({"roles": [], "scopes": [*SCOPES[:-1]]}, ["key_without_right"]),
        ({"roles": None, "scopes": None}, []),
    ],
)
def test_whoever_speaks_at_a_gate_has_a_key_that_was_made_with_a_role_for_it(
    phase: str, made: Any, faults: list[str]
) -> None:
    persons = SealedPersons(exported_at=EXPORTED)
    add(persons, "key.created", **{**MADE_KEY, **made})
    add(persons, phase, by_key="k")
    assert [fault.code for fault in persons.finish()] == faults


def test_whoever_has_every_scope_had_those_that_the_verifier_asks_for() -> None:
    assert frozenset(SCOPES) >= sealed_persons.EVERY_SCOPE


PAUSE = {"kind": "tool", "name": "x"}


@pytest.mark.parametrize(
    ("phase", "verdict", "faults"),
    [
        ("decision", "allow", 1),
        ("dispatch", "again", 1),
        ("claim", "granted", 1),
        ("claim", "refused", 0),
        ("approval.consumed", "allow", 0),
        ("outcome", "succeeded", 0),
    ],
)
def test_nothing_is_let_go_or_started_while_a_pause_holds_it(phase: str, verdict: str, faults: int) -> None:
    persons = SealedPersons(exported_at=EXPORTED)
    add(persons, phase, verdict=verdict)
    add(persons, "switch.paused", **PAUSE)
    add(persons, phase, verdict=verdict)
    add(persons, "switch.resumed", **PAUSE)
    add(persons, phase, verdict=verdict)
    assert [fault.code for fault in persons.finish()] == ["call_under_pause"] * faults


def test_a_pause_of_a_tool_counts_also_once_its_details_are_erased() -> None:
    persons = SealedPersons(exported_at=EXPORTED)
    add(persons, "switch.paused", tool="mail.*", erased=True)
    add(persons, "decision", verdict="allow", tool="mail.send")
    add(persons, "decision", verdict="allow", tool="files.read")
    add(persons, "switch.resumed", tool="mail.*", kind="tool", name="mail.*")
    add(persons, "decision", verdict="allow", tool="mail.send")
    assert [fault.code for fault in persons.finish()] == ["call_under_pause"]
    assert list(persons.notes()) == []


def test_erased_pauses_of_what_the_entries_do_not_name_are_counted() -> None:
    persons = SealedPersons(exported_at=EXPORTED)
    for phase in ("switch.paused", "switch.resumed", "switch.paused"):
        add(persons, phase, tool="", erased=True)
    add(persons, "decision", verdict="allow", tool="")
    assert list(persons.finish()) == []
    said = "2 pauses of networks, callers or projects are erased: it can't be told which calls they held"
    assert list(persons.notes()) == [said]


@pytest.mark.parametrize(("partial", "verdict", "notes"), [(True, "allow", 1), (True, "deny", 0), (False, "allow", 0)])
def test_pauses_from_before_a_bundle_are_said_not_to_be_told(partial: bool, verdict: str, notes: int) -> None:
    persons = SealedPersons(exported_at=EXPORTED, partial=partial)
    add(persons, "decision", verdict=verdict)
    said = "calls were not held against pauses that began before what this bundle shows"
    assert list(persons.notes()) == [said] * notes


def test_a_pause_with_a_name_that_no_platform_gives_holds_nothing() -> None:
    for letters, faults in ((512, 1), (513, 0)):
        persons = SealedPersons(exported_at=EXPORTED)
        add(persons, "switch.paused", kind="tool", name="*" * letters)
        add(persons, "decision", verdict="allow")
        assert len([*persons.finish()]) == faults


def test_every_pause_of_a_seal_counts_also_where_another_follows() -> None:
    told = []
    for number in range(1, 8):
        persons = SealedPersons(exported_at=EXPORTED)
        add.__dict__["count"] = 0
        for phase in ("x", "switch.paused", "x", "switch.resumed", "x", "switch.paused"):
            add(persons, phase, **PAUSE)
        add.__dict__["count"] = number - 1
        add(persons, "decision", verdict="allow")
        told.append(len([*persons.finish()]))
    assert told == [0, 0, 1, 0, 0, 0, 1]


@pytest.mark.parametrize(("scopes", "faults"), [(["audit:erase"], []), (["audit:read"], ["key_without_right"])])
def test_whoever_erases_has_a_key_that_was_made_for_it(scopes: list[str], faults: list[str]) -> None:
    persons = SealedPersons(exported_at=EXPORTED)
    add(persons, "key.created", **{**MADE_KEY, "scopes": scopes})
    add(persons, "audit.erase_requested", by_key="k")
    assert [fault.code for fault in persons.finish()] == faults


@pytest.mark.parametrize(("checked", "faults"), [("ab", []), (None, []), ("cd", ["key_unmade"])])
def test_a_key_has_the_secret_that_it_was_made_with(checked: str | None, faults: list[str]) -> None:
    persons = SealedPersons(exported_at=EXPORTED)
    add(persons, "key.created", **{**MADE_KEY, "commitment": "ab"})
    add(persons, "approval.vote", by_key="k", by_commitment=checked)
    assert [fault.code for fault in persons.finish()] == faults
