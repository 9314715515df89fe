"""A2A's calls as tasks and words at gates, and runs as its tasks and streams, by A2A's own models."""

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from a2a.types import a2a_pb2 as a2a
from google.protobuf.json_format import ParseDict
from pydantic import ValidationError

from towpath_contracts.events.log import LogEntry
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.views import GateView, GateVote, RunView
from towpath_contracts.tasks import SubmitTask
from towpath_gateway.app.protocols.a2a import agent_cards, call_messages
from towpath_gateway.app.protocols.a2a.call_messages import A2aCall, A2aGateWord, SendMessageParams, read_params
from towpath_gateway.app.protocols.a2a.gate_lookup import check_word, may_decide, named_gate
from towpath_gateway.app.protocols.a2a.message_tasks import gate_words, message_task
from towpath_gateway.core import a2a_tasks
from towpath_gateway.core.a2a_errors import CallRefusedError, is_a2a, rpc_error, unread_call
from towpath_gateway.core.a2a_events import A2aEvents
from towpath_gateway.core.api_keys import SCOPES, Principal
from towpath_readings.stream.live import RunStreamDelta, RunStreamSuperseded

RUN = uuid.UUID("01a21a2f-6468-7b9e-9882-1095f775bccc")
GATE = uuid.UUID("01a21a2f-6468-7b9e-9882-1095f775bcc1")
REQUEST = uuid.UUID("01a21a2f-6468-7b9e-9882-1095f775bcc3")
NOW = datetime(2026, 11, 26, tzinfo=UTC)
SITE = "http://gateway"
HELLO = {"text": "hello"}


def params(*parts: dict[str, Any], metadata: Any = None, configuration: Any = None, **more: Any) -> SendMessageParams:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": list(parts) or [HELLO], **more}
    given = {"message": message, "metadata": metadata, "configuration": configuration}
    call = A2aCall.model_validate({"jsonrpc": "2.0", "method": "SendMessage", "params": given})
    found: SendMessageParams = read_params(call_messages.SEND, call)
    return found


def task(*parts: dict[str, Any], **more: Any) -> SubmitTask:
    return message_task(params(*parts, **more), "support", None)


def pointers(error: pytest.ExceptionInfo[ProblemError]) -> list[str]:
    return [one.pointer for one in error.value.problem.errors]


def view(status: str = "completed", **more: Any) -> RunView:
    known = {"run_id": RUN, "project": "shop", "network": "support", "version": 3, "caller": "alice", "seq": 4}
    known |= {"kind": "network", "snapshot_digest": "d"}
    return RunView.model_validate({**known, "status": status, "created_at": NOW, **more})


def gate(**more: Any) -> GateView:
    detail = {"tool": "orders.refund", "args": {"amount": 200}, "rule": "large", "digest": "sha256:aa"}
    known = {"gate_id": GATE, "run_id": RUN, "project": "shop", "gate_type": "approval", "status": "pending"}
    known |= {"reason": "large", "detail": detail, "opened_at": NOW, "expires_at": NOW, "approval_id": GATE}
    return GateView.model_validate({**known, **more})


def asked(*, may: bool) -> list[a2a_tasks.GateQuestion]:
    return [a2a_tasks.GateQuestion(gate=gate(), may_decide=may)]


def principal(**more: Any) -> Principal:
    known = {"caller": "bob", "actor": "bob", "project": "shop", "scopes": frozenset(SCOPES), "roles": {"approver"}}
    return Principal(**{**known, **more})


def entry(seq: int, event: dict[str, Any]) -> LogEntry:
    return LogEntry.model_validate({"seq": seq, "at": NOW, "event": event})


def finished(final: Any, status: str = "completed") -> LogEntry:
    event = {"type": "run_finished", "status": status, "reason": status, "final": final, "steps": 1, "fence": 0}
    return entry(9, event)


def piece(text: str) -> RunStreamDelta:
    return RunStreamDelta(step=1, part="text", text=text, request_id=REQUEST, attempt=1)


def events(status: str = "running") -> A2aEvents:
    return A2aEvents(7, RUN, a2a_tasks.task_of(view(status), (), SITE), after=4)


def results(found: list[dict[str, Any]]) -> list[a2a.StreamResponse]:
    """Return what their own model reads of a stream."""
    assert all(one["id"] == 7 for one in found)
    return [ParseDict(one["result"], a2a.StreamResponse()) for one in found]


