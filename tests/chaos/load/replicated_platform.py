"""A platform whose services use a Postgres primary with a standby in the place of the server that it starts."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.chaos.servers.postgres_pair import PostgresPair

from towpath_embedded.platform import Platform
from towpath_embedded.servers.postgres import OWNER
from towpath_fabric.postgres.migrations import migrate


class ReplicatedPlatform(Platform):
    """Its own database runs on with nothing to do. Who asks as the owner asks the primary; roles have both hosts."""

    def __init__(
        self, data: Path, *, pair: PostgresPair, environment: Mapping[str, str] | None = None, **options: Any
    ) -> None:
        self.pair = pair
        super().__init__(data, environment=environment, **options)

    def dsn(self, role: str | None = None) -> str:
        """The address of both as *role*, or of the primary as the owner."""
        return self.pair.primary.address(OWNER) if role is None else self.pair.dsn(f"towpath_{role}")

    async def stop(self) -> None:
        """Stop everything."""
        try:
            await super().stop()
        finally:
            await self.pair.stop()

    async def _prepare_database(self) -> None:
        await super()._prepare_database()
        await self.pair.start()
        await migrate(self.pair.dsn(OWNER))


def replicated(pair: PostgresPair) -> "partial[ReplicatedPlatform]":
    """Return what makes a platform on *pair*."""
    return partial(ReplicatedPlatform, pair=pair)
