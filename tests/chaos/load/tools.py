"""A tool of each effect class; each appends a mark to the outside file.

Run by a tool worker whose environment names the file.
"""

import asyncio
import os
import time
from pathlib import Path
from typing import Final

from towpath import DidNotHappen, Happened, ToolContext, tool
from towpath_embedded.chaos.outside import ToolEffectRecord, append_mark, read_marks

OUTSIDE_VARIABLE: Final = "TOWPATH_CHAOS_OUTSIDE"
TOOLSET: Final = "marking"
TOOL_NAMES: Final = ("marking.pure", "marking.idempotent", "marking.irreversible")
EVERY_CLASS: Final = (*TOOL_NAMES, "marking.reconcilable")
PAUSE_VARIABLE: Final = "TOWPATH_CHAOS_PAUSE_S"
"""How long a call lasts, in seconds, where that matters: a longer one is easier to catch in the middle."""

PAUSE_S: Final = "0.01"


async def _happen(effect_class: str, ctx: ToolContext) -> None:
    mark = ToolEffectRecord(
        execution_id=str(ctx.execution_id),
        effect_class=effect_class,
        attempt=ctx.attempt,
        at=time.clock_gettime(time.CLOCK_REALTIME),  # the world's own clock, also where this process's is moved
        pid=os.getpid(),
        tool=ctx.tool,
    )
    append_mark(Path(os.environ[OUTSIDE_VARIABLE]), mark)
    await asyncio.sleep(float(os.environ.get(PAUSE_VARIABLE, PAUSE_S)))


@tool(name="marking.pure", effect_class="pure", toolset=TOOLSET, timeout=3)
async def pure(n: int, ctx: ToolContext) -> dict[str, int]:
    """Return the argument; effect class pure."""
    await _happen("pure", ctx)
    return {"n": n}


@tool(name="marking.idempotent", effect_class="idempotent", toolset=TOOLSET, timeout=3)
async def idempotent(n: int, ctx: ToolContext) -> dict[str, int]:
    """Leave a mark; effect class idempotent."""
    await _happen("idempotent", ctx)
    return {"n": n}


@tool(name="marking.irreversible", effect_class="irreversible", toolset=TOOLSET, timeout=3)
async def irreversible(n: int, ctx: ToolContext) -> dict[str, int]:
    """Leave a mark; effect class irreversible."""
    await _happen("irreversible", ctx)
    return {"n": n}


def _happened(n: int, ctx: ToolContext) -> Happened | DidNotHappen:
    """Say what the outside file says."""
    marks = read_marks(Path(os.environ[OUTSIDE_VARIABLE]))
    there = any(mark.execution_id == str(ctx.execution_id) for mark in marks)
    return Happened({"n": n}) if there else DidNotHappen()


@tool(name="marking.reconcilable", effect_class="reconcilable", probe=_happened, toolset=TOOLSET, timeout=3)
async def reconcilable(n: int, ctx: ToolContext) -> dict[str, int]:
    """Leave a mark; effect class reconcilable."""
    await _happen("reconcilable", ctx)
    return {"n": n}