def test_a_message_is_a_task_and_data_beside_its_texts_is_quoted() -> None:
    found = task(HELLO, {"data": {"page": 3.0, "of": [1.5]}}, {"text": "and more"})
    assert found.user_message == "hello\n\nand more"
    assert found.quoted_inputs == {"data_1": '{"of":[1.5],"page":3}'}
    assert (found.labels, found.network) == ({"a2a_message": "m"}, "support")
    assert task({"data": "words"}).user_message == "The caller sends data_1."
    assert task({"data": None}).quoted_inputs == {"data_1": "null"}


def test_the_same_message_has_the_same_key_and_another_network_another_one() -> None:
    other = message_task(params(), "sales", None)
    assert task().idempotency_key == task().idempotency_key != other.idempotency_key
    assert task(messageId="n").idempotency_key != task().idempotency_key
    assert message_task(params(contextId="c"), "support", RUN).continues == RUN


def test_files_come_with_their_bytes_and_nothing_is_fetched() -> None:
    found = task(HELLO, {"raw": "aGVsbG8=", "mediaType": "image/png", "filename": "a.png"})
    assert [(one.name, one.media_type) for one in found.attachments] == [("a.png", "image/png")]
    unnamed = task(HELLO, {"raw": "aGVsbG8=", "mediaType": "image/png"})
    assert unnamed.attachments[0].name == "file-2"
    for part in ({"url": "http://elsewhere/a.png"}, {"raw": "aGVsbG8="}):
        with pytest.raises(CallRefusedError) as refused:
            task(HELLO, part)
        assert refused.value.rpc_code == -32005 and "nothing is fetched" in rpc_error(refused.value.problem)["message"]


def test_fields_of_a_task_come_in_the_metadata_and_whole_numbers_are_whole() -> None:
    found = task(metadata={"towpath": {"max_steps": 5.0, "system_params": {"shop": 7.0}}})
    assert (found.max_steps, found.system_params) == (5, {"shop": 7})
    with pytest.raises(ProblemError) as refused:
        task(metadata={"towpath": {"max_stepz": 5}})
    assert pointers(refused) == ["/body/params/metadata/towpath/max_stepz"]
    with pytest.raises(ProblemError) as refused:
        task({"text": "x" * 100_001}, metadata={"towpath": {"agent_key": "a"}})
    assert pointers(refused) == ["/body/params/message/parts"]
    with pytest.raises(ProblemError) as refused:
        task({"text": ""})
    assert pointers(refused) == ["/body/params/message"]


def test_a_number_that_is_no_whole_one_or_too_large_stays_as_it_is() -> None:
    largest = 2.0**53
    found = call_messages.with_whole_numbers({"a": [1.0, 1.5, largest, largest * 2, True, None, "1.0"]})
    assert [type(one) for one in found["a"]] == [int, float, int, float, bool, type(None), str]


@pytest.mark.parametrize(
    ("more", "most"),
    [
        ({"messageId": "x" * 257}, {"messageId": "x" * 256}),
        ({"contextId": "x" * 257}, {"contextId": "x" * 256}),
        ({"taskId": "x" * 257}, {"taskId": "x" * 256}),
        ({"messageId": ""}, {"messageId": "x"}),
        ({"parts": [HELLO] * 65}, {"parts": [HELLO] * 64}),
        ({"parts": []}, {"parts": [HELLO]}),
        ({"parts": [{**HELLO, "filename": "x" * 257}]}, {"parts": [{**HELLO, "filename": "x" * 256}]}),
        ({"parts": [{**HELLO, "mediaType": "x" * 128}]}, {"parts": [{**HELLO, "mediaType": "x" * 127}]}),
        ({"parts": [{**HELLO, "data": 1}]}, {"parts": [{**HELLO, "data": None}]}),
        ({"parts": [{}]}, {"parts": [{"data": 0}]}),
        ({"role": "ROLE_AGENT"}, {"role": "ROLE_USER"}),
        ({"configuration": {"historyLength": -1}}, {"configuration": {"historyLength": 0}}),
        (
            {"configuration": {"acceptedOutputModes": ["text/plain"] * 65}},
            {"configuration": {"acceptedOutputModes": ["text/plain"] * 64}},
        ),
    ],
)
def test_messages_have_bounds(more: dict[str, Any], most: dict[str, Any]) -> None:
    assert params(**most, newer="passed over")
    with pytest.raises(ProblemError) as refused:
        params(**more)
    assert all(one.startswith("/body/params/") for one in pointers(refused))


