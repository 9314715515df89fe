"""The stream of one AG-UI run: from where the client is to the end of the run, or to what a person has to decide."""

from collections.abc import Collection
from uuid import UUID

from towpath_contracts.base import JsonObject
from towpath_gateway.app.asking_stream import AskingStream
from towpath_gateway.app.dependencies import GatewayDependencies
from towpath_gateway.core.ag_ui_events import AgUiEvents
from towpath_gateway.core.api_keys import Principal
from towpath_readings.stream.live import RunStreamGate


class AgUiStream(AskingStream):
    """Ends with what is asked as its interrupts."""

    def __init__(
        self,
        dependencies: GatewayDependencies,
        principal: Principal,
        run_id: UUID,
        events: AgUiEvents,
        *,
        decided: Collection[UUID] = (),
        after: int = 0,
        deltas: bool = True,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(
            dependencies, principal, run_id, events, decided=decided, after=after, deltas=deltas, headers=headers
        )
        self._ag_ui = events

    async def _interrupted(self, gates: list[RunStreamGate]) -> list[JsonObject]:
        return self._ag_ui.interrupted(gates)
