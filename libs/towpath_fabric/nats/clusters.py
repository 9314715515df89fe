"""What a process does differently where its broker is a cluster: it notices sooner that a node is lost.

A lone broker that is away comes back by itself, and every sign of life between two idle processes costs both of them.
In a cluster somebody else could serve by then, so signs of life are frequent.
"""

from typing import Final

from nats.aio.client import Client

CLUSTER_PING_S: Final = 1
"""With two unanswered pings a frozen node is left in 3 to 4 s, before the others have elected another leader."""

CLUSTER_HEARTBEAT_S: Final = 1.0
"""Of a pull request that is idle."""

CLUSTER_LOST_S: Final = 2.5
"""After two missing heartbeats a request is taken for lost: a new leader of a consumer knows none of its requests."""


def is_clustered(nc: Client) -> bool:
    """Return whether the broker that *nc* is connected to, or was last, says that it is a node of a cluster."""
    return bool(nc._server_info.get("cluster"))
