"""Compiled base prompts, so that a costly one of one project doesn't hold up the decisions of others.

A small template is compiled at once, on the event loop; a large one in a thread that projects take turns at, once for
all requests that wait for it. Of one project few requests wait at a time, since each holds a place of the decider.
"""

import asyncio
from collections import Counter, OrderedDict
from functools import partial

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_fabric.prompt_templates import CompiledPromptTemplate, compile_base_prompt, template_tokens
from towpath_fabric.turns.fair_threads import RETRY_AFTER_S, FairThreads

KEPT = 512
"""Templates; with more agents at work some are compiled again."""

SMALL_CHARS = 4_000
SMALL_TOKENS = 200
"""What has no more is compiled in two or three milliseconds; to count these tokens takes a quarter of one."""

MAX_WAITING_OF_PROJECT = 8
"""Of the places of a decider, 64 by default; a compilation takes half a second at most."""


class PromptTemplateCache:
    """The templates of one process, by their text, which a network's version never changes. Used on the loop alone."""

    def __init__(self) -> None:
        self._threads = FairThreads()
        self._kept: OrderedDict[str, CompiledPromptTemplate] = OrderedDict()
        self._compiling: dict[tuple[str, str], asyncio.Task[CompiledPromptTemplate]] = {}
        self._waiting: Counter[str] = Counter()

    def find(self, text: str) -> CompiledPromptTemplate | None:
        """Return the template where it is kept or small; None where `compile` has to. Raises PromptInvalidError."""
        found = self._kept.get(text)
        if found is not None:
            self._kept.move_to_end(text)
            return found
        if len(text) > SMALL_CHARS or template_tokens(text, SMALL_TOKENS) > SMALL_TOKENS:
            return None
        return self._keep(text, compile_base_prompt(text))

    async def compile(self, project: str, text: str) -> CompiledPromptTemplate:
        """Compile in a thread, in *project*'s turn. Raises PromptInvalidError, and ProblemError `overloaded`."""
        if self._waiting[project] >= MAX_WAITING_OF_PROJECT:
            detail = f"{MAX_WAITING_OF_PROJECT} requests of {project} wait for prompts to be compiled already"
            raise ProblemError(problem("overloaded", detail, retry_after_s=RETRY_AFTER_S))
        key = project, text
        doing = self._compiling.get(key)
        if doing is None:
            doing = asyncio.ensure_future(self._threads.run(project, partial(compile_base_prompt, text)))
            doing.add_done_callback(partial(self._compiled, key))
            self._compiling[key] = doing
        self._waiting[project] += 1
        try:
            return await asyncio.shield(doing)
        finally:
            self._waiting[project] -= 1
            if not self._waiting[project]:
                del self._waiting[project]

    def _compiled(self, key: tuple[str, str], done: "asyncio.Task[CompiledPromptTemplate]") -> None:
        del self._compiling[key]
        if not done.cancelled() and done.exception() is None:
            self._keep(key[1], done.result())

    def _keep(self, text: str, template: CompiledPromptTemplate) -> CompiledPromptTemplate:
        self._kept[text] = template
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return template
