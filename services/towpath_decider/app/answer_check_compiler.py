"""Compiles the checks of answers, those of large schemas in a thread.

Whoever may submit a task may bring its answer's schema, and finding one of the largest to be a schema takes a quarter
of a second, in which no decision of anybody would go on. So projects take turns at a thread. What was compiled lately
is kept (`json_schema`), and its check is had at once.
"""

from collections import OrderedDict
from functools import partial

from pydantic_core import to_json

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.request import DecisionRequest
from towpath_contracts.json_schema import MAX_COMPILED, sub_schemas
from towpath_decider.core.answer_checks import check_for, deliverable_schema
from towpath_decider.core.answers import Check, RefusedAnswer
from towpath_fabric.turns.fair_threads import FairThreads

MAX_AT_ONCE = 50
"""Sub-schemas that are compiled at once, in five milliseconds."""

KEPT = MAX_COMPILED // 4
"""Schemas that are known to be compiled, fewer than are kept."""


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
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        return found


def _schemas_of(request: DecisionRequest) -> list[JsonObject]:
    context = request.context
    given = (request.response_schema, context.respond_schema, deliverable_schema(context))
    return [schema for schema in given if schema is not None and sub_schemas(schema, MAX_AT_ONCE) > MAX_AT_ONCE]
