"""The verifier on hand-made bundles: what it says of each fault, and that nothing at all makes it fail or be fooled."""

import json
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tas.audit_log import ORIGIN, signer

from towpath_audit import bundle
from towpath_audit.entries import AuditLogEntry, ErasablePayload
from towpath_audit.merkle import MerkleFrontier
from towpath_audit.notes import Checkpoint
from towpath_audit.verifier import MAX_FAULTS, verify

KEY = signer()
RUN = "0192f3a0-0000-7000-8000-000000000001"
CALL = "0192f3a0-0000-7000-8000-0000000000aa"


def made(
    *changes: dict[str, Any], extra: tuple[bundle.Line, ...] = (), tail: tuple[bundle.Line, ...] = ()
) -> list[str]:
    """A bundle with one entry for each of *changes*, sealed two by two; before decisions the policy is applied."""
    edge, body = (
        MerkleFrontier(),
        [bundle.policy("p", 1, "sha256:00", ""), bundle.step(CALL, RUN, 3, kept=True), *extra],
    )
    decided = any(change.get("phase") == "decision" for change in changes)
    for number, change in enumerate(({**APPLIED}, *changes) if decided else changes, -decided):
        payload = ErasablePayload(salt=bytes(16), args_digest="", detail=json.dumps(change.pop("detail", {})))
        payload = change.pop("payload", payload)
        fields: dict[str, Any] = {
            "entry_id": number,
            "at": "2026-11-22T09:00:00.000000Z",
            "project": "p",
            "run_id": RUN,
            "phase": "x",
            "execution_id": CALL,
            "verdict": "",
            "tool": "t",
            "operation": "",
            "network": "",
            "agent_key": "",
            "caller": "",
            "actor": "",
            "rule": None,
            "policy_version": 1,
            "commitment": payload.commitment(),
        }
        erased = change.pop("erased", False)
        entry = AuditLogEntry(**{**fields, **change})
        body.append(bundle.leaf(edge.size, entry, None if erased else payload, entry.leaf_hash()))
        edge = edge.extended([entry.leaf_hash()])
        if number % 2 or number == len(changes) - 1:
            body.append(bundle.checkpoint(KEY.note(Checkpoint(ORIGIN, edge.size, edge.root).text())))
    head = bundle.header(
        *(),
        origin=ORIGIN,
        project="p",
        since=None,
        until=None,
        edge=MerkleFrontier(),
        size=edge.size,
        keys=[KEY.public],
        exported_at="", exported_by="ann",
    )  # fmt: skip
    lines = [bundle.serialize_line(line) for line in (head, *body, *tail)]
    return [*lines, bundle.page(0, "", lines, KEY, last=True)]


APPLIED = {"phase": "policy.applied", "verdict": "applied", "run_id": None, "execution_id": None}
ALLOW = {"phase": "decision", "verdict": "allow"}
ABOUT = {"approval_id": "a", "digest": "sha256:aa"}
ASKED = {"phase": "decision", "verdict": "require_approval", "detail": {**ABOUT, "quorum": 2}}
VOTED = {"phase": "approval.vote", "verdict": "approved", "actor": "mia", "detail": {**ABOUT, "votes": "1 of 2"}}
APPROVED = {"phase": "approval.approved", "verdict": "approved", "actor": "noa", "detail": {**ABOUT, "votes": "2 of 2"}}
CONSUMED = {"phase": "approval.consumed", "verdict": "allow", "detail": ABOUT}
HELD = {"phase": "held", "verdict": "waits"}
CLAIM = {"phase": "claim", "verdict": "granted"}
DONE = {"phase": "outcome", "verdict": "succeeded"}


def found(lines: list[str]) -> list[tuple[str, int | None]]:
    return [(fault.code, fault.entry_id) for fault in verify(lines).faults]


