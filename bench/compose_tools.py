"""The tools of bench/compose.py: one that takes its time, and one that takes none."""

import asyncio

from towpath import tool


@tool(effect_class="pure", toolset="bench")
async def compose_wait(who: str, ms: int) -> str:
    """Answer after some milliseconds."""
    await asyncio.sleep(ms / 1000)
    return who


@tool(effect_class="pure", toolset="bench")
def compose_echo(text: str, n: int) -> dict[str, object]:
    """Return what came in."""
    return {"text": text, "n": n}
