"""Twenty turns with each provider's API: the same answer from all, and prompts that its cache has read before.

The run machine, the decider and the real SDKs are what they are; the other side of the wire is a local server for each
API, and the tools' results come from here. Each run has a result of 300 KB that is read in parts, a limit that asks for
26 s (the run's clock is the test's), and an answer whose stream is cut.
"""

import json
import re
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
from tests.support.decider.asked_models import Clock, ProviderApi, RecordingListener, serve
from tests.support.decider.gemini_server import Answer, RecordedRequest
from tests.support.decider.model_servers import DIALECTS, Claude, OpenAi
from tests.support.decider.recorded_errors import MINUTE, exhausted, quota
from tests.support.engine.machine import RUN, Machine, agent, respond, snapshot, tool, use

from towpath_contracts import facts
from towpath_contracts.decisions.earlier_turns import EarlierTurn
from towpath_contracts.decisions.request import DecisionRequest
from towpath_contracts.events import log as ev
from towpath_contracts.tools.calls import ToolRequest
from towpath_contracts.tools.previews import preview_of
from towpath_decider.app.decision_service import DecisionMaker
from towpath_engine.rules.output_tools import StoredOutput, part_of_output

TURNS = 20
LIMITED, CUT = 7, 11
"""The turns in which the API asks for time, and in which a stream is cut."""

PAGE = "".join(f"[line {number:05}] {'x' * 45}\n" for number in range(5_000))
LINE = re.compile(r"\[line (\d{5})\]")
ASKED_S = 26


