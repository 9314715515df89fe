"""Tools of the soak, one of each effect class; each call leaves a mark in the outside file, whatever becomes of it.

What may be repeated is not synced: the mark survives the end of this process, which is all that a soak does to it.
"""

import os
import time
from pathlib import Path
from typing import Final

from towpath import DidNotHappen, Happened, ToolContext, tool
from towpath_embedded.chaos.outside import ToolEffectRecord, append_mark, read_marks

OUTSIDE_VARIABLE: Final = "TOWPATH_SOAK_OUTSIDE"
TOOLSET: Final = "soak"
NAMES: Final = ("soak.look", "soak.note", "soak.pay", "soak.book", "soak.sign")


def _outside() -> Path:
    return Path(os.environ[OUTSIDE_VARIABLE])


def _mark(effect_class: str, ctx: ToolContext) -> ToolEffectRecord:
    return ToolEffectRecord(
        execution_id=str(ctx.execution_id),
        effect_class=effect_class,
        attempt=ctx.attempt,
        at=time.clock_gettime(time.CLOCK_REALTIME),
        pid=os.getpid(),
        tool=ctx.tool,
    )


@tool(name="soak.look", effect_class="pure", toolset=TOOLSET, timeout=5)
async def look(n: int, ctx: ToolContext) -> dict[str, int]:
    """Return the argument."""
    handle = os.open(_outside(), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, _mark("pure", ctx).line().encode())
    finally:
        os.close(handle)
    return {"n": n}


@tool(name="soak.note", effect_class="idempotent", toolset=TOOLSET, timeout=5)
async def note(n: int, ctx: ToolContext) -> dict[str, int]:
    """Leave a mark; may be repeated."""
    append_mark(_outside(), _mark("idempotent", ctx))
    return {"n": n}


@tool(name="soak.pay", effect_class="irreversible", toolset=TOOLSET, timeout=5)
async def pay(n: int, ctx: ToolContext) -> dict[str, int]:
    """Leave a mark; never again."""
    append_mark(_outside(), _mark("irreversible", ctx))
    return {"n": n}


@tool(name="soak.sign", effect_class="irreversible", toolset=TOOLSET, timeout=5)
async def sign(n: int, ctx: ToolContext) -> dict[str, int]:
    """Leave a mark, once somebody has approved it."""
    append_mark(_outside(), _mark("irreversible", ctx))
    return {"n": n}


def _happened(n: int, ctx: ToolContext) -> Happened | DidNotHappen:
    """Say what the outside file says."""
    there = any(mark.execution_id == str(ctx.execution_id) for mark in read_marks(_outside()))
    return Happened({"n": n}) if there else DidNotHappen()


@tool(name="soak.book", effect_class="reconcilable", probe=_happened, toolset=TOOLSET, timeout=5)
async def book(n: int, ctx: ToolContext) -> dict[str, int]:
    """Leave a mark; whether it happened can be looked up."""
    append_mark(_outside(), _mark("reconcilable", ctx))
    return {"n": n}
