"""What a person is shown of a call before a word, in each protocol: all of it, and nothing for another value."""

import json
import uuid
from collections.abc import Callable
from typing import Any

import mcp_types
import pytest
from tests.unit.gateway.protocols.test_a2a import GATE, NOW, RUN, SITE, gate, view

from towpath_contracts.runs.views import GateView
from towpath_gateway.app.protocols.mcp_server import gate_questions
from towpath_gateway.core import a2a_tasks, agent_messages, gate_texts
from towpath_gateway.core.ag_ui_events import interrupt_of
from towpath_readings.stream.live import waiting_gate

ARGS = {
    "to  whom": [
        "eve\u200b@shop",
        "two  spaces",
        "a\u202eb",
        "one\ntwo",
        "x\u00a0y",
        "\u3164",
        "\ue000",
        "\ud800",
        "é 日本",
    ]
}
ME = {"actor": "bob", "caller": "bob", "scopes": ["gates:resolve"], "roles": ["approver"], "gate_roles": []}


def by_mcp(found: GateView) -> str | None:
    asked = gate_questions.questions([found.model_dump(mode="json")], ME)
    requests = [one for one in asked.values() if isinstance(one, mcp_types.ElicitRequest)]
    return requests[0].params.message if requests else None


def by_nats(found: GateView) -> str | None:
    return agent_messages.gate_question(found, "")


def by_a2a(found: GateView) -> str | None:
    question = a2a_tasks.GateQuestion(gate=found, may_decide=True)
    text: str = a2a_tasks.task_of(view("waiting"), [question], SITE)["status"]["message"]["parts"][0]["text"]
    return text


def by_ag_ui(found: GateView) -> str | None:
    told = waiting_gate(found.gate_id, found.gate_type, found.detail, found.expires_at)
    message: str = interrupt_of(told, RUN, 1, SITE)["message"]
    return message


Shown = Callable[[GateView], str | None]
EVERYWHERE = pytest.mark.parametrize("shown", [by_mcp, by_nats, by_a2a, by_ag_ui])


def holding(args: Any, **more: Any) -> GateView:
    return gate(gate_id=GATE, detail={"tool": "orders.refund", "args": args, "digest": "sha256:aa", **more})


@EVERYWHERE
@pytest.mark.parametrize("more", [{}, {"summary": "Refund something"}])
def test_what_is_approved_is_what_was_shown_to_the_last_sign(shown: Shown, more: dict[str, str]) -> None:
    text = shown(holding(ARGS, **more))
    assert text is not None
    (line,) = (one for one in text.splitlines() if one.startswith("Arguments: "))
    written = line.removeprefix("Arguments: ")
    assert json.loads(written) == ARGS
    assert all(part in written for part in ("eve\\u200b@shop", "two \\u0020spaces", "a\\u202eb", "one\\ntwo", "é 日本"))
    assert text.replace("\n", "").isprintable() and "  " not in text and "\u3164" not in text


@EVERYWHERE
def test_arguments_that_are_too_long_to_be_shown_are_decided_elsewhere(shown: Shown) -> None:
    assert gate_texts.MAX_SHOWN_CHARS == 8_000
    whole = json.dumps("x" * 7_998)
    assert whole in (shown(holding("x" * 7_998)) or "") if shown is not by_ag_ui else True
    text = shown(holding({"text": "x" * 8_000}))
    assert text is None or ("xxx" not in text and f"read them at {SITE}/approvals/{GATE}" in text)


def test_a_gate_without_a_call_is_asked_about_by_its_type() -> None:
    found = gate(gate_id=uuid.uuid4(), gate_type="loop_detected", detail={}, expires_at=NOW)
    assert by_ag_ui(found) == "loop detected"
    assert (by_a2a(found) or "").startswith("loop detected. A person decides it here, or at ")


def test_others_words_stand_in_one_line_without_signs_that_draw() -> None:
    assert gate_texts.plain_line("a\x1b[2J\r\nb \u202e c\u2028d") == "a [2J b   c d"
    assert gate_texts.verdicts_of(None) == gate_texts.verdicts_of(()) == ("approved", "denied")
    assert gate_texts.verdicts_of(["happened", "retry"]) == ("happened", "retry")


@pytest.mark.parametrize("shown", [by_mcp, by_nats, by_a2a])
def test_which_value_to_look_at_is_said_in_the_same_words_everywhere(shown: Shown) -> None:
    origins = [{"path": "amount", "from": "unknown"}, {"path": "order", "from": "task"}]
    waits = holding({"amount": 1200, "order": "8812"}, origins=origins)
    told = "amount: not found in the task or in a trusted result, so check it"
    assert f"Doubt: {told}" in (shown(waits) or "").splitlines()
    assert "Doubt" not in (shown(holding({"amount": 1200}, origins=origins[1:])) or "")
    assert gate_questions.gate_summary(waits.model_dump(mode="json"), SITE)["doubts"] == [told]
