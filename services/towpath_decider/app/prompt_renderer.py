"""Renders the prompts of requests on the loop that all decisions share.

What a task attaches makes a prompt of a megabyte, which takes some 30 ms to be rendered; a prompt without is a
twentieth of that. Sixty of them at once, of one project, would hold up every decision of the others for two seconds. So
those with long documents are rendered one at a time, in turns of projects, with pauses as long as the renderings.
"""

import asyncio
import time
from collections.abc import Mapping

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.request import DecisionKind, PromptContext
from towpath_decider.app.compile_caches import PromptTemplateCache
from towpath_decider.core.attached_files import document_bytes, document_texts
from towpath_decider.core.prompt import Prompt, render
from towpath_fabric.turns.work_turns import WorkTurns

LONG_DOCUMENTS = 64 * 1024
"""Bytes of documents that are rendered at once, in two milliseconds; more take their turn."""

WAIT_S = 24 * 3_600.0
"""A turn is waited for as long as the decision has time."""

NOTHING_ATTACHED: Mapping[str, str] = {}


class PromptRenderer:
    """Renders prompts with the templates that were compiled lately. One per process, used on its loop alone."""

    def __init__(self) -> None:
        self._templates = PromptTemplateCache()
        self._long = WorkTurns(1, lambda _: 1, WAIT_S)

    async def render(
        self,
        project: str,
        context: PromptContext,
        answer_schema: JsonObject | None,
        kind: DecisionKind,
        *,
        native_tools: bool,
        attached: Mapping[str, str] = NOTHING_ATTACHED,
    ) -> Prompt:
        """Return the prompt; *attached* are the contents of attachments by digest, in base64.

        Raises PromptInvalidError, and ProblemError `overloaded`.
        """
        written = context.base_prompt
        base = self._templates.find(written) or await self._templates.compile(project, written)

        def rendered() -> Prompt:
            texts = document_texts(context.all_attachments, attached)
            return render(context, answer_schema, kind, base, native_tools=native_tools, texts=texts)

        if document_bytes(context.all_attachments) <= LONG_DOCUMENTS:
            return rendered()
        async with self._long.held(project):
            began = time.thread_time()
            try:
                return rendered()
            finally:
                await asyncio.sleep(time.thread_time() - began)
