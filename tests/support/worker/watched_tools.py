"""Tools of runs that the watchdog looks at: a search that never finds anything, and a call that waits to be let go."""

import asyncio
import os
from pathlib import Path

from towpath import tool

GATE = Path(os.environ["TOWPATH_TEST_LET_GO"])


@tool(name="notes.search", toolset="notes", effect_class="pure", timeout=30)
async def search(query: str) -> str:
    """Search the notes."""
    return f"None of the 214 notes of the year matches what was asked for: {query}."


@tool(name="notes.find", toolset="notes", effect_class="pure", timeout=30)
async def find(words: list[str]) -> str:
    """Find the notes that have these words."""
    return f"None of the 214 notes of the year has all of these words: {', '.join(words)}."


@tool(name="notes.hold", toolset="notes", effect_class="pure", timeout=120)
async def hold(name: str) -> str:
    """Wait until somebody lets this call go."""
    while not (GATE / name).exists():  # noqa: ASYNC110 - whoever lets it go is another process
        await asyncio.sleep(0.02)
    return f"{name} was let go"
