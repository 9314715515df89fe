"""A prompt as a run: it is submitted and waited for, its gates are asked about, its answer is sent.

Who stops listening stops nothing but the answer, and so does the end of the time that an answer may take.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID, uuid4

from towpath_contracts import rpc, subjects
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.runs.views import GatePage, GateView, ListGates, RunView
from towpath_contracts.tasks import SubmitTask
from towpath_fabric.clock import monotonic
from towpath_gateway.app.dependencies import GatewayDependencies
from towpath_gateway.app.gate_votes import GateWord, say_word
from towpath_gateway.core.agent_messages import (
    BEAT_S,
    answer_chunks,
    gate_question,
    prompt_of,
    question_chunk,
    status_chunk,
    verdict_of,
)
from towpath_gateway.core.api_keys import Principal
from towpath_readings.stream.live import answer_text

ANSWER_S = 3_500
"""How long an answer may take; the broker lets the gateway answer for an hour."""

LOOK_S = 2
"""How long one look waits for news."""

Send = Callable[[bytes], Awaitable[None]]


class PromptedRun:
    """One prompt of *principal*. Answers to its questions arrive in *questions*, by the subject that was told."""

    def __init__(
        self,
        dependencies: GatewayDependencies,
        principal: Principal,
        send: Send,
        questions: dict[str, "asyncio.Future[bytes]"],
    ) -> None:
        self._dependencies = dependencies
        self._platform = dependencies.platform
        self._principal = principal
        self._send = send
        self._questions = questions
        self._asked: dict[tuple[UUID, Any], str] = {}
        """Where the question of a gate, as it was shown, is answered; empty once the answer counts."""
        self._said_waiting = False

    async def answer(self, network: str, text: str) -> None:
        """Run *network* on *text* and send its answer; raises ProblemError for a run that has none."""
        task = SubmitTask(network=network, user_message=text)
        accepted = await self._platform.submit(self._principal.caller, task)
        try:
            view = await self._end_of(accepted.run_id)
        finally:
            for place in self._asked.values():
                self._questions.pop(place, None)
        if view.status != "completed":
            detail = f"{view.status}, {view.reason}" + (f": {view.message}" if view.message else "")
            raise ProblemError(problem("answer_missing", detail, run_id=str(view.run_id)))
        for chunk in answer_chunks(answer_text(view.final)):
            await self._send(chunk)

    async def _end_of(self, run_id: UUID) -> RunView:
        began = beat = monotonic()
        while (now := monotonic()) < began + ANSWER_S:
            if now >= beat + BEAT_S:
                beat = now
                await self._send(status_chunk("ack"))
            try:
                view = await self._platform.wait_for_end(self._principal.project, run_id, LOOK_S)
                if view is not None and view.status in FINAL_STATUSES:
                    return view
                if view is not None and view.waits:
                    await self._ask_at_gates(run_id)
            except ProblemError as error:
                if not error.problem.retryable:
                    raise
                await asyncio.sleep(LOOK_S / 4)
            if self._dependencies.stopping.is_set():
                break
        detail = f"the run {run_id} goes on; its end was not waited for any longer"
        raise ProblemError(problem("unavailable", detail, run_id=str(run_id)))

    async def _ask_at_gates(self, run_id: UUID) -> None:
        """Ask about each gate once, and again where an answer did not count; take the answers that are there."""
        if not self._said_waiting:
            self._said_waiting = True
            await self._send(status_chunk("waiting"))
        if not {"gates:read", "gates:resolve"} <= self._principal.scopes:
            return
        asked = ListGates(project=self._principal.project, root_run_id=run_id, paused=False)
        page: GatePage = await self._platform.request(rpc.LIST_GATES, asked)
        for gate in page.gates:
            place = self._asked.get(_key(gate))
            if place is None:
                await self._ask(gate, "")
            elif place and self._questions[place].done():
                refused = await self._refused(gate, self._questions.pop(place).result())
                self._asked[_key(gate)] = ""
                if refused:
                    await self._ask(gate, refused)

    async def _ask(self, gate: GateView, refused: str) -> None:
        question = uuid4().hex
        text = gate_question(gate, refused)
        place = "" if text is None else subjects.agents_answer(self._principal.caller, question)
        self._asked[_key(gate)] = place
        if text is not None:
            self._questions[place] = asyncio.get_running_loop().create_future()
            await self._send(question_chunk(question, place, text))

    async def _refused(self, gate: GateView, answer: bytes) -> str:
        """Say the word of an answer, by the rules of all words; return why it does not count, empty where it does."""
        try:
            verdict, reason = verdict_of(gate, prompt_of(answer))
            digest = gate.detail.get("digest")
            word = GateWord(gate_id=gate.gate_id, verdict=verdict, reason=reason, digest=digest)
            await say_word(self._dependencies, self._principal, word)
        except ProblemError as error:
            return f"{error.problem.code}: {error.problem.detail}"
        return ""


def _key(gate: GateView) -> tuple[UUID, Any]:
    return gate.gate_id, gate.detail.get("digest")
