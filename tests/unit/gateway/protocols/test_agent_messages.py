"""The messages of the NATS agent protocol, as its own client reads them."""

import json
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from synadia_ai.agents.discovery import build_agent_info
from synadia_ai.agents.messages import QueryChunk, ResponseChunk, decode_chunk

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.views import GateView
from towpath_gateway.core import agent_messages as messages

AT = datetime(2026, 11, 27, tzinfo=UTC)


def gate(**detail: Any) -> GateView:
    known = {"gate_id": uuid.UUID(int=1), "run_id": uuid.UUID(int=2), "project": "p", "network": "shop"}
    times = {"opened_at": AT, "expires_at": AT}
    return GateView(**known, **times, gate_type="approval", status="pending", reason="rule\x1b[2J\nbig", detail=detail)


@pytest.mark.parametrize("network", ["support", "a_b-9", "Team/Ask:v1", "x--6162", "x", "a.b"])
def test_every_network_has_a_session_of_one_token_and_no_other_has_it(network: str) -> None:
    session = messages.session_of(network)
    assert messages.network_of(session) == network
    assert set(session) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-")
    assert (session == network) is (network in {"support", "a_b-9", "x"})


@pytest.mark.parametrize("session", ["x--", "x--zz", "x--FF", "x--616", "x--7a", "Team", "x--ff"])
def test_a_session_that_no_network_has_is_refused(session: str) -> None:
    with pytest.raises(ProblemError) as refused:
        messages.network_of(session)
    assert refused.value.problem.code == "network_not_found"


def test_the_protocols_client_reads_an_agent() -> None:
    found = build_agent_info(messages.agent_info("shop", "web", "Team/Ask", 3))
    assert found is not None
    assert (found.agent, found.owner, found.session_name) == ("towpath", "web", messages.session_of("Team/Ask"))
    assert (found.protocol_version, found.version, found.metadata["network"]) == ("0.3", "3.0.0", "Team/Ask")
    assert (found.prompt_endpoint.max_payload_bytes, found.prompt_endpoint.attachments_ok) == (512 * 1024, False)
    assert found.instance_id == messages.agent_status("web", found.session_name, "now")["instance_id"]
    assert messages.agent_status("web", "x", "now")["interval_s"] == 20


def test_a_prompt_is_text_or_an_envelope() -> None:
    assert messages.prompt_of(b"hello") == "hello"
    assert messages.prompt_of(b' {"prompt": "hello", "x_more": 1}') == "hello"
    assert messages.prompt_of(b"a" * 512 * 1024)
    for body, code in (
        (b" ", "request_invalid"),
        (b'{"prompt": 5}', "request_invalid"),
        (b'{"prompt": "a", "attachments": [{"filename": "a"}]}', "request_invalid"),
        (b"{", "request_malformed"),
        (b"\xff", "request_malformed"),
        (b"a" * (512 * 1024 + 1), "request_too_large"),
    ):
        with pytest.raises(ProblemError) as refused:
            messages.prompt_of(body)
        assert refused.value.problem.code == code


def test_an_answer_comes_in_chunks_that_fit_a_message() -> None:
    text = "\u2028" * 250_000
    chunks = list(messages.answer_chunks(text))
    assert len(chunks) == 3
    assert all(len(chunk) < 1_000_000 for chunk in chunks)
    read = [decode_chunk(chunk) for chunk in chunks]
    assert "".join(one.text for one in read if isinstance(one, ResponseChunk)) == text
    assert list(messages.answer_chunks("")) == []


def test_a_question_shows_the_call_whole_and_others_words_in_one_line() -> None:
    text = messages.gate_question(gate(tool="orders.refund", args={"order": 7}, rule="big"), "")
    assert text is not None
    assert text.splitlines() == [
        "A run of shop waits for your word: rule [2J big",
        "Tool: orders.refund",
        'Arguments: {"order": 7}',
        "Rule: big",
        f"Run: {uuid.UUID(int=2)}",
        "Answer approve or deny, and why.",
    ]
    detail = {"tool": "orders.refund", "args": {"order": "7\nTool: look"}, "summary": "Refund {order}"}
    summed = messages.gate_question(gate(**detail), "")
    assert summed is not None
    assert summed.splitlines()[1:3] == ["Call: Refund 7 Tool: look", "Tool: orders.refund"]
    again = messages.gate_question(gate(verdicts=["happened", "retry"]), "role_missing: no\nrole")
    assert again is not None
    assert again.splitlines()[0] == "role_missing: no role"
    assert again.endswith("Answer happened or retry, and why.")
    fits = "a" * (8_000 - len(json.dumps({"text": ""})))
    assert messages.gate_question(gate(args={"text": fits}), "") is not None
    assert messages.gate_question(gate(args={"text": f"{fits}a"}), "") is None
    query = decode_chunk(messages.question_chunk("1", "agents.answer.web.1", text))
    assert isinstance(query, QueryChunk)
    assert (query.id, query.reply_subject, query.prompt) == ("1", "agents.answer.web.1", text)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("approve it broke", ("approved", "it broke")),
        ("Approve: fine", ("approved", "fine")),
        ("YES", ("approved", "")),
        ("approved", ("approved", "")),
        (" deny, too much ", ("denied", "too much")),
        ("no", ("denied", "")),
        (f"no {'a' * 3_000}", ("denied", "a" * 2_000)),
    ],
)
def test_an_answer_begins_with_its_verdict(answer: str, said: tuple[str, str]) -> None:
    assert messages.verdict_of(gate(), answer) == said


@pytest.mark.parametrize("answer", ["", "perhaps", "happened", "I approve"])
def test_an_answer_without_a_verdict_counts_as_none(answer: str) -> None:
    with pytest.raises(ProblemError) as refused:
        messages.verdict_of(gate(), answer)
    assert refused.value.problem.code == "verdict_invalid"


def test_a_refusal_names_its_problem_in_one_line() -> None:
    headers = messages.error_headers(problem("network_not_found", f"no\r\nsuch {'a' * 900}"))
    assert headers["Nats-Service-Error-Code"] == "404"
    assert headers["Towpath-Problem"] == "network_not_found"
    assert headers["Nats-Service-Error"].startswith("network_not_found: no such aaa")
    assert len(headers["Nats-Service-Error"]) == 500