@pytest.mark.parametrize(
    "wrong", [{"id": "x" * 257}, {"id": True}, {"id": 1.5}, {"method": "x" * 257}, {"jsonrpc": "1.0"}, {"params": []}]
)
def test_calls_have_bounds(wrong: dict[str, Any]) -> None:
    right = {"jsonrpc": "2.0", "id": "x" * 256, "method": "x" * 256}
    assert A2aCall.model_validate(right) and A2aCall.model_validate({**right, "id": 1}).id == 1
    with pytest.raises(ValidationError):
        A2aCall.model_validate({**right, **wrong})


@pytest.mark.parametrize("history", [{"historyLength": -1}, {"id": ""}, {"id": "x" * 257}, {"tenant": "no name"}])
def test_the_task_of_a_call_has_bounds(history: dict[str, Any]) -> None:
    right = {"id": "x" * 256, "historyLength": 0, "tenant": ""}
    call = {"jsonrpc": "2.0", "method": "GetTask"}
    assert read_params(call_messages.TASK, A2aCall.model_validate({**call, "params": right}))
    with pytest.raises(ProblemError):
        read_params(call_messages.TASK, A2aCall.model_validate({**call, "params": {**right, **history}}))


def test_a_word_is_data_that_says_a_verdict_or_other_arguments() -> None:
    (word,) = gate_words(params({"data": {"gate_id": str(GATE), "edit": {"amount": 99.0}}}).message)
    assert (word.edit, word.verdict, word.reason) == ({"amount": 99}, None, "")
    most = {"verdict": "denied", "gate_id": "x" * 64, "digest": "x" * 128, "reason": "x" * 2_000}
    assert gate_words(params({"data": most}).message)[0].reason == "x" * 2_000
    for wrong in (
        {},
        {"verdict": "maybe"},
        {"verdict": "denied", "edit": {}},
        {"verdict": "denied", "why": "no"},
        *({**most, name: f"{most[name]}x"} for name in ("gate_id", "digest", "reason")),
    ):
        with pytest.raises(ProblemError) as refused:
            gate_words(params(HELLO, {"data": wrong}).message)
        assert all(one.startswith("/body/params/message/parts/1/data") for one in pointers(refused)), wrong
    with pytest.raises(ProblemError, match="gate_id and verdict"):
        gate_words(params().message)
    with pytest.raises(ProblemError, match="nothing is read"):
        gate_words(params(HELLO, {"data": most}).message)


def test_a_word_names_its_gate_and_what_it_lets_happen() -> None:
    known = {GATE: gate()}
    with pytest.raises(ProblemError, match=f"gate_id: {GATE} .orders.refund."):
        named_gate(A2aGateWord(verdict="approved"), known)
    with pytest.raises(ProblemError, match="nothing waits"):
        named_gate(A2aGateWord(verdict="approved"), {})
    with pytest.raises(ProblemError, match="no id of a gate"):
        named_gate(A2aGateWord(verdict="approved", gate_id="g"), known)
    assert named_gate(A2aGateWord(verdict="approved", gate_id=str(GATE)), known) == GATE
    for word in (A2aGateWord(verdict="approved"), A2aGateWord(edit={"amount": 1}), A2aGateWord(verdict="stop")):
        with pytest.raises(ProblemError, match="digest: sha256:aa"):
            check_word(word, gate())
        check_word(word.model_copy(update={"digest": "sha256:aa"}), gate())
        check_word(word, gate(detail={}))
    check_word(A2aGateWord(verdict="denied", reason="No."), gate())
    with pytest.raises(ProblemError, match="teaches the model nothing"):
        check_word(A2aGateWord(verdict="denied", reason=" "), gate())


@pytest.mark.parametrize(
    ("status", "waits", "state"),
    [
        ("queued", [], "SUBMITTED"),
        ("running", [], "WORKING"),
        ("waiting", [], "WORKING"),
        ("waiting", asked(may=True), "INPUT_REQUIRED"),
        ("waiting", asked(may=False), "AUTH_REQUIRED"),
        ("waiting", asked(may=False) + asked(may=True), "INPUT_REQUIRED"),
        ("cancelling", [], "WORKING"),
        ("completed", [], "COMPLETED"),
        ("cancelled", [], "CANCELED"),
        *((status, [], "FAILED") for status in ("failed", "escalated", "abandoned", "timed_out")),
    ],
)
def test_a_run_is_a_task_in_a_state(status: str, waits: list[a2a_tasks.GateQuestion], state: str) -> None:
    found = ParseDict(a2a_tasks.task_of(view(status, thread_id=REQUEST), waits, SITE), a2a.Task())
    assert a2a.TaskState.Name(found.status.state) == f"TASK_STATE_{state}"
    assert (found.id, found.context_id) == (str(RUN), str(REQUEST))
    assert found.metadata["towpath"]["status"] == status
    assert found.status.timestamp.ToJsonString() == "2026-11-26T00:00:00Z"


