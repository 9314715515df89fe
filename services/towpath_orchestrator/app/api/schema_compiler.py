"""Compiles the large answer schemas and criteria of tasks in threads, a schema once however many tasks come with it.

`check_task` finds them compiled then. What was compiled is remembered by digest, less of it than `json_schema` keeps: a
burst of equal tasks waits for one compilation, and a later one for none.
"""

import asyncio

from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import digest
from towpath_contracts.json_schema import MAX_COMPILED, sub_schemas, unusable_schema
from towpath_contracts.tasks import SubmitTask
from towpath_engine.expressions.criterion import fault_of
from towpath_engine.rules.plan_goals import EXPRESSION_CHARS
from towpath_fabric.turns.fair_threads import FairThreads
from towpath_orchestrator.core.task_kinds import expressions_in

MAX_AT_ONCE = 50
"""Sub-schemas that are compiled at once, in five milliseconds; more are compiled in a thread."""

FEW_CHARS = 200
"""Of expressions, which are compiled at once, in some milliseconds."""

MAX_REMEMBERED = MAX_COMPILED // 4


class SchemaCompiler:
    """Compiles schemas in turns of projects. One per process."""

    def __init__(self, threads: FairThreads) -> None:
        self._threads = threads
        self._compiled: dict[str, None] = {}
        self._compiling: dict[str, asyncio.Task[str]] = {}

    async def prepare(self, project: str, schema: JsonObject | None) -> None:
        """Have *schema* compiled if it is large; raises ProblemError `overloaded` where too many of *project* wait."""
        if schema is None or sub_schemas(schema) <= MAX_AT_ONCE:
            return
        name = digest(schema)
        if name in self._compiled:
            return
        running = self._compiling.get(name)
        if running is None:
            running = asyncio.create_task(self._threads.run(project, lambda: unusable_schema(schema)))
            self._compiling[name] = running
            running.add_done_callback(lambda ended: self._ended(name, ended))
        await asyncio.shield(running)

    async def prepare_criteria(self, project: str, task: SubmitTask) -> None:
        """Have the criteria of *task* compiled if they are long, but for those that are refused for their length.

        Raises ProblemError as `prepare`. The engine keeps them compiled.
        """
        texts = expressions_in(task)
        if FEW_CHARS < sum(map(len, texts)) <= EXPRESSION_CHARS:
            await self._threads.run(project, lambda: [fault_of(text) for text in texts])

    def _ended(self, name: str, ended: "asyncio.Task[str]") -> None:
        del self._compiling[name]
        if not ended.cancelled() and ended.exception() is None:
            self._compiled[name] = None
            if len(self._compiled) > MAX_REMEMBERED:
                del self._compiled[next(iter(self._compiled))]
