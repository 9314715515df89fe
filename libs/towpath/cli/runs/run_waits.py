"""What runs wait for: people, models, and calls that no worker takes, with what starts the worker."""

import asyncio
from typing import TYPE_CHECKING

from towpath.errors import TowpathError
from towpath_contracts.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from towpath import Client
    from towpath_contracts.runs.views import RunView
    from towpath_contracts.tools.queues import QueueState

REMEDY = "start the worker that has it: towpath worker MODULE_OR_FILE"


MOST_ASKED = 20
"""Runs of one list that are asked what they wait for: those above, which are the newest."""

ASKED_AT_ONCE = 4
"""Requests that one list has under way: a key that is used elsewhere too keeps the rest of its turns."""

_STANDING = ("queued", "running", "waiting")


async def short_waits(client: "Client", runs: "Iterable[RunView]") -> dict["UUID", tuple[str, ...]]:
    """Return what the unfinished ones of *runs* wait for, each as short as a list needs it; lists do without."""
    asked = [run.run_id for run in runs if run.status in _STANDING][:MOST_ASKED]
    turns = asyncio.Semaphore(ASKED_AT_ONCE)
    found = await asyncio.gather(*(_waits_of(client, run_id, turns) for run_id in asked))
    return dict(zip(asked, found, strict=True))


async def _waits_of(client: "Client", run_id: "UUID", turns: asyncio.Semaphore) -> tuple[str, ...]:
    async with turns:
        try:
            return tuple(map(shorten_wait, (await client.get(run_id)).waits))
        except TowpathError:  # it was erased since, or nobody answers
            return ()


def shorten_wait(wait: str) -> str:
    """Return *wait* of a run without what is to be done about it, which stands below the list."""
    return "no worker for its calls" if wait.startswith("tool: no worker") else wait


async def queues_without_worker(client: "Client") -> list["QueueState"]:
    """Return the queues of toolsets whose calls nobody takes, as far as a key may know that."""
    try:
        queues = (await client.queues.list()).queues
    except TowpathError:
        return []
    return [queue for queue in queues if queue.toolset and queue.is_untaken]


async def calls_without_worker(client: "Client") -> list[str]:
    """Return a line for every toolset that has calls and no worker, with what to do."""
    return [f"{describe_untaken(queue)}; {REMEDY}" for queue in await queues_without_worker(client)]


def describe_untaken(queue: "QueueState") -> str:
    """Return how many calls wait, and for which toolset."""
    waits = counted(queue.waits, "call waits", "calls wait")
    return f"{waits}, and no worker takes what is of the toolset {queue.toolset}"