def decision(turn: int, page_id: str) -> dict[str, Any]:
    """What the model wants in *turn*: a page, ten parts of it, and small things in between."""
    if turn == 1:
        return use("page.fetch", text="manual")
    if turn % 2 == 0:
        return use("output_read", execution_id=page_id, offset=60_000 + 12_000 * (turn // 2), limit=12_000)
    return use("note.add", f"turn {turn}", text=f"seen until turn {turn}")


@dataclass
class Conversation:
    """A run of one agent whose model is asked at *api*."""

    api: ProviderApi
    messages: tuple[EarlierTurn, ...] = ()
    clock: Clock = field(default_factory=Clock)
    asked: list[RecordedRequest] = field(default_factory=list)
    page_id: str = ""

    def __post_init__(self) -> None:
        tools = (tool("page.fetch"), tool("note.add"), tool("crm.lookup"))
        model = f"{self.api.name}:{self.api.dialect.model}"
        triage = agent("triage", model=model, equipped_tools=[one.name for one in tools], allow_respond=True)
        desk = snapshot(triage, tools=tools)
        options = {"epoch_turns": True, "max_steps": TURNS, "context_limit": 200_000, "messages": self.messages}
        self.machine = Machine(desk, **options)
        self.service = DecisionMaker(
            {self.api.name: self.api.provider}, sleep=self.clock.sleep, open_listener=RecordingListener().begin
        )

    def says(self, wanted: dict[str, Any]) -> Answer:
        """Return an answer as this API gives it: calls natively where tools are offered so."""
        dialect = self.api.dialect
        if not isinstance(dialect, Claude | OpenAi) or wanted["action"] != "USE_TOOL":
            return dialect.says(json.dumps(wanted))
        details = wanted["action_details"]
        call = details["tool_name"].replace(".", "_"), json.dumps(details["tool_params"])
        return dialect.calls_tools(call, text=wanted["action_reasoning"])

    def limited(self) -> Answer:
        body = exhausted(*quota(MINUTE, retry=f"{ASKED_S}s")) if self.api.name == "gemini" else {"error": {}}
        return Answer(status=429, body=body, headers={"retry-after": str(ASKED_S)})

    async def ask(self, request: DecisionRequest, *answers: Answer) -> None:
        self.api.server.play(*answers)
        answered = await self.service.answer(request)
        self.asked += self.api.seen
        self.machine.feed(answered.fact)

    def answers(self, turn: int) -> list[Answer]:
        wanted = decision(turn, self.page_id) if turn < TURNS else respond({"lines": self.lines_seen()})
        whole = self.api.dialect.streamed(self.says(wanted))
        if turn == CUT:
            return [replace(whole, cut=True), whole]
        return [self.limited(), whole] if turn == LIMITED else [whole]

    def lines_seen(self) -> int:
        """What the model answers in the end: how many lines of the page it was shown in its last prompt."""
        return len({number for output in self.machine.context.outputs for number in LINE.findall(output.text)})

    def serve(self, wanted: ToolRequest) -> None:
        """Do what a worker, or the platform's own tool, does."""
        about: dict[str, Any] = {"run_id": RUN, "execution_id": wanted.execution_id}
        if wanted.tool == "output_read":
            stored = StoredOutput(tool="page.fetch", step=1, status="succeeded", data=PAGE.encode())
            part = part_of_output(wanted.tool, wanted.args, stored, self.machine.state.created.context_limit)
            self.machine.feed(facts.InternalToolPermittedFact(**about, output=part))
        elif wanted.tool == "page.fetch":
            self.page_id = str(wanted.execution_id)
            more = {"blob": True, "result_digest": "sha256:77", "result_bytes": len(PAGE), "preview": preview_of(PAGE)}
            self.machine.finish(result=None, **more)
        else:
            self.machine.finish(result={"noted": wanted.args["text"]})

    async def run(self) -> None:
        for turn in range(1, TURNS + 1):
            (request,) = self.machine.requests
            assert isinstance(request, DecisionRequest) and request.step == turn
            answers = self.answers(turn)
            await self.ask(request, *answers)
            if turn == LIMITED:
                until = self.machine.events(ev.DecisionPostponed)[-1].until
                assert (until - self.machine.now).total_seconds() == ASKED_S
                self.machine.timer(after=ASKED_S)
                (again,) = self.machine.requests
                assert isinstance(again, DecisionRequest) and again.attempt == 2
                await self.ask(again, *answers[1:])
            for wanted in self.machine.requests:
                if isinstance(wanted, ToolRequest):
                    self.serve(wanted)

    async def reply(self) -> None:
        """Answer at once, as the next run of a thread may."""
        (request,) = self.machine.requests
        assert isinstance(request, DecisionRequest)
        await self.ask(request, self.api.dialect.streamed(self.says(respond({"lines": 0}))))


def turns_of(seen: RecordedRequest) -> list[tuple[str, str]]:
    """Return who says what in a request, leaving out what the platform says before."""
    turns = seen.body.get("contents") or seen.body["messages"]
    return [(turn["role"], json.dumps(turn)) for turn in turns if turn["role"] != "system"]


def prompt_of(seen: RecordedRequest) -> bytes:
    """Return what a request says to its model, as it was written on the wire; marks for the cache say nothing."""
    body = seen.body
    said = [body.get("systemInstruction") or body.get("system"), *(body.get("contents") or body["messages"])]
    return json.dumps(said).encode().replace(b', "cache_control": {"type": "ephemeral"}', b"").removesuffix(b"]")


def begins_alike(first: bytes, second: bytes) -> int:
    """Return how many bytes of the beginning are the same."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[:middle] == second[:middle] else (low, middle - 1)
    return low


@pytest.mark.parametrize("name", ["gemini", "openai", "anthropic"])
async def test_b18_twenty_turns_give_the_same_answer_and_begin_as_they_did(name: str) -> None:
    """Row B18: a conversation that is only added to."""
    switches = None if name == "gemini" else {name: True}
    async with serve(DIALECTS[name], tool_switches=switches) as api:
        conversation = Conversation(api)
        await conversation.run()
        machine = conversation.machine
    assert (machine.finished.status, machine.finished.steps) == ("completed", TURNS)
    assert machine.finished.final == {"lines": 2_938}, "all APIs were shown the same"
    assert len(machine.events(ev.DecisionPostponed)) == 1 and len(conversation.asked) == TURNS + 2
    assert conversation.clock.waited == [1.0], "for the stream that was cut"
    prompts = [prompt_of(one) for one in conversation.asked]
    assert len(set(LINE.findall(prompts[-1].decode()))) == 2_938, "and they were, on the wire"
    kept = [begins_alike(*pair) for pair in pairwise(prompts)]
    assert kept == [len(one) for one in prompts[:-1]], "each begins with the whole of the one before"
    share = sum(kept) / sum(map(len, prompts[1:]))
    assert share >= 0.9, f"{name}: {share:.3f}"


@pytest.mark.parametrize("name", ["gemini", "openai", "anthropic"])
async def test_b18_a_run_that_continues_another_is_asked_in_the_roles_of_both(name: str) -> None:
    """Row B18: what was said before in a thread stands before what is asked now, each turn as its author's."""
    before = (EarlierTurn(role="user", content="Read the manual."), EarlierTurn(role="assistant", content="Read it."))
    async with serve(DIALECTS[name]) as api:
        thread = Conversation(api, messages=before)
        await thread.reply()
    assert thread.machine.finished.status == "completed"
    (asked,) = thread.asked
    (first, told), (second, answered), (third, now) = turns_of(asked)
    assert (first, second, third) == ("user", "model" if name == "gemini" else "assistant", "user")
    assert "Read the manual." in told and "Read it." in answered and "# Context" in now
