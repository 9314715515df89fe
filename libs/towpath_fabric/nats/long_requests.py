"""Reads requests of those who may ask without end and at length, on the loop that everything else shares.

A megabyte of nothing but brackets takes half a second to be read, and while it is read nothing else happens. So a
request with more lists and objects than an honest one has is not read, and long ones are read one at a time, in turns
of their owners, with pauses in which the others go on: reading takes a fifth of the loop's time at most.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_fabric.nats.replies import read_request
from towpath_fabric.turns.work_turns import WorkTurns

if TYPE_CHECKING:
    from faststream.nats import NatsMessage

LONG_BYTES = 16 * 1024
PAUSES = 4
"""Times of a reading that the next one waits."""

MAX_PAUSE_S = 1.0
WAIT_S = 4.0
MAX_WAITING = 64
"""Long requests of one owner."""

FEW_BRACKETS = 64
"""More than a request has that is no more than some fields."""

READ_WAIT_S = 10.0
"""How long a long message of a client waits to be read."""

Value = TypeVar("Value")
Decoder = Callable[["NatsMessage"], Awaitable[BaseModel]]


class LongRequestReader:
    """Reads requests with at most *max_brackets*; *owner_of* says by subject and body whose turn a long one takes."""

    def __init__(self, max_brackets: int, owner_of: Callable[[str, bytes], str]) -> None:
        self._max_brackets = max_brackets
        self._owner_of = owner_of
        self._turns = WorkTurns(1, lambda _: 1, WAIT_S, max_waiting=MAX_WAITING)

    def decoder(self, kind: type[BaseModel]) -> Decoder:
        """Return a FastStream decoder for requests of *kind*; it raises ProblemError."""

        async def decode(message: "NatsMessage") -> BaseModel:
            data, subject = message.body, message.raw_message.subject
            if data.count(b"[") + data.count(b"{") > self._max_brackets:
                detail = f"{subject}: more than {self._max_brackets} lists and objects"
                raise ProblemError(problem("request_malformed", detail))
            if len(data) <= LONG_BYTES:
                return read_request(kind, data)
            async with self._turns.held(self._owner_of(subject, data)):
                began = time.thread_time()
                try:
                    return read_request(kind, data)
                finally:
                    await asyncio.sleep(min(MAX_PAUSE_S, PAUSES * (time.thread_time() - began)))

        return decode


class LongReadings:
    """Reads what clients send: long messages one at a time, in turns of their senders, with pauses as long as that."""

    def __init__(self) -> None:
        self._turns = WorkTurns(1, lambda _: 1, READ_WAIT_S)

    async def read(self, owner: str, data: bytes, read: Callable[[bytes], Value]) -> Value:
        """Return what *read* makes of *data*; raises what that raises, and ProblemError `overloaded`."""
        if len(data) <= LONG_BYTES:
            return read(data)
        async with self._turns.held(owner):
            began = time.thread_time()
            try:
                return read(data)
            finally:
                await asyncio.sleep(time.thread_time() - began)
