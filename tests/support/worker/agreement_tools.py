"""Tools of the tasks that run in the harness and on a platform: each result follows from the arguments alone."""

from typing import Any

from towpath import ToolError, tool


@tool(name="shop.look", toolset="shop", effect_class="pure", trusted_output=True)
def look(item: str) -> dict[str, Any]:
    """Look an item up."""
    return {"item": item, "price": len(item) * 10}


@tool(name="shop.put", toolset="shop", effect_class="idempotent")
async def put(item: str, count: int = 1) -> str:
    """Put an item on the shelf."""
    return f"{count} of {item}"


@tool(name="shop.pay", toolset="shop", effect_class="irreversible")
def pay(to: str, amount: float) -> dict[str, Any]:
    """Pay somebody; nobody is paid more than 500."""
    if amount > 500:
        raise ToolError("too_much", f"{amount} is more than 500", hint="Pay less.")
    return {"paid": amount, "to": to}


@tool(name="shop.break", toolset="shop", effect_class="pure")
def break_down(item: str) -> str:
    """Fail in a way that nobody has foreseen."""
    raise ValueError(f"{item} broke")


TOOLS = (look, put, pay, break_down)
