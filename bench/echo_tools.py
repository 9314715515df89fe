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


@tool(effect_class="pure", toolset="bench")
def echo_document(n: int, size: int) -> dict[str, object]:
    """Return so many bytes of text that no other *n* has, and that is no easier to compress than digests are."""
    words = random.Random(n)
    return {"n": n, "text": " ".join(f"{words.getrandbits(32):08x}" for _ in range(size // 9))}
