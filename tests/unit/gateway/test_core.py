"""The pure part of the gateway: keys, bodies, headers, frames, and the answer of `POST /run`."""

import hashlib
import json
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath_contracts.decisions.request import Cost, Usage
from towpath_contracts.events.log import DecisionReceived, DecisionRequestFailed, LogEntry, NoteAdded
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.runs.views import RunView
from towpath_contracts.strict_json import MAX_DEPTH
from towpath_gateway.app.strict_requests import is_json, read_json
from towpath_gateway.core import sse
from towpath_gateway.core.api_keys import (
    SCOPES,
    StoredKey,
    bearer,
    format_key,
    key_refusal,
    key_warnings,
    principal_of,
    refuse_other_person,
    scopes_of,
    secret_digest,
    split_key,
)
from towpath_gateway.core.headers import (
    byte_range,
    idempotency_key,
    last_event_id,
    preferred_wait,
    wants_stream,
)
from towpath_gateway.core.run_answers import AnsweredRequests, requests_with_text, run_answer, run_debug
from towpath_readings.execution_log import project_execution_log

NOW = datetime(2026, 11, 1, tzinfo=UTC)
SECRET = "s" * 43

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


def stored(**more: object) -> StoredKey:
    values = {
        "prefix": "a" * 12,
        "secret_digest": secret_digest(SECRET),
        "caller": "alice",
        "project": "shop",
        "scopes": frozenset({"runs:read"}),
        "roles": frozenset({"approver"}),
        **more,
    }
    return StoredKey(**values)


def test_a_person_is_spoken_for_by_who_holds_as_much() -> None:
    maker = principal_of(stored())
    for caller, roles in (("mia", ()), ("mia", ("approver",)), ("alice", ("policy_admin",))):
        refuse_other_person(maker, caller, roles)
    with pytest.raises(ProblemError) as refused:
        refuse_other_person(maker, "mia", ("approver", "policy_admin"))
    assert refused.value.problem.code == "forbidden"
    assert "['policy_admin']" in refused.value.problem.detail


@pytest.mark.parametrize(
    ("scopes", "roles", "warnings"),
    [
        (("runs:write", "runs:read"), (), 0),
        (("keys:admin",), (), 0),
        (("runs:write", "keys:admin"), (), 1),
        (("runs:write", "gates:resolve"), ("approver",), 1),
        (scopes_of((), ("operator",)), ("operator",), 0),
        (("keys:admin", "gates:resolve"), ("approver",), 1),
        (SCOPES, ("policy_admin",), 3),
    ],
)
def test_a_key_of_several_purposes_is_warned_of(scopes: tuple[str, ...], roles: tuple[str, ...], warnings: int) -> None:
    assert len(key_warnings(scopes, roles)) == warnings


def test_a_key_is_read_back_from_its_text() -> None:
    assert split_key(format_key("a" * 12, SECRET)) == ("a" * 12, SECRET)
    assert secret_digest(SECRET) == hashlib.sha256(SECRET.encode()).digest()


@given(st.text(max_size=80))
def test_other_text_is_no_key(text: str) -> None:
    assert split_key(text) is None
    assert split_key(format_key("a" * 12, SECRET) + text) == (None if text else ("a" * 12, SECRET))


@pytest.mark.parametrize(
    ("key", "secret", "why"),
    [
        (stored(), SECRET, None),
        (stored(), "t" * 43, "the key is not known"),
        (None, SECRET, "the key is not known"),
        (stored(revoked_at=NOW), SECRET, "the key was revoked"),
        (stored(revoked_at=NOW), "t" * 43, "the key is not known"),
        (stored(expires_at=NOW), SECRET, "the key has expired"),
        (stored(expires_at=NOW + timedelta(seconds=1)), SECRET, None),
    ],
)
def test_a_key_is_valid_only_with_its_secret_and_in_its_time(
    key: StoredKey | None, secret: str, why: str | None
) -> None:
    assert key_refusal(key, secret, NOW) == why


def test_a_principal_is_what_the_table_says() -> None:
    principal = principal_of(stored())
    assert (principal.caller, principal.actor, principal.project) == ("alice", "alice", "shop")
    assert (principal.scopes, principal.roles) == ({"runs:read"}, {"approver"})


@pytest.mark.parametrize(
    ("header", "credential"),
    [(None, None), ("Bearer  abc ", "abc"), ("bearer abc", "abc"), ("Basic abc", ""), ("Bearer", ""), ("", "")],
)
def test_only_bearer_credentials_count(header: str | None, credential: str | None) -> None:
    assert bearer(header) == credential


