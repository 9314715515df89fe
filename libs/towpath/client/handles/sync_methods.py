"""Makes methods that wait of async ones, with the same parameters: classes for programs without asyncio are of them.

The work is done by the one event loop in a thread that `run.sync` uses too, so connections are kept between calls.
"""

import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from towpath.client.handles.loop_thread import LOOP
from towpath.errors import RefusedError
from towpath.inherited_objects import keep_inherited
from towpath_contracts.problems.registry import problem

P = ParamSpec("P")
R = TypeVar("R")

_END: Any = object()


class WaitingMethod(Generic[P, R]):
    """Calls *method* of the async object that its owner has as `_wrapped`, and returns what that returns."""

    def __init__(self, method: Callable[..., Any], call: Callable[..., R]) -> None:
        self.method = method
        self._call = call
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> Self: ...

    @overload
    def __get__(self, owner: object, kind: type) -> Callable[P, R]: ...

    def __get__(self, owner: Any, kind: type) -> Self | Callable[P, R]:
        if owner is None:
            return self

        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return self._call(getattr(owner._wrapped, self.method.__name__)(*args, **kwargs))

        call.__name__, call.__doc__ = self.method.__name__, self.__doc__
        return call


def waiting(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> WaitingMethod[P, R]:
    """Make a method that waits for *method*, a coroutine function, and returns its result."""
    return WaitingMethod(method, LOOP.wait)


def iterating(method: Callable[Concatenate[Any, P], AsyncIterator[R]]) -> WaitingMethod[P, Generator[R, None, None]]:
    """Make a method that yields what *method*, an async generator, yields, and waits for each."""
    return WaitingMethod(method, each)


def each(source: AsyncIterator[R]) -> Generator[R, None, None]:
    """Yield what *source* yields, and wait for each; who stops early has it closed.

    A process that was forked meanwhile gets nothing of it and closes nothing: the connection is its parent's.
    """
    process = os.getpid()

    async def following() -> R:
        return await anext(source, _END)

    async def close() -> None:
        ended = getattr(source, "aclose", None)
        if ended is not None:
            await ended()

    try:
        while (one := LOOP.wait(following())) is not _END:
            yield one
            if os.getpid() != process:
                detail = "this stream was begun before the process was forked and belongs to its parent"
                raise RefusedError(problem("request_invalid", detail, remedy="Begin another one in this process."))
    finally:
        if os.getpid() != process:
            keep_inherited(source)
        elif not sys.is_finalizing():  # then its thread stands still
            LOOP.finish(close())
