"""A tool that only returns once others were called too: what it returns for was under way at the same time."""

import asyncio

from towpath import tool

_CAME: dict[str, set[str]] = {}
_NEWS = asyncio.Condition()


@tool(name="round.meet", toolset="round", effect_class="pure", timeout=60)
async def meet(topic: str, who: str, parties: int) -> dict[str, str]:
    """Wait until so many have come to talk about a topic."""
    came = _CAME.setdefault(topic, set())
    async with _NEWS:
        came.add(who)
        _NEWS.notify_all()
        await _NEWS.wait_for(lambda: len(came) >= parties)
    return {"met": topic, "who": who}
