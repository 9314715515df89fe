"""A local server that speaks one provider's API and answers each turn of the long conversation, whoever asks.

What the turn is, and which result is read in parts, it reads in the prompt: a request that comes again, for whatever
reason, has the same answer. Each conversation is limited once and cut once.
"""

import json
import re
import time
from dataclasses import replace
from typing import Any

from tests.support.decider.gemini_server import Answer, GeminiServer, RecordedRequest
from tests.support.decider.long_conversation import (
    CUT,
    LIMITED,
    LINE,
    TURNS,
    decision,
    limited,
    prompt_of,
    says,
    turns_of,
)
from tests.support.decider.model_servers import Dialect
from tests.support.engine.machine import respond, use

REPLY = "And who asked for it?"
"""The message of the run that continues the conversation."""

REPLY_TURNS = 3
_MODEL_ROLES = frozenset({"model", "assistant"})
_PAGE_ID = re.compile(r"execution_id ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


class ConversationServer(GeminiServer):
    """Answers as *dialect* does. `at` are the times of the requests in `seen`."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.at: list[float] = []
        self._troubles = {LIMITED, CUT}
        super().__init__()

    def next_answer(self) -> Answer:
        self.at.append(time.monotonic())
        asked = self.seen[-1]
        turn, is_reply = turn_of(asked)
        whole = self._said(asked, decision_in_reply(turn) if is_reply else _decision(asked, turn))
        if is_reply or turn not in self._troubles:
            return whole
        self._troubles.remove(turn)
        return limited(self.dialect) if turn == LIMITED else replace(whole, cut=True)

    def _said(self, asked: RecordedRequest, wanted: dict[str, Any]) -> Answer:
        answer = says(self.dialect, wanted)
        streams = asked.body.get("stream") or "streamGenerateContent" in asked.path
        return self.dialect.streamed(answer) if streams else answer


def turn_of(asked: RecordedRequest) -> tuple[int, bool]:
    """Return which turn of its run a request asks for, and whether that run continues another."""
    turns = turns_of(asked)
    is_reply = any(json.dumps(REPLY)[1:-1] in text for _, text in turns)
    answered = sum(role in _MODEL_ROLES for role, _ in turns)
    return answered + (not is_reply), is_reply


def decision_in_reply(turn: int) -> dict[str, Any]:
    """What the model wants in a turn of the run that continues the conversation."""
    if turn < REPLY_TURNS:
        return use("crm.lookup", f"turn {turn}", text=f"who asked, turn {turn}")
    return respond({"asked": "nobody"})


def _decision(asked: RecordedRequest, turn: int) -> dict[str, Any]:
    if turn >= TURNS:
        return respond({"lines": len(set(LINE.findall(prompt_of(asked).decode())))})
    found = _PAGE_ID.search(prompt_of(asked).decode())
    return decision(turn, found[1] if found else "")
