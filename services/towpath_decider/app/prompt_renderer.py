"""Renders the prompts of requests on the loop that all decisions share.

What a task attaches makes a prompt of a megabyte, which takes some 30 ms to be rendered; a prompt without is a
twentieth of that. Sixty of them at once, of one project, would hold up every decision of the others for two seconds. So
those with long documents are rendered one at a time, in turns of projects, with pauses as long as the renderings. Few
of one project wait for that, since each holds a place of the decider.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.request import DecisionKind, PromptContext
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_decider.app.compile_caches import PromptTemplateCache
from towpath_decider.core.attached_files import document_bytes, document_texts
from towpath_decider.core.prompt import Prompt, render
from towpath_fabric.turns.fair_threads import RETRY_AFTER_S
from towpath_fabric.turns.work_turns import WorkTurns

LONG_DOCUMENTS = 64 * 1024
"""Bytes of documents that are rendered at once, in two milliseconds; more take their turn."""

MAX_LONG_OF_PROJECT = 8
"""Requests with long documents of one project that are at work at a time; others come again."""

WAIT_S = 24 * 3_600.0
"""A turn is waited for as long as the decision has time."""

NOTHING_ATTACHED: Mapping[str, str] = {}


class PromptRenderer:
    """Renders prompts with the templates that were compiled lately. One per process, used on its loop alone."""

    def __init__(self) -> None:
        self._templates = PromptTemplateCache()
        self._long = WorkTurns(1, lambda _: 1, WAIT_S)
        self._at_work: Counter[str] = Counter()

    @contextmanager
    def room(self, project: str, context: PromptContext) -> Iterator[None]:
        """Hold one of the places of *project* for long documents, where *context* has such; raises `overloaded`."""
        if document_bytes(context.all_attachments) <= LONG_DOCUMENTS:
            yield
            return
        if self._at_work[project] >= MAX_LONG_OF_PROJECT:
            detail = f"{MAX_LONG_OF_PROJECT} requests of {project} with long documents are at work already"
            raise ProblemError(problem("overloaded", detail, retry_after_s=RETRY_AFTER_S))
        self._at_work[project] += 1
        try:
            yield
        finally:
            self._at_work[project] -= 1
            if not self._at_work[project]:
                del self._at_work[project]

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
