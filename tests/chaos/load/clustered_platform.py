"""A platform whose services use a cluster of three brokers in the place of the one that it starts."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.chaos.servers.broker_cluster import NODES, BrokerCluster

from towpath_contracts import subjects
from towpath_contracts.authority import USERS, client_rights
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import UserCode


class ClusteredPlatform(Platform):
    """Its own broker runs on with nothing to do: its users and their passwords are the cluster's."""

    def __init__(
        self, data: Path, *, cluster: BrokerCluster, environment: Mapping[str, str] | None = None, **options: Any
    ) -> None:
        self.cluster = cluster
        where = {"TOWPATH_NATS_URL": cluster.url, "TOWPATH_STREAM_REPLICAS": str(NODES)}
        super().__init__(data, environment={**(environment or {}), **where}, **options)

    @property
    def nats_url(self) -> str:
        """Every node, for the caller `anonymous`."""
        return self.cluster.url

    def nats_url_of(self, user: str) -> str:
        """Every node, for *user*."""
        return self.cluster.url_of(user)

    async def start_servers(self, workers: Sequence[UserCode] = ()) -> None:
        """Start the servers of a platform, and the cluster with its users."""
        await super().start_servers(workers)
        users = {**self.nats._users, **USERS, subjects.ANONYMOUS: client_rights(subjects.ANONYMOUS)}
        options = {"no_auth_user": subjects.ANONYMOUS}
        await self.cluster.start(users, self.nats.folder / "passwords.json", **options)

    async def stop(self) -> None:
        """Stop everything."""
        try:
            await super().stop()
        finally:
            await self.cluster.stop()


def clustered(cluster: BrokerCluster) -> "partial[ClusteredPlatform]":
    """Return what makes a platform on *cluster*."""
    return partial(ClusteredPlatform, cluster=cluster)