def test_an_answer_is_a_text_or_data() -> None:
    text = a2a_tasks.task_of(view(final={"message": "Done."}, user_message="do it"), (), SITE)
    assert text["artifacts"][0]["parts"] == [{"text": "Done.", "mediaType": "text/plain"}]
    assert text["history"][0]["parts"][0]["text"] == "do it"
    assert "history" not in a2a_tasks.task_of(view(user_message="do it"), (), SITE, history=0)
    data = ParseDict(a2a_tasks.task_of(view(final={"message": "x", "n": 1}), (), SITE), a2a.Task())
    assert data.artifacts[0].parts[0].data.struct_value["n"] == 1
    failed = a2a_tasks.task_of(view("failed", reason="loop", message="It went round."), (), SITE)
    assert failed["status"]["message"]["parts"][0]["text"] == "It went round." and "artifacts" not in failed


def test_a_question_says_what_is_decided_and_whose_word_is_asked() -> None:
    mine = a2a_tasks.GateQuestion(gate=gate(gate_id=REQUEST), may_decide=True)
    parts = a2a_tasks.task_of(view("waiting"), [*asked(may=False), mine], SITE)["status"]["message"]["parts"]
    (data,) = [part["data"] for part in parts if "data" in part]
    assert (data["gate_id"], data["tool"], data["arguments"]) == (str(REQUEST), "orders.refund", {"amount": 200})
    assert (data["rule"], data["digest"], data["verdicts"]) == ("large", "sha256:aa", ["approved", "denied"])
    assert data["url"] == f"{SITE}/approvals/{REQUEST}" and "summary" not in data
    where = f"A person decides it here, or at {SITE}/approvals/{GATE}"
    arguments = 'Arguments: {"amount": 200}'
    assert parts[0]["text"] == f"May orders.refund be called?\n{arguments}\n{where.replace(str(GATE), str(REQUEST))}"
    told = {"tool": "orders.refund", "args": {"to": "a\u202e\nb"}, "summary": "Refund {to}"}
    shown = 'Arguments: {"to": "a\\u202e\\nb"}'
    for detail, words in ((told, f"Refund a⟨U+202E⟩ b\n{shown}\n"), ({}, "approval. ")):
        question = a2a_tasks.GateQuestion(gate=gate(detail=detail), may_decide=True)
        text, asks = a2a_tasks.task_of(view("waiting"), [question], SITE)["status"]["message"]["parts"]
        assert text["text"] == f"{words}{where}"
        assert asks["data"].get("summary", "") == (words.partition("\n")[0] if detail else "")


def test_who_may_decide_has_the_scope_and_the_role_and_has_not_spoken() -> None:
    assert may_decide(principal(), gate())
    assert not may_decide(principal(scopes=frozenset({"runs:read"})), gate())
    assert not may_decide(principal(roles={"viewer"}), gate())
    assert not may_decide(principal(), gate(detail={"role": "policy_admin"}))
    spoken = GateVote(actor="bob", verdict="approved", at=NOW)
    assert not may_decide(principal(), gate(votes=[spoken], quorum=2))
    assert may_decide(principal(roles=frozenset()), gate(approval_id=None)), "whoever has every scope is an operator"


def test_a_stream_appends_what_is_written_and_replaces_what_was_taken_back() -> None:
    stream = events()
    taken_back = RunStreamSuperseded(request_id=REQUEST, attempt=1, reason="refused")
    found = results(
        [
            *stream.begin(),
            *stream.piece(piece("No")),
            *stream.piece(piece("!")),
            *stream.piece(taken_back),
            *stream.piece(piece("Do")),
            *stream.of(finished({"message": "Done."})),
        ]
    )
    updates = [one.artifact_update for one in found if one.HasField("artifact_update")]
    told = [(one.artifact.parts[0].text, one.append, one.last_chunk) for one in updates]
    assert told == [("No", False, False), ("!", True, False), ("Do", False, False), ("ne.", True, True)]
    assert found[-1].status_update.status.state == a2a.TASK_STATE_COMPLETED and stream.has_ended
    assert stream.piece(piece("more")) == [] == stream.of(finished({"message": "Done."}))


