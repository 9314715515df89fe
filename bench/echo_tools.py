"""W1's tool in the effect classes that the benchmark compares: ~200 bytes in, ~200 bytes out."""

import asyncio
import random

from towpath import tool


@tool(effect_class="pure", toolset="bench")
def echo_pure(text: str, n: int) -> dict[str, object]:
    """Return what came in."""
    return {"text": text, "n": n}


@tool(effect_class="idempotent", toolset="bench")
def echo_idempotent(text: str, n: int) -> dict[str, object]:
    """Return what came in."""
    return {"text": text, "n": n}


@tool(effect_class="irreversible", toolset="bench")
def echo_irreversible(text: str, n: int) -> dict[str, object]:
    """Return what came in."""
    return {"text": text, "n": n}


@tool(effect_class="pure", toolset="bench")
async def echo_paced(text: str, n: int) -> dict[str, object]:
    """Return what came in after about a second, as a tool that works, or a model that thinks."""
    await asyncio.sleep(random.uniform(0.5, 1.5))
    return {"text": text, "n": n}
