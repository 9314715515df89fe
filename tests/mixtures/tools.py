"""The tools of the mixtures, one of each effect class: all that a call does is append a line to the witness file.

A tool worker runs this module; `TOWPATH_MIXTURE_WITNESS` names the file. The file is outside the platform, so it tells
what really happened, however often.
"""

import asyncio
import json
import os
from pathlib import Path

from towpath import ToolContext, tool
from towpath.tools.probes import DidNotHappen, Happened, Probed

WITNESS_VARIABLE = "TOWPATH_MIXTURE_WITNESS"
TOOLSET = "mix"
PAUSE_S = 0.02
"""Before and after the line, so that a kill can fall on either side of it."""


async def _happen(token: str, context: ToolContext) -> dict[str, str]:
    await asyncio.sleep(PAUSE_S)
    line = {"run": str(context.run_id), "call": str(context.execution_id), "tool": context.tool, "token": token}
    await asyncio.to_thread(_append, json.dumps(line).encode() + b"\n")
    await asyncio.sleep(PAUSE_S)
    return {"token": token}


def _append(line: bytes) -> None:
    with Path(os.environ[WITNESS_VARIABLE]).open("ab", buffering=0) as file:
        file.write(line)  # one write, which is whole or not there


@tool(name="mix.look", effect_class="pure", toolset=TOOLSET, timeout=3)
async def look(token: str, ctx: ToolContext) -> dict[str, str]:
    """Leave a mark; may happen any number of times."""
    return await _happen(token, ctx)


@tool(name="mix.note", effect_class="idempotent", toolset=TOOLSET, timeout=3)
async def note(token: str, ctx: ToolContext) -> dict[str, str]:
    """Leave a mark; a repetition under the same key counts once."""
    return await _happen(token, ctx)


def booked(token: str, ctx: ToolContext) -> Probed:
    """Look into the witness file, as a probe looks into the real world."""
    lines = Path(os.environ[WITNESS_VARIABLE]).read_text("utf-8").splitlines()
    done = any(json.loads(line)["call"] == str(ctx.execution_id) for line in lines)
    return Happened({"token": token}) if done else DidNotHappen()


@tool(name="mix.book", effect_class="reconcilable", toolset=TOOLSET, timeout=3, probe=booked)
async def book(token: str, ctx: ToolContext) -> dict[str, str]:
    """Leave a mark that can be looked up."""
    return await _happen(token, ctx)


@tool(name="mix.pay", effect_class="irreversible", toolset=TOOLSET, timeout=3)
async def pay(token: str, ctx: ToolContext) -> dict[str, str]:
    """Leave a mark that must not be left twice."""
    return await _happen(token, ctx)


@tool(name="mix.sign", effect_class="irreversible", toolset=TOOLSET, timeout=3)
async def sign(token: str, ctx: ToolContext) -> dict[str, str]:
    """Leave a mark that must not be left twice, once a person has allowed it."""
    return await _happen(token, ctx)


@tool(name="mix.finish", effect_class="idempotent", toolset=TOOLSET, timeout=3)
async def finish(token: str, ctx: ToolContext) -> dict[str, str]:
    """Leave the mark that goals wait for."""
    return await _happen(token, ctx)
