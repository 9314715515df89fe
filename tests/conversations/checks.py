"""What has to hold of a long conversation, judged by what arrived at the model's server and by how its runs ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.conversations.model_server import REPLY_TURNS, turn_of
from tests.support.decider.gemini_server import RecordedRequest
from tests.support.decider.long_conversation import (
    ASKED_S,
    LEAST_SHARE,
    LIMITED,
    TURNS,
    begins_alike,
    prompt_of,
    turns_of,
)

LEAST_LINES = 2_900
"""Of the page's 5,000 lines: those that the preview and ten parts show."""

MESSAGE = "Read the manual, and tell how many of its lines you have seen."


@dataclass(frozen=True, kw_only=True)
class PlayedConversation:
    """One provider's conversation: its runs as the platform shows them, and what the server was asked at which time."""

    name: str
    run: Mapping[str, Any]
    reply: Mapping[str, Any]
    asked: Sequence[RecordedRequest]
    at: Sequence[float]
    postponed: int

    @property
    def line(self) -> str:
        """The figures in one line."""
        first, second = self.prompts(is_reply=False), self.prompts(is_reply=True)
        lines = (self.run.get("final") or {}).get("lines")
        return (
            f"{self.name:9} {self.run['status']} in {self.run['step']} turns, {len(first)} requests,"
            f" {sum(map(len, first))} bytes, {share(first):.2%} cached from turn 2 on, {lines} lines seen,"
            f" waited {self.waited_s():.1f} s; continued: {self.reply['status']} in {self.reply['step']} turns,"
            f" {sum(map(len, second))} bytes, {share(second):.2%} cached"
        )

    def requests(self, *, is_reply: bool) -> list[RecordedRequest]:
        return [one for one in self.asked if turn_of(one)[1] == is_reply]

    def prompts(self, *, is_reply: bool) -> list[bytes]:
        return [prompt_of(one) for one in self.requests(is_reply=is_reply)]

    def waited_s(self) -> float:
        """Return how long the turn that the API limited was not asked for again."""
        times = [at for at, one in zip(self.at, self.asked, strict=True) if turn_of(one) == (LIMITED, False)]
        return times[1] - times[0] if len(times) > 1 else 0.0


def share(prompts: Sequence[bytes]) -> float:
    """Return how much of all prompts but the first stands at the beginning of the one before."""
    sent = sum(map(len, prompts[1:]))
    return sum(begins_alike(*pair) for pair in pairwise(prompts)) / sent if sent else 0.0


def faults_of(one: PlayedConversation) -> list[str]:
    """Return what does not hold of one provider's conversation."""
    found = [*_ends(one), *_thread(one)]
    for is_reply, what in ((False, "conversation"), (True, "continued conversation")):
        prompts = one.prompts(is_reply=is_reply)
        for place, (first, second) in enumerate(pairwise(prompts), 1):
            if begins_alike(first, second) < len(first):
                found.append(f"prompt {place + 1} of the {what} does not begin with the whole of the one before")
        if is_reply is False and share(prompts) < LEAST_SHARE:
            found.append(f"only {share(prompts):.1%} of the prompts from turn 2 on is what the cache has read")
    return [f"{one.name}: {fault}" for fault in found]


def differing(played: Sequence[PlayedConversation]) -> list[str]:
    """Return a line where answers differ between the providers."""
    answers = {one.name: (one.run.get("final"), one.reply.get("final")) for one in played}
    return [f"answers differ: {answers}"] if any(one != answers[played[0].name] for one in answers.values()) else []


def _ends(one: PlayedConversation) -> list[str]:
    found = []
    for run, turns in ((one.run, TURNS), (one.reply, REPLY_TURNS)):
        if (run["status"], run["step"]) != ("completed", turns):
            found.append(f"run {run['run_id']} is {run['status']} ({run.get('reason')}) after {run['step']} turns")
    if (lines := (one.run.get("final") or {}).get("lines") or 0) < LEAST_LINES:
        found.append(f"the model was shown {lines} lines of the page")
    if one.postponed != 1 or one.waited_s() < ASKED_S:
        found.append(f"the limit was waited for {one.postponed} times, the first time {one.waited_s():.1f} s")
    return found


def _thread(one: PlayedConversation) -> list[str]:
    """Return whether what was said before stands before what is asked now, each turn as its author's."""
    requests = one.requests(is_reply=True)
    if not requests:
        return ["the run that continues it asked no model"]
    turns = turns_of(requests[0])
    roles = [role if role == "user" else "model" for role, _ in turns]
    if (
        roles != ["user", "model", "user"]
        or MESSAGE not in turns[0][1]
        or '"lines' not in turns[1][1].replace("\\", "")
    ):
        return [f"the run that continues it is asked in the turns {roles}"]
    return []
