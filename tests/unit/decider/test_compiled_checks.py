"""The check of a large schema is compiled in a thread, in its project's turn, and is known afterwards."""

from collections.abc import Callable
from typing import Any

from tests.support.decider.decisions import context, request

from towpath_decider.app.compile_caches import MAX_AT_ONCE, SCHEMAS_KEPT, AnswerCheckCompiler
from towpath_decider.core.answers import RefusedAnswer


class Threads:
    """Counts what is computed for whom."""

    def __init__(self) -> None:
        self.projects: list[str] = []

    async def run(self, project: str, compute: Callable[[], Any]) -> Any:
        self.projects.append(project)
        return compute()


def schema(number: int, **more: Any) -> dict[str, Any]:
    return {"properties": {f"p{number}_{place}": {} for place in range(MAX_AT_ONCE)}, **more}


async def test_a_large_schema_takes_a_thread_once_and_a_small_one_none() -> None:
    threads: Any = Threads()
    compiler = AnswerCheckCompiler(threads)
    await compiler.check_for(request())
    await compiler.check_for(request(context=context(respond_schema={"properties": {"a": {}}})))
    assert threads.projects == []
    for _ in range(3):
        found = await compiler.check_for(request(project="p", context=context(respond_schema=schema(1))))
        assert not isinstance(found, RefusedAnswer)
    assert threads.projects == ["p"]


async def test_what_is_no_schema_is_refused_and_what_was_forgotten_takes_a_thread_again() -> None:
    threads: Any = Threads()
    compiler = AnswerCheckCompiler(threads)
    wrong = await compiler.check_for(request(context=context(respond_schema=schema(2, type="objekt"))))
    assert isinstance(wrong, RefusedAnswer)
    for number in range(3, SCHEMAS_KEPT + 4):
        await compiler.check_for(request(context=context(respond_schema=schema(number))))
    before = len(threads.projects)
    await compiler.check_for(request(context=context(respond_schema=schema(3))))
    assert len(threads.projects) == before + 1