@given(json_values)
def test_json_that_can_be_stored_is_read_as_it_is(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode("utf-8")
        storable = "\\u0000" not in json.dumps(value)
    except UnicodeEncodeError:
        storable = False
    if storable:
        assert read_json(text.encode()) == value
        assert read_json(json.dumps(value).encode()) == value


@given(st.binary(max_size=200))
def test_any_bytes_give_a_value_that_can_be_written_or_a_problem(body: bytes) -> None:
    try:
        value = read_json(body)
    except ProblemError as error:
        assert error.problem.code == "request_malformed"
    else:
        written = json.dumps(value, allow_nan=False, ensure_ascii=False).encode("utf-8")
        assert "\0" not in json.dumps(json.loads(written))


@pytest.mark.parametrize(
    "text",
    ['"\\ud800"', '{"\\udfff": 1}', '["\\u0000"]', '{"a\\u0000": 1}', "NaN", "[-Infinity]", "1" * 5_000, '"\\ud83d x"'],
    ids=str,
)
def test_what_others_can_not_store_is_refused(text: str) -> None:
    with pytest.raises(ProblemError, match="request_malformed"):
        read_json(text.encode())


@pytest.mark.parametrize("text", ['"\\ud83d\\ude00"', '"\\\\u0000"', '"\\\\ud800"', '"[[[[["', '"ü"'], ids=str)
def test_what_only_looks_like_it_is_not(text: str) -> None:
    assert read_json(text.encode()) == json.loads(text)


def test_nesting_is_bounded() -> None:
    assert read_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH) is not None
    assert read_json(b"[" + b"[]," * 500 + b"[]]") is not None  # wide is not deep
    for depth in (MAX_DEPTH + 1, 500, 100_000):
        with pytest.raises(ProblemError, match="nesting"):
            read_json(b"[" * depth + b"]" * depth)


@pytest.mark.parametrize(
    ("kind", "json_or_not"),
    [
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("application/merge-patch+json", True),
        ("text/plain", False),
        ("text/json", False),
        ("application/x-www-form-urlencoded", False),
        ("", False),
        (None, False),
    ],
)
def test_a_body_must_say_that_it_is_json(kind: str | None, json_or_not: bool) -> None:
    assert is_json(kind) is json_or_not


@pytest.mark.parametrize(
    ("prefer", "seconds"),
    [
        (None, 0),
        ("", 0),
        ("wait=5", 5),
        ("respond-async, wait=10", 10),
        ('wait="7"', 7),
        ("WAIT = 3; x=y", 3),
        ("wait=999", 30),
        ("wait=x", 0),
        ("await=5", 0),
        ("wait=5s", 0),
    ],
)
def test_a_preferred_wait_is_read_and_bounded(prefer: str | None, seconds: float) -> None:
    assert preferred_wait(prefer) == seconds


def test_a_stream_is_asked_for_by_accept() -> None:
    assert wants_stream("text/event-stream")
    assert wants_stream("application/json;q=0.1, Text/Event-Stream")
    assert not wants_stream("application/json")
    assert not wants_stream(None)


@given(st.text(max_size=20))
def test_an_event_id_is_a_number_or_refused(text: str) -> None:
    try:
        found = last_event_id(text, 7)
    except ProblemError:
        assert not (text.isascii() and text.isdigit() and len(text) <= 15)
    else:
        assert found == (int(text) if text else 7)


@pytest.mark.parametrize("header", ["", "   ", "x" * 256, "ü", "a\nb", "\x7f"])
def test_a_bad_idempotency_key_is_refused(header: str) -> None:
    with pytest.raises(ProblemError):
        idempotency_key(header, None)


def test_an_idempotency_key_comes_from_header_or_body() -> None:
    assert idempotency_key(None, None) is None
    assert idempotency_key(None, "body") == "body"
    assert idempotency_key(" head ", None) == "head"
    assert idempotency_key("x" * 255, None) == "x" * 255
    assert idempotency_key("same", "same") == "same"
    with pytest.raises(ProblemError, match="differ"):
        idempotency_key("one", "two")


def entry(seq: int, text: str = "x") -> LogEntry:
    return LogEntry(seq=seq, at=NOW, event=NoteAdded(step=1, text=text))


@given(st.text())
def test_a_frame_is_one_event_whatever_its_text(text: str) -> None:
    if any("\ud800" <= character <= "\udfff" for character in text):
        return
    frame = sse.entry_frame(entry(7, text), "7").decode()
    lines = frame.split("\n")
    assert lines[0] == "id: 7"
    assert lines[1] == "event: note_added"
    assert LogEntry.model_validate_json(lines[2].removeprefix("data: ")) == entry(7, text)
    assert lines[3:] == ["", ""]


