"""Twenty turns with each provider's API: the same answer from all, and prompts that its cache has read before.

The run machine, the decider and the real SDKs are what they are; the other side of the wire is a local server for each
API, and the tools' results come from here. Each run has a result of 300 KB that is read in parts, a limit that asks for
26 s (the run's clock is the test's), and an answer whose stream is cut. `python -m tests.conversations` has the same
conversations on a platform.
"""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
from tests.support.decider.asked_models import Clock, ProviderApi, RecordingListener, serve
from tests.support.decider.gemini_server import Answer, RecordedRequest
from tests.support.decider.long_conversation import (
    ASKED_S,
    CUT,
    LEAST_SHARE,
    LIMITED,
    LINE,
    NATIVE,
    PROVIDERS,
    TURNS,
    begins_alike,
    decision,
    limited,
    prompt_of,
    says,
    turns_of,
)
from tests.support.decider.model_servers import DIALECTS
from tests.support.engine.machine import RUN, Machine, agent, respond, snapshot, tool

from towpath_contracts import facts
from towpath_contracts.decisions.earlier_turns import EarlierTurn
from towpath_contracts.decisions.request import DecisionRequest
from towpath_contracts.events import log as ev
from towpath_contracts.tools.calls import ToolRequest
from towpath_contracts.tools.previews import preview_of
from towpath_decider.app.decision_service import DecisionMaker
from towpath_engine.rules.output_tools import StoredOutput, part_of_output

PAGE = "".join(f"[line {number:05}] {'x' * 45}\n" for number in range(5_000))


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

    async def ask(self, request: DecisionRequest, *answers: Answer) -> None:
        self.api.server.play(*answers)
        answered = await self.service.answer(request)
        self.asked += self.api.seen
        self.machine.feed(answered.fact)

    def answers(self, turn: int) -> list[Answer]:
        wanted = decision(turn, self.page_id) if turn < TURNS else respond({"lines": self.lines_seen()})
        whole = self.api.dialect.streamed(says(self.api.dialect, wanted))
        if turn == CUT:
            return [replace(whole, cut=True), whole]
        return [limited(self.api.dialect), whole] if turn == LIMITED else [whole]

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
        await self.ask(request, self.api.dialect.streamed(says(self.api.dialect, respond({"lines": 0}))))


@pytest.mark.parametrize("name", PROVIDERS)
async def test_b18_twenty_turns_give_the_same_answer_and_begin_as_they_did(name: str) -> None:
    """Row B18: a conversation that is only added to."""
    switches = {one: on for one, on in NATIVE.items() if one == name} or None
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
    assert share >= LEAST_SHARE, f"{name}: {share:.3f}"


@pytest.mark.parametrize("name", PROVIDERS)
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
