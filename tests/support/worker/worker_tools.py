"""Tools that misbehave in every way a worker has to bear; each leaves a trace in `CALLS`."""

import asyncio
import threading
import time
from typing import Annotated, Any

from pydantic import BaseModel

from towpath import SystemParameter, ToolContext, ToolError, tool

CALLS: list[str] = []
RELEASE = threading.Event()
RUNNING = {"now": 0, "most": 0}


class Sum(BaseModel):
    """A sum."""

    total: int


@tool(effect_class="pure")
async def add(a: int, b: int) -> Sum:
    """Add."""
    CALLS.append("add")
    return Sum(total=a + b)


@tool(effect_class="pure")
def add_slowly(a: int, b: int) -> int:
    """Add in a thread."""
    CALLS.append(threading.current_thread().name)
    return a + b


@tool
async def pay(amount: int, ctx: ToolContext) -> dict[str, Any]:
    """Do what can't be undone."""
    CALLS.append(f"pay {ctx.execution_id}")
    return {"paid": amount, "key": ctx.idempotency_key, "attempt": ctx.attempt}


@tool(effect_class="idempotent")
async def pay_slowly(seconds: float, ctx: ToolContext) -> str:
    """Take time."""
    CALLS.append(f"pay_slowly {ctx.execution_id}")
    await asyncio.sleep(seconds)
    return "paid"


@tool(effect_class="pure")
async def tell(desk: Annotated[str, SystemParameter()], topic: str, ctx: ToolContext) -> dict[str, Any]:
    """Say whose call it is."""
    return {
        "network": ctx.network,
        "agent": ctx.agent,
        "caller": ctx.caller,
        "labels": dict(ctx.labels),
        "root": str(ctx.root_run_id),
        "system": dict(ctx.system_params),
    }


@tool(effect_class="pure", timeout="300ms")
async def hang() -> None:
    """Never end."""
    CALLS.append("hang")
    await asyncio.sleep(3600)


@tool(timeout="300ms")
async def pay_and_hang() -> None:
    """Do what can't be undone, and never say so."""
    CALLS.append("pay_and_hang")
    await asyncio.sleep(3600)


@tool(effect_class="pure", timeout="300ms")
async def ignore_the_end() -> str:
    """End late, whatever is asked."""
    CALLS.append("ignore_the_end")
    until = time.monotonic() + 7
    while time.monotonic() < until:
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            CALLS.append("ignored")
    return "late"


@tool(effect_class="pure", timeout="300ms")
def hang_in_a_thread(ctx: ToolContext) -> bool:
    """Block until the test lets go."""
    CALLS.append("hang_in_a_thread")
    RELEASE.wait(30)
    return ctx.cancelled


@tool(timeout="300ms")
def pay_late(ctx: ToolContext) -> str:
    """Do what can't be undone, after the time is over."""
    CALLS.append("pay_late")
    RELEASE.wait(60)
    return f"paid {ctx.execution_id}"


@tool(timeout="300ms")
async def pay_stubbornly(ctx: ToolContext) -> str:
    """Do what can't be undone, although nobody waits for it any more."""
    CALLS.append("pay_stubbornly")
    while not RELEASE.is_set():
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            CALLS.append("ignored")
    return f"paid {ctx.execution_id}"


@tool(effect_class="pure")
def look_at_the_stop(ctx: ToolContext) -> str:
    """Stop when asked."""
    CALLS.append("look_at_the_stop")
    while not ctx.cancelled and ctx.remaining_s > 0:
        time.sleep(0.01)
    raise ToolError("stopped", "told to stop")


@tool(effect_class="pure")
async def crowd(seconds: float) -> int:
    """Count how many are here at once."""
    RUNNING["now"] += 1
    RUNNING["most"] = max(RUNNING["most"], RUNNING["now"])
    await asyncio.sleep(seconds)
    RUNNING["now"] -= 1
    return RUNNING["most"]


@tool(effect_class="pure")
async def hold() -> int:
    """Be here until the test lets go."""
    RUNNING["now"] += 1
    await asyncio.to_thread(RELEASE.wait, 60)
    RUNNING["now"] -= 1
    return RUNNING["now"]


@tool(effect_class="pure")
async def fail(kind: str) -> Any:
    """Fail in the way that is asked for."""
    CALLS.append("fail")
    match kind:
        case "tool_error":
            raise ToolError("order_unknown", "No order 7", retryable=True, hint="Search first", external=True)
        case "exit":
            raise SystemExit(3)
        case "stop_iteration":
            raise StopIteration
        case "connection":
            raise ConnectionRefusedError("nobody there")
        case "cancelled":
            raise asyncio.CancelledError
        case "timeout":
            raise TimeoutError("its own")
        case "nan":
            return float("nan")
        case "object":
            return object()
        case "loop":
            again: list[Any] = []
            again.append(again)
            return again
        case _:
            raise _said(kind)


def _said(kind: str) -> Exception:
    """A tool may say anything, the platform's own words too."""
    if kind in {"not_started", "code_cancelled", "invalid_arguments"}:
        return ToolError(kind.removeprefix("code_"), "in a tool's mouth")
    return ValueError(f"secret {kind}")


@tool(effect_class="pure")
def fail_in_a_thread(kind: str) -> Any:
    """Fail in a thread."""
    if kind == "stop_iteration":
        raise StopIteration
    raise SystemExit(3)


@tool(effect_class="pure")
async def large(size: int) -> str:
    """Return that many characters."""
    return "x" * size


@tool(effect_class="pure")
async def talk(text: str, ctx: ToolContext) -> None:
    """Write to the log."""
    ctx.log(text, level="warning", number=1, strange=object())


@tool(effect_class="pure", toolset="second")
async def elsewhere(who: Annotated[str, SystemParameter()]) -> str:
    """Live in another toolset."""
    return who
