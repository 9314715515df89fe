"""The judge of long conversations finds what does not hold; `python -m tests.conversations` has them judged."""

from dataclasses import replace
from typing import Any

import pytest
from tests.conversations.checks import LEAST_LINES, MESSAGE, PlayedConversation, differing, faults_of
from tests.conversations.model_server import REPLY, REPLY_TURNS
from tests.support.decider.gemini_server import RecordedRequest
from tests.support.decider.long_conversation import ASKED_S, LIMITED, TURNS

LONG = "what was read before " * 200


def asked(*said: tuple[str, str]) -> RecordedRequest:
    turns = [{"role": role, "parts": [{"text": text}]} for role, text in said]
    return RecordedRequest(path="/", headers={}, body={"systemInstruction": "You help.", "contents": turns})


def conversation(final: Any = None) -> PlayedConversation:
    """Return one that is as it should be."""
    said, requests, at = [("user", MESSAGE + LONG)], [], []
    for turn in range(1, TURNS + 1):
        requests += [asked(*said)] * (2 if turn == LIMITED else 1)
        at += [float(turn), float(turn + ASKED_S)] if turn == LIMITED else [float(turn)]
        said += [("model", f"turn {turn}"), ("user", "noted")]
    said = [("user", MESSAGE), ("model", '{"lines": 1}'), ("user", REPLY + LONG)]
    for _ in range(REPLY_TURNS):
        requests.append(asked(*said))
        at.append(99.0)
        said += [("model", "more"), ("user", "noted")]
    run = {"run_id": "1", "status": "completed", "step": TURNS, "final": final or {"lines": LEAST_LINES}}
    reply = {**run, "step": REPLY_TURNS, "final": {"asked": "nobody"}}
    return PlayedConversation(name="gemini", run=run, reply=reply, asked=requests, at=at, postponed=1)


def test_a_conversation_that_is_as_it_should_be_has_no_fault() -> None:
    one = conversation()
    assert faults_of(one) == [] == differing([one, replace(one, name="openai")])
    assert "completed in 20 turns, 21 requests" in one.line


def test_a_prompt_that_begins_otherwise_and_one_that_no_cache_has_read_are_found() -> None:
    one = conversation()
    other = asked(("user", "Something else"), *[("model", "x"), ("user", LONG * 30)] * 4)
    changed = replace(one, asked=[*one.asked[:4], other, *one.asked[5:]])
    found = faults_of(changed)
    assert any("prompt 5 of the conversation does not begin" in fault for fault in found), found
    assert any("is what the cache has read" in fault for fault in found), found


def test_a_thread_that_is_told_otherwise_is_found() -> None:
    one = conversation()
    untold = [asked(("user", REPLY), *[("model", "x"), ("user", "y")] * turn) for turn in range(1, REPLY_TURNS + 1)]
    assert any("asked in the turns" in fault for fault in faults_of(replace(one, asked=[*one.asked[:21], *untold])))


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"run": {"run_id": "1", "status": "failed", "step": 3, "reason": "why"}}, "is failed (why) after 3 turns"),
        ({"postponed": 0}, "waited for 0 times"),
        ({"at": [0.0] * 24}, "the first time 0.0 s"),
    ],
)
def test_runs_that_do_not_end_as_they_should_are_found(changes: dict[str, Any], fault: str) -> None:
    assert any(fault in found for found in faults_of(replace(conversation(), **changes)))


def test_answers_that_differ_are_found() -> None:
    assert differing([conversation(), replace(conversation({"lines": 3_000}), name="openai")])