@pytest.mark.parametrize(
    ("entries", "faults"),
    [
        ([ALLOW, CLAIM, DONE], []),
        ([ASKED, VOTED, APPROVED, CONSUMED, DONE], []),
        ([{"phase": "decision", "verdict": "deny", "policy_version": 0}], []),
        ([{"phase": "outcome", "verdict": "void"}], []),
        ([{"phase": "evidence", "verdict": "succeeded"}], []),
        ([CLAIM, ALLOW], [("effect_without_decision", 0), ("call_state_changed", 1)]),
        ([{"phase": "decision", "verdict": "deny"}, DONE],
         [("effect_without_decision", 1), ("call_state_changed", 1)]),
        ([{"phase": "decision", "verdict": "require_approval"}, DONE],
         [("effect_without_decision", 1), ("call_state_changed", 1)]),
        ([{**ALLOW, "policy_version": 2}], [("decision_without_policy", 0)]),
        ([{**ALLOW, "project": "q"}], [("decision_without_policy", 0)]),
        ([{**ALLOW, "execution_id": RUN}], [("decision_without_run_event", 0)]),
        ([{"entry_id": 7}, {"entry_id": 7}], [("entry_twice", 7)]),
        ([{"erased": True}], [("payload_missing", 0)]),
        ([{"erased": True}, {"phase": "audit.erased", "detail": {"entries": [0]}}], [("payload_missing", 0)]),
        ([{"erased": True}, {"phase": "audit.erased", "detail": {"entries": [5]}}], [("payload_missing", 0)]),
        ([{"erased": True}, {"phase": "audit.erased", "detail": {"entries": [0]}, "erased": True}],
         [("payload_missing", 0), ("payload_missing", 1)]),
        ([{"erased": True}, {"phase": "audit.erased", "detail": ["entries"]}], [("payload_missing", 0)]),
    ],
)  # fmt: skip
def test_the_record_is_whole_or_its_gaps_are_reported(entries: list[dict[str, Any]], faults: list[Any]) -> None:
    assert found(made(*(dict(entry) for entry in entries))) == faults


OTHER = {"approval_id": "b", "digest": "sha256:bb"}
EDITED = {"phase": "approval.edited", "verdict": "edited", "actor": "mia", "detail": {**ABOUT, "votes": "1 of 2"}}
DENIED = {"phase": "approval.denied", "verdict": "denied", "actor": "noa", "detail": ABOUT}


OWN = [("approval_without_votes", 3)]
"""Found where one of the two votes is by whose run asks."""


def detailed(entry: dict[str, Any], **detail: Any) -> dict[str, Any]:
    return {**entry, "detail": {**entry["detail"], **detail}}


@pytest.mark.parametrize(
    ("entries", "faults"),
    [
        ([ASKED, CONSUMED], [("approval_without_votes", 1)]),
        ([ASKED, APPROVED, CONSUMED], [("approval_without_votes", 2)]),
        ([ASKED, VOTED, {**APPROVED, "actor": "mia"}, CONSUMED], [("approval_without_votes", 3)]),
        ([ASKED, VOTED, CONSUMED, APPROVED], [("approval_without_votes", 2)]),
        ([ASKED, VOTED, detailed(APPROVED, digest="sha256:bb"), CONSUMED], [("approval_without_votes", 3)]),
        ([ASKED, VOTED, detailed(APPROVED, approval_id="b"), CONSUMED], [("approval_without_votes", 3)]),
        ([ASKED, VOTED, APPROVED, detailed(CONSUMED, digest="sha256:bb")], [("approval_without_votes", 3)]),
        ([VOTED, APPROVED, CONSUMED], [("approval_without_votes", 2)]),
        ([ASKED, VOTED, APPROVED, DENIED, CONSUMED], [("approval_without_votes", 4)]),
        ([detailed(ASKED, **OTHER), ASKED, EDITED, APPROVED, CONSUMED], []),
        ([detailed(ASKED, **OTHER), detailed(DENIED, **OTHER), ASKED, VOTED, APPROVED, CONSUMED], []),
        ([ASKED, detailed(EDITED, votes="0 of 2"), APPROVED, CONSUMED], [("approval_without_votes", 3)]),
        ([ASKED, VOTED, APPROVED, CONSUMED, ALLOW], []),
        ([ASKED, VOTED, APPROVED, ALLOW], [("approval_without_votes", 3)]),
        ([ASKED, VOTED, APPROVED, CONSUMED, detailed(ASKED, **OTHER), ALLOW], [("approval_without_votes", 5)]),
        ([ASKED, VOTED, APPROVED, {}, {**ALLOW, "entry_id": 9}, CONSUMED], []),
        ([{**ASKED, "caller": "mia"}, VOTED, APPROVED, CONSUMED], [("approval_without_votes", 3)]),
        ([{**ASKED, "caller": "zed"}, VOTED, APPROVED, CONSUMED], []),
        ([{**ASKED, "caller": "mia"}, detailed(VOTED, single_person=True), APPROVED, CONSUMED], []),
        ([{**ASKED, "caller": "local"}, {**VOTED, "actor": "anonymous"}, APPROVED, CONSUMED], OWN),
        ([{**ASKED, "caller": "anonymous"}, {**VOTED, "actor": "local"}, APPROVED, CONSUMED], OWN),
    ],
)
def test_an_approval_lets_a_call_go_only_with_sealed_votes(entries: list[dict[str, Any]], faults: list[Any]) -> None:
    assert found(made(*(dict(entry) for entry in entries))) == faults


