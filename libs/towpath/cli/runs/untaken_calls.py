"""Calls that wait while no worker takes them: of which toolsets, and what starts the worker."""

from typing import TYPE_CHECKING

from towpath.errors import TowpathError
from towpath_contracts.text import counted

if TYPE_CHECKING:
    from towpath import Client
    from towpath_contracts.tools.queues import QueueState

REMEDY = "start the worker that has it: towpath worker MODULE_OR_FILE"


async def queues_without_worker(client: "Client") -> list["QueueState"]:
    """Return the queues of toolsets whose calls nobody takes, as far as a key may know that."""
    try:
        queues = (await client.queues.list()).queues
    except TowpathError:
        return []
    return [queue for queue in queues if queue.toolset and queue.waits and not queue.listeners]


async def calls_without_worker(client: "Client") -> list[str]:
    """Return a line for every toolset that has calls and no worker, with what to do."""
    return [f"{describe_untaken(queue)}; {REMEDY}" for queue in await queues_without_worker(client)]


def describe_untaken(queue: "QueueState") -> str:
    """Return how many calls wait, and for which toolset."""
    waits = counted(queue.waits, "call waits", "calls wait")
    return f"{waits}, and no worker takes what is of the toolset {queue.toolset}"