@pytest.mark.parametrize("final", [{"message": "Other."}, {"n": 1}])
def test_an_answer_that_is_another_one_takes_the_place_of_what_was_sent(final: dict[str, Any]) -> None:
    stream = events()
    stream.piece(piece("Do"))
    update, end = results(stream.of(finished(final)))
    assert not update.artifact_update.append and update.artifact_update.last_chunk
    assert end.status_update.status.state == a2a.TASK_STATE_COMPLETED


def test_a_stream_ends_where_the_caller_may_decide_and_stays_open_where_others_do() -> None:
    stream = events()
    (told,) = results(stream.waiting(asked(may=False), SITE))
    assert told.status_update.status.state == a2a.TASK_STATE_AUTH_REQUIRED and not stream.has_ended
    assert stream.waiting(asked(may=False), SITE) == [], "it is told once"
    closed = {"type": "gate_closed", "gate_id": GATE, "gate_type": "approval", "verdict": "approved", "actor": "bob"}
    (works,) = results(stream.of(entry(5, closed)))
    assert works.status_update.status.state == a2a.TASK_STATE_WORKING
    (told,) = results(stream.waiting(asked(may=True), SITE))
    assert told.status_update.status.state == a2a.TASK_STATE_INPUT_REQUIRED and stream.has_ended


def test_a_stream_of_a_task_that_has_ended_tells_the_task_alone() -> None:
    stream = events("completed")
    assert stream.has_ended and len(stream.begin()) == 1 and stream.of(finished({"message": "Done."})) == []


def test_a_stream_of_a_run_that_fails_says_why_and_one_that_breaks_is_an_error() -> None:
    (end,) = results(events().of(finished({"message": "It went round."}, "failed")))
    assert end.status_update.status.message.parts[0].text == "It went round."
    (error,) = events().failed(problem("unavailable", "this gateway ends"))
    assert (error["id"], error["error"]["code"]) == (7, -32603)
    assert error["error"]["data"][0]["metadata"]["run_id"] == str(RUN)


@pytest.mark.parametrize(
    ("code", "rpc_code", "reason"),
    [
        ("run_not_found", -32001, "TASK_NOT_FOUND"),
        ("run_erased", -32001, "TASK_NOT_FOUND"),
        ("run_finished", -32002, "TASK_NOT_CANCELABLE"),
        ("operation_unsupported", -32004, "UNSUPPORTED_OPERATION"),
        ("attachment_refused", -32005, "CONTENT_TYPE_NOT_SUPPORTED"),
        ("request_malformed", -32700, "REQUEST_MALFORMED"),
        ("forbidden", -32602, "FORBIDDEN"),
        ("overloaded", -32603, "OVERLOADED"),
        ("key_share_full", -32603, "KEY_SHARE_FULL"),
    ],
)
def test_a_problem_is_an_error_with_the_problem_in_its_data(code: str, rpc_code: int, reason: str) -> None:
    found = rpc_error(problem(code, "what was tried"))
    info, whole = found["data"]
    assert (found["code"], info["reason"], info["metadata"]["code"]) == (rpc_code, reason, code)
    assert whole["value"]["remedy"] == info["metadata"]["remedy"] and whole["value"]["remedy"] in found["message"]


@pytest.mark.parametrize(
    ("code", "rpc_code"),
    [("request_malformed", -32700), ("request_invalid", -32600), ("unauthenticated", -32600), ("overloaded", -32603)],
)
def test_what_is_no_call_is_an_error_without_an_id(code: str, rpc_code: int) -> None:
    found = unread_call(problem(code, "what was tried"))
    assert (found["jsonrpc"], found["id"], found["error"]["code"]) == ("2.0", None, rpc_code)


def test_paths_of_calls_are_known_from_others() -> None:
    assert is_a2a("/a2a") and is_a2a("/v1/networks/team/support/a2a")
    assert not is_a2a("/v1/networks/support/a2a/.well-known/agent-card.json") and not is_a2a("/v1/runs")


def test_the_gateways_card_names_no_network_and_lists_at_most_so_many_with_a_key() -> None:
    card = ParseDict(agent_cards.gateway_card(SITE), a2a.AgentCard())
    assert card.supported_interfaces[0].url == f"{SITE}/a2a" and card.capabilities.extended_agent_card
    known = {"project": "shop", "version": 1, "digest": "d", "published_at": NOW, "published_by": "alice"}
    many = [agent_cards.NetworkVersion.model_validate({**known, "name": f"n{number}"}) for number in range(501)]
    extended = agent_cards.gateway_card(SITE, many)
    assert [len(extended["skills"]), extended["skills"][0]["id"]] == [500, "n0"]