def test_of_a_vote_whose_details_are_erased_the_voter_counts() -> None:
    """That the erasure is asked for and confirmed is another check."""
    gone = ("payload_missing", "payload_missing", "payload_missing", "payload_missing")
    entries = [{**one, "erased": True} for one in (ASKED, VOTED, APPROVED, CONSUMED)]
    assert [code for code, _ in found(made(*entries))] == list(gone)
    entries = [{**one, "erased": True} for one in (ASKED, CONSUMED)]
    assert ("approval_without_votes", 1) in found(made(*entries))


def test_a_policy_version_is_one_only_by_an_entry_that_applied_it() -> None:
    second = (bundle.policy("p", 2, "sha256:00", ""),)
    under = {**ALLOW, "policy_version": 2}
    lines = made(dict(under), dict(under), {**APPLIED, "policy_version": 2}, dict(under), extra=second)
    (fault,) = verify(lines).faults
    assert (fault.code, fault.entry_id) == ("decision_without_policy", 0)
    assert fault.message.endswith("which no entry before it applied (2 decisions)")
    assert found(made({**APPLIED, "policy_version": 2}, dict(under), extra=second)) == []
    other = {**APPLIED, "policy_version": 2, "project": "q"}
    assert found(made(other, dict(under), extra=second)) == [("decision_without_policy", 1)]


def test_what_a_run_reports_of_its_own_call_counts_whatever_ended_the_call_before() -> None:
    late = {"phase": "outcome", "verdict": "failed", "detail": {"code": "not_started"}}
    report = {**DONE, "detail": {"was": "failed"}}
    stored = tuple(bundle.stored(leaf, {"status": "succeeded"}) for leaf in (2, 3))
    assert found(made(dict(ALLOW), dict(late), dict(report), extra=stored)) == []
    assert found(made(dict(ALLOW), dict(late), dict(DONE), extra=stored)) == [("stored_changed", 1)]
    changed = (stored[0], bundle.stored(3, {"status": "failed"}))
    assert found(made(dict(ALLOW), dict(late), dict(report), extra=changed)) == [("stored_changed", 2)]


def test_a_run_whose_log_is_gone_or_asks_for_nothing_is_a_fault() -> None:
    """Nothing deletes a run but an erasure, and what that leaves says so: `test_sealed_erasures` has those."""
    for kept in (False, True):
        lines = made(dict(ALLOW), extra=(bundle.step(CALL, RUN, None, kept=kept),))
        assert found(lines) == [("decision_without_run_event", 0)]


def test_a_call_of_the_ledger_needs_its_decision_here() -> None:
    effect = bundle.effect(run_id=RUN, execution_id=CALL, tool="t")
    assert found(made(dict(ALLOW), tail=(effect,))) == []
    assert found(made(dict(DONE, verdict="void"), tail=(effect,))) == [("effect_without_decision", None)]


def hiding(other: str, **header: Any) -> list[str]:
    """A bundle of project `p` that hides one entry of *other*."""
    lines = made({}, {"project": other})
    body = [json.loads(line) for line in lines[:-1]]
    place = next(at for at, line in enumerate(body) if line.get("leaf") == 1)
    body[place] = bundle.hidden(1, [AuditLogEntry.read(body[place]["entry"]).hidden()])
    again = [bundle.serialize_line(line) for line in ({**body[0], **header}, *body[1:])]
    return [*again, bundle.page(0, "", again, KEY, last=True)]


def test_none_of_the_projects_own_entries_is_hidden_from_it() -> None:
    assert verify(hiding("q")).faults == []
    (fault,) = verify(hiding("p")).faults
    assert (fault.code, fault.leaf) == ("own_entry_hidden", 1)
    assert [fault.code for fault in verify(hiding("q", project="*")).faults] == ["own_entry_hidden"]
    later = verify(hiding("p", until="2026-11-22T00:00:00.000000Z"))
    assert later.holds
    assert any(
        "1 are its own: whether they are after the time that was asked for isn't proved" in note for note in later.notes
    )


