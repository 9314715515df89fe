"""A web application that speaks OpenAI's chat completions: each agent, known by its prompt, has answers of its own."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from tests.support.decider.model_servers import OpenAi

from towpath.testing import script

THINKS_S, WRITES_S = 0.5, 0.05
"""How long an agent that is watched thinks, until its viewer is there, and how long it then writes a piece."""


def prompted_model(answers: Mapping[str, Sequence[Any]], watched: str) -> FastAPI:
    """Return the application; *answers* are moves by a text of the prompt, which only one agent has.

    The agent with the prompt *watched* takes its time, so that it can be read along.
    """
    left = {prompt: list(script(moves).entries) for prompt, moves in answers.items()}
    app, dialect = FastAPI(), OpenAi()

    @app.post("/v1/chat/completions")
    async def complete(request: Request) -> Response:
        asked = await request.json()
        (prompt,) = [one for one in left if one in asked["messages"][0]["content"]]
        answer = dialect.says(json.dumps(left[prompt].pop(0), ensure_ascii=False))
        if not asked.get("stream"):
            return Response(json.dumps(answer.body), media_type="application/json")
        pieces = _pieces(dialect.streamed(answer).body, slowly=prompt == watched)
        return StreamingResponse(pieces, media_type="text/event-stream")

    return app


async def _pieces(body: bytes, *, slowly: bool) -> AsyncIterator[bytes]:
    if not slowly:
        yield body
        return
    await asyncio.sleep(THINKS_S)
    for frame in body.split(b"\n\n"):
        yield frame + b"\n\n"
        await asyncio.sleep(WRITES_S)