def test_the_other_frames_have_no_id() -> None:
    run_id = uuid.uuid4()
    for frame in (
        sse.end_frame(run_id, "completed", 3),
        sse.problem_frame({"code": "x"}),
        sse.BYE,
        sse.PING,
        sse.RETRY,
    ):
        assert b"id:" not in frame.replace(b"run_id", b"")
        assert frame.endswith(b"\n\n")


def view(run_id: uuid.UUID, **more: object) -> RunView:
    values = {
        "run_id": run_id,
        "project": "default",
        "kind": "network",
        "network": "support",
        "version": 2,
        "snapshot_digest": "d",
        "status": "failed",
        "reason": "max_steps_exceeded",
        "caller": "anonymous",
        "seq": 3,
        "step": 4,
        "created_at": NOW,
        "started_at": NOW + timedelta(seconds=1),
        "ended_at": NOW + timedelta(seconds=3.25),
        "final": {"status": "error", "error": "max_steps_exceeded"},
        "last_output": {"n": 1},
        "usage": Usage(input_tokens=5, total_tokens=5),
        "cost": Cost(usd=0.5, price_known=True),
        **more,
    }
    return RunView(**values)


def test_a_failed_run_is_answered_with_its_transcript_and_last_output() -> None:
    run_id = uuid.uuid4()
    answer = run_answer(view(run_id), project_execution_log([entry(1, "forced respond")]), None)
    assert answer.final == {"status": "error", "error": "max_steps_exceeded"}
    assert (answer.status, answer.reason, answer.last_output) == ("failed", "max_steps_exceeded", {"n": 1})
    assert answer.execution_log[0]["text"] == "forced respond"
    assert answer.latency.total_run_ms == 2_250
    assert answer.trace_id == run_id.hex


def test_raw_texts_are_ordered_and_missing_ones_are_counted() -> None:
    asked = [uuid.uuid4() for _ in range(3)]
    place = {"step": 1, "epoch": 0, "agent_key": "main"}
    entries = [
        LogEntry(seq=1, at=NOW, event=DecisionReceived(request_id=asked[0], decision={}, **place)),
        LogEntry(
            seq=2, at=NOW, event=DecisionRequestFailed(request_id=asked[1], code="timeout", message="late", **place)
        ),
        LogEntry(seq=3, at=NOW, event=DecisionReceived(request_id=asked[2], decision={}, **place)),
    ]
    answered = AnsweredRequests()
    for one in entries:
        answered.take(one)
    wanted = frozenset(answered.found)
    assert wanted == {str(request_id) for request_id in asked}
    rows = [
        {"request_id": str(asked[2]), "step": 2, "prompt": "second", "raw_text": "{}", "unknown": 1},
        {"request_id": str(asked[0]), "step": 1, "attempt": 2, "prompt": "again"},
        {"request_id": str(asked[0]), "step": 1, "attempt": 1, "prompt": "first"},
    ]
    debug = run_debug(rows, wanted)
    assert [step.prompt for step in debug.steps] == ["first", "again", "second"]
    assert debug.missing == 1


def test_a_call_known_from_its_event_alone_has_no_text_yet() -> None:
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    rows = [{"request_id": first, "step": 1, "model": "scripted:"}, {"request_id": second, "step": 2, "prompt": ""}]
    assert requests_with_text(rows) == {second}
    assert run_debug(rows, frozenset({first, second})).missing == 1


@pytest.mark.parametrize(
    ("header", "part"),
    [
        (None, None),
        ("bytes=0-9", (0, 10)),
        ("Bytes=90-", (90, 100)),
        ("bytes=90-400", (90, 100)),
        ("bytes=-5", (95, 100)),
        ("bytes=-500", (0, 100)),
        ("bytes=-", None),
        ("bytes=9-3", None),
        ("bytes=0-1,5-6", None),
        ("lines=0-1", None),
    ],
)
def test_a_range_names_the_bytes_that_are_sent(header: str | None, part: tuple[int, int] | None) -> None:
    assert byte_range(header, 100) == part


@pytest.mark.parametrize("header", ["bytes=100-", "bytes=100-200", "bytes=-0"])
def test_a_range_beyond_the_end_is_refused(header: str) -> None:
    with pytest.raises(ValueError, match="100 bytes"):
        byte_range(header, 100)