def test_a_hidden_entry_that_does_not_fit_its_leaf_is_a_fault_there() -> None:
    body = [json.loads(line) for line in made({}, {"project": "q"})[:-1]]
    place = next(at for at, line in enumerate(body) if line.get("leaf") == 1)
    body[place] = bundle.unfit(1, bytes.fromhex(body[place]["hash"]))
    lines = [bundle.serialize_line(line) for line in body]
    (fault,) = verify([*lines, bundle.page(0, "", lines, KEY, last=True)]).faults
    assert (fault.code, fault.leaf) == ("hidden_entry_changed", 1)


def test_what_an_earlier_release_exported_is_verified_as_it_was() -> None:
    body = [json.loads(line) for line in made({}, {"project": "q"})[:-1]]
    edge = MerkleFrontier()
    for place, line in enumerate(body):
        if line["kind"] == "leaf":
            hashed = AuditLogEntry.read(line["entry"]).leaf_hash(form=1)
            edge = edge.extended([hashed])
            body[place] = {**line, "hash": hashed.hex()}
            if line["leaf"] == 1:
                body[place] = {"kind": "hidden", "leaf": 1, "hashes": [hashed.hex()]}
    root = Checkpoint(ORIGIN, edge.size, edge.root)
    body[-1] = bundle.checkpoint(KEY.note(root.text()))
    lines = [bundle.serialize_line(line) for line in ({**body[0], "format": "towpath-audit-bundle/1"}, *body[1:])]
    report = verify([*lines, bundle.page(0, "", lines, KEY, last=True)])
    assert report.faults == []
    assert any("of its 1 hidden leaves nothing is said" in note for note in report.notes)


def test_places_are_given_in_words() -> None:
    lines = made(*({} for _ in range(6)))
    del lines[6]
    report = verify(lines)
    assert report.faults[0].place.startswith("leaf 2, line 7")
    assert {"code", "place", "message", "line", "leaf", "last_leaf", "entry_id"} == set(report.faults[0].as_json())
    assert verify([]).faults[0].place == "the bundle"


def test_an_endless_list_of_faults_is_cut() -> None:
    assert len(verify(["x"] * (MAX_FAULTS + 50)).faults) == MAX_FAULTS


GOOD = made(dict(ALLOW), dict(CLAIM), dict(DONE), {}, {})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_whatever_a_line_holds_it_ends_in_a_report_that_doubts(data: st.DataObject) -> None:
    lines = list(GOOD)
    at = data.draw(st.integers(0, len(lines) - 1))
    line = json.loads(lines[at])
    field = data.draw(st.sampled_from(sorted(line)))
    value = data.draw(JSON)
    strange = data.draw(st.sampled_from(["field", "line", "text", "bytes"]))
    if strange == "field":
        line[field] = value
    lines[at] = {
        "field": bundle.serialize_line(line),
        "line": bundle.serialize_line({"kind": field, "value": value}),
        "text": data.draw(st.text(max_size=20)),
        "bytes": data.draw(st.sampled_from(["[" * 3_000, "1" * 5_000, '{"kind":"leaf","leaf":1e999}', '"\\ud800"'])),
    }[strange]
    report = verify(lines, checkpoints=["x\n"])
    assert lines == GOOD or not report.holds
    json.dumps(report.as_json())


def with_header(**changes: Any) -> list[str]:
    """The good one with another header, signed as if it had been exported so."""
    lines = [bundle.serialize_line({**json.loads(GOOD[0]), **changes}), *GOOD[1:-1]]
    return [*lines, bundle.page(0, "", lines, KEY, last=True)]


DEEP: Any = json.loads("[" * 400 + "]" * 400)


@pytest.mark.parametrize(
    "changes",
    [
        *({"size": size} for size in (float("inf"), float("nan"), 5.0, "5", True, None, -1, 2**70)),
        *({"first": first} for first in (0.0, False, "0", float("inf"), -1, 2**63)),
        {"first": 2**63, "edge": ["00" * 32]},
        {"size": 2**63},
        *({"edge": edge} for edge in ("", {}, [1], None)),
        *({name: ["x"]} for name in ("origin", "project", "since", "until", "exported_at", "exported_by")),
        {"since": "yesterday"},
        {"keys": DEEP},
        {"keys": [KEY.public.text] * 65},
    ],
)
def test_a_header_of_another_kind_is_a_fault_whoever_signed_it(changes: dict[str, Any]) -> None:
    report = verify(with_header(**changes))
    assert not report.holds
    json.dumps(report.as_json(), allow_nan=False)


