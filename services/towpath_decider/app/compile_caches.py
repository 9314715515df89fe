"""What is compiled for decisions: base prompts, and the checks of answers.

What is small is compiled at once, on the event loop; what is large in a thread that projects take turns at, so that a
costly one of one project doesn't hold up the decisions of others. What was compiled lately is kept. A prompt is
compiled once for all requests that wait for it, and of one project few wait at a time, since each holds a place of the
decider. Whoever may submit a task may bring its answer's schema, and finding one of the largest to be a schema takes a
quarter of a second.
"""

import asyncio
from collections import Counter, OrderedDict
from functools import partial

from pydantic_core import to_json

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.request import DecisionRequest
from towpath_contracts.json_schema import MAX_COMPILED, sub_schemas
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_decider.core.answer_checks import check_for, deliverable_schema
from towpath_decider.core.answers import Check, RefusedAnswer
from towpath_fabric.prompt_templates import CompiledPromptTemplate, compile_base_prompt, template_tokens
from towpath_fabric.turns.fair_threads import RETRY_AFTER_S, FairThreads

PROMPTS_KEPT = 512
"""Templates; with more agents at work some are compiled again."""

SMALL_CHARS = 4_000
SMALL_TOKENS = 200
"""What has no more is compiled in two or three milliseconds; to count these tokens takes a quarter of one."""

MAX_WAITING_OF_PROJECT = 8
"""Of the places of a decider, 64 by default; a compilation takes half a second at most."""

MAX_AT_ONCE = 50
"""Sub-schemas that are compiled at once, in five milliseconds."""

SCHEMAS_KEPT = MAX_COMPILED // 4
"""Schemas that are known to be compiled, fewer than are kept."""


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
        if len(self._kept) > PROMPTS_KEPT:
            self._kept.popitem(last=False)
        return template


class AnswerCheckCompiler:
    """Makes checks for requests. One per process, used on its loop alone."""

    def __init__(self, threads: FairThreads | None = None) -> None:
        self._threads = threads or FairThreads(name="schemas")
        self._known: OrderedDict[bytes, None] = OrderedDict()

    async def check_for(self, request: DecisionRequest) -> Check | RefusedAnswer:
        """Return the check of the answer to *request*, or why it can't be answered at all.

        Raises ProblemError `overloaded` where too many requests of its project wait for that.
        """
        new = [text for schema in _schemas_of(request) if (text := to_json(schema)) not in self._known]
        if not new:
            return check_for(request)
        found = await self._threads.run(request.project, partial(check_for, request))
        for text in new:
            self._known[text] = None
            if len(self._known) > SCHEMAS_KEPT:
                self._known.popitem(last=False)
        return found


def _schemas_of(request: DecisionRequest) -> list[JsonObject]:
    context = request.context
    given = (request.response_schema, context.respond_schema, deliverable_schema(context))
    return [schema for schema in given if schema is not None and sub_schemas(schema, MAX_AT_ONCE) > MAX_AT_ONCE]
