"""Reads server-sent events the way a browser does."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx2


@dataclass
class Frame:
    """One event of a stream; `comment` for lines that a browser ignores."""

    event: str = "message"
    data: str = ""
    id: str | None = None
    retry: int | None = None
    comment: str | None = None


async def frames(response: httpx2.Response) -> AsyncIterator[Frame]:
    """Yield the frames of *response* until it ends."""
    lines: list[str] = []
    async for line in response.aiter_lines():
        if line:
            lines.append(line)
        elif lines:
            yield _frame(lines)
            lines = []


def _frame(lines: list[str]) -> Frame:
    frame = Frame()
    data: list[str] = []
    for line in lines:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not name:
            frame.comment = value
        elif name == "data":
            data.append(value)
        elif name == "event":
            frame.event = value
        elif name == "id":
            frame.id = value
        elif name == "retry":
            frame.retry = int(value)
    frame.data = "\n".join(data)
    return frame
