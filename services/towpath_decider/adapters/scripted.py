"""`scripted:`: plays decisions that somebody wrote. What tests, benches and the keyless demo use.

A script goes through the same reading, repair and checks as a model's words; it costs nothing and says so. An
assessment for which nothing is written gets the neutral answer of its kind, which says that nothing was judged.
"""

import asyncio
from collections.abc import Awaitable, Callable

from pydantic_core import to_json

from towpath_contracts.decisions.assessments import NEUTRAL
from towpath_contracts.decisions.request import Cost, DecisionRequest, Usage
from towpath_decider.adapters.provider import OnText, model_name
from towpath_decider.adapters.script_source import BlobScriptSource, FileScriptSource, ScriptLoadError
from towpath_decider.core.conversation import ModelCallFailure, ModelQuestion, ModelReply
from towpath_decider.core.script import Script, exhaustion_message

SWITCHED_OFF = "scripts are switched off here: set TOWPATH_ALLOW_SCRIPTS=1, or use a real model"
NONE_SENT = (
    "the model scripted:task plays the task's script, and this task has none: send one (towpath run --script FILE), "
    "or name a model that thinks for itself, such as gemini:gemini-2.5-flash: as model in the network's file, or for "
    "one run with --model"
)

TASK = "task"
"""`scripted:task` plays the script that came with the task; any other name is a file."""

FREE = Cost(usd=0.0, price_known=True, price_source="scripted")
ONE_CALL = Usage(model_calls=1)

PIECES, PIECE_MS = 40, 50
"""A slow line is written in so many pieces at most, each in so many milliseconds at least."""

Sleep = Callable[[float], Awaitable[None]]


class ScriptedProvider:
    """Plays the next unread entry of a request's script."""

    def __init__(
        self,
        *,
        blobs: BlobScriptSource,
        files: FileScriptSource,
        allowed: bool,
        sleep: Sleep = asyncio.sleep,
        none_sent: str = NONE_SENT,
    ) -> None:
        """*none_sent* is what is said of a task that came without the script that its model would play."""
        self._none_sent = none_sent
        self._blobs = blobs
        self._files = files
        self._allowed = allowed
        self._sleep = sleep

    async def complete(
        self, request: DecisionRequest, question: ModelQuestion, on_text: OnText | None = None
    ) -> ModelReply | ModelCallFailure:
        """Say the entry's next text; fails with `script_exhausted` when nothing is left for the agent.

        Raises PlatformUnavailableError where the task's script can't be fetched just now.
        """
        if not self._allowed:
            return ModelCallFailure(code="script_not_allowed", message=SWITCHED_OFF)
        try:
            script = await self._script(request)
        except ScriptLoadError as error:
            return error.failure
        cursors = request.script.cursors if request.script is not None else {}
        answer = script.next_answer(request.context.agent_key, cursors, request.kind, request.context)
        if answer is None and request.kind in NEUTRAL:
            return ModelReply(text=to_json(NEUTRAL[request.kind]).decode(), usage=ONE_CALL, cost=FREE)
        if answer is None:
            context = request.context
            near = script.near_agent(context.agent_key, cursors, [one.agent_key for one in context.routes])
            message = exhaustion_message(len(script), context.agent_key, context.feedback, near)
            return ModelCallFailure(code="script_exhausted", message=message)
        text = answer.text(question.repairs)
        if answer.delay_ms:
            await self._write(text, answer.delay_ms, on_text)
        return ModelReply(text=text, usage=ONE_CALL, cost=FREE, script=answer.use)

    async def _write(self, text: str, delay_ms: int, on_text: OnText | None) -> None:
        """Take *delay_ms*; a listener receives the text in even pieces meanwhile."""
        pieces = 1 if on_text is None else max(1, min(PIECES, len(text), delay_ms // PIECE_MS))
        size = -(-len(text) // pieces)
        for place in range(pieces):
            if on_text is not None:
                on_text(text[place * size : (place + 1) * size])
            await self._sleep(delay_ms / 1000 / pieces)

    async def _script(self, request: DecisionRequest) -> Script:
        name = model_name(request.model)
        if name != TASK:
            return await asyncio.to_thread(self._files.get, name)
        if request.script is None or request.script.digest is None:
            raise ScriptLoadError(ModelCallFailure(code="script_missing", message=self._none_sent))
        return await self._blobs.get(request.script.digest, request.run_id)

    async def missing_for(self, model: str) -> str:
        """Return why a task without a script can't be played by *model*; empty where it can."""
        if not self._allowed:
            return SWITCHED_OFF
        name = model_name(model)
        return self._none_sent if name == TASK else await asyncio.to_thread(self._files.missing, name)

    def offers_tools(self, _request: DecisionRequest) -> bool:
        """Return False: a script is written beforehand."""
        return False

    async def close(self) -> None:
        """Stop fetching scripts."""
        await self._blobs.close()