@pytest.mark.parametrize("value", [*("x", 3, [], {}, None), DEEP])
def test_a_beginning_of_another_kind_proves_nothing_and_stops_nothing(value: Any) -> None:
    asked = {"first": 1, "edge": ["00" * 32], "since": "2026-11-01T00:00:00.000000Z", "begins": value, "kept": value}
    report = verify(with_header(**asked))
    assert "head_missing" in [fault.code for fault in report.faults]
    json.dumps(report.as_json(), allow_nan=False)


@pytest.mark.parametrize("phase", ["policy.applied", "tool.registered", "key.created", "approval.vote"])
def test_nothing_is_withheld_of_what_is_compared_with_tables(phase: str) -> None:
    """As releases withheld it that showed nothing of a large payload."""
    assert found(withheld(phase, True)) == [("payload_withheld", 0)]
    assert found(withheld("evidence", True)) == []
    assert found(withheld("evidence", {"salt": "x"})) == [("entry_changed", None)]


def withheld(phase: str, said: Any) -> list[str]:
    lines = made({"phase": phase, "execution_id": None})
    body = [json.loads(line) for line in lines[:-1]]
    place = next(at for at, line in enumerate(body) if line["kind"] == "leaf")
    body[place] |= {"payload": None, "withheld": said}
    again = [bundle.serialize_line(line) for line in body]
    return [*again, bundle.page(0, "", again, KEY, last=True)]


def test_of_a_large_payload_the_short_members_are_shown() -> None:
    said = {"digest": "sha256:00", "note": "n" * 4_000, "added": ["rule"] * 100_000}
    payload = ErasablePayload(salt=bytes(16), args_digest="a", detail=json.dumps(said))
    shown = payload.shortened()
    assert (shown.args_digest, json.loads(shown.detail)) == ("a", {"digest": "sha256:00", "note": "n" * 4_000})
    much = {"digest": "sha256:00", "note": "n" * 60_000}
    shown = ErasablePayload(salt=bytes(16), args_digest="", detail=json.dumps(much)).shortened()
    assert json.loads(shown.detail) == {"digest": "sha256:00"}, "what is shown fits into a line with others"
    for detail in ("[" * 100_000, "[]", "x", '"' + "x" * 90_000 + '"'):
        assert ErasablePayload(salt=bytes(16), args_digest="", detail=detail).shortened().detail == "{}"


def test_it_is_shown_which_part_of_the_log_a_bundle_has() -> None:
    asked = {"since": "2026-11-01T00:00:00.000000Z", "until": "2026-11-22T00:00:00.000000Z", "exported_by": "eve"}
    report = verify(with_header(**asked))
    assert report.holds
    assert asked.items() <= report.figures.items()
    assert report.figures["project"] == "p"
    assert any("from 2026-11-01T" in note and "to 2026-11-22T" in note for note in report.notes)
    assert not any("shows project" in note for note in verify(GOOD).notes), "all of it is shown"


@pytest.mark.parametrize("detail", ["[" * 200_000, "1" * 5_000, '{"entries":[Infinity]}', '{"entries":[true]}'])
def test_a_detail_of_another_kind_erases_nothing_and_stops_nothing(detail: str) -> None:
    payload = ErasablePayload(salt=bytes(16), args_digest="", detail=detail)
    own = {"phase": "audit.erased", "payload": payload}
    assert found(made({}, {"erased": True}, own)) == [("payload_missing", 1)]


def test_lines_as_deep_as_can_be_read_stop_nothing() -> None:
    limit = sys.getrecursionlimit()
    for depth in range(limit - 120, limit):
        deep = "[" * depth + "]" * depth
        for kind in ("page", "effect", "step", "policy", "leaf"):
            names = {"page": "x", "leaf": "payload"}.get(kind, "project")
            text = f'{{"execution_id":{deep},"kind":"{kind}","{names}":{deep}}}'
            assert not verify([*GOOD[:-1], text, GOOD[-1]]).holds


def test_the_good_one_holds() -> None:
    assert verify(GOOD).faults == []
