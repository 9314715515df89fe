"""Tools that leave a trace outside the platform: each call appends its id to a file and fsyncs it."""

import asyncio
import os
from pathlib import Path
from typing import Annotated

from towpath import SystemParameter, ToolContext, ToolError, tool


def _append(kind: str, ctx: ToolContext) -> None:
    place = Path(os.environ["TOWPATH_TEST_EFFECTS"])
    handle = os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, f"{ctx.execution_id} {kind} {os.getpid()}\n".encode())
        os.fsync(handle)
    finally:
        os.close(handle)


@tool(name="mark.irreversible", effect_class="irreversible", toolset="marks", timeout=3)
async def irreversible(n: int, ctx: ToolContext) -> dict[str, int]:
    """Leave a mark that can't be taken back."""
    _append("irreversible", ctx)
    await asyncio.sleep(0.01)
    return {"n": n}


@tool(name="mark.idempotent", effect_class="idempotent", toolset="marks", timeout=3)
async def idempotent(n: int, ctx: ToolContext) -> dict[str, int]:
    """Leave a mark that counts once per key."""
    _append("idempotent", ctx)
    return {"n": n}


@tool(name="mark.pure", effect_class="pure", toolset="marks", timeout=3)
async def pure(n: int, ctx: ToolContext) -> dict[str, int]:
    """Look only."""
    _append("pure", ctx)
    return {"n": n}


@tool(name="mark.account", effect_class="pure", toolset="marks", timeout=3)
async def account(n: int, account: Annotated[str, SystemParameter()]) -> dict[str, int]:
    """Look at an account that no model sees."""
    return {"n": n, "letters": len(account)}


@tool(name="mark.broken", effect_class="pure", toolset="marks", timeout=3)
async def broken(why: str) -> None:
    """Leave no mark, and say why."""
    raise ToolError("broken", why)
