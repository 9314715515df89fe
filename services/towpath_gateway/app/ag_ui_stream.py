"""The stream of one AG-UI run: from where the client is to the end of the run, or to what a person has to decide."""

from collections.abc import Collection
from uuid import UUID

from towpath_contracts import rpc
from towpath_contracts.base import JsonObject
from towpath_contracts.runs.statuses import STANDING_STATUSES
from towpath_contracts.runs.views import GatePage, ListGates
from towpath_gateway.app.asking_stream import MAX_ASKED, AskingStream
from towpath_gateway.app.dependencies import GatewayDependencies
from towpath_gateway.app.run_reader import RunStreamReader
from towpath_gateway.core.ag_ui_events import AgUiEvents
from towpath_gateway.core.api_keys import Principal
from towpath_readings.stream.live import RunStreamGate, waiting_gate


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

    async def _asks(self, reader: RunStreamReader) -> list[JsonObject]:
        gates = await self._asked(reader)
        return self._ag_ui.interrupted(gates) if gates else []

    async def _asked(self, reader: RunStreamReader) -> list[RunStreamGate]:
        """Return what waits for a person: in the run, or below it where the key may see that."""
        own = [gate for gate in self._ag_ui.gates.values() if gate.gate_id not in self._decided]
        if own or reader.page is None or reader.page.status not in STANDING_STATUSES:
            return own
        if "gates:read" not in self._principal.scopes or self._ag_ui.gates:
            return []
        request = ListGates(project=self._principal.project, root_run_id=self._run_id, paused=False, limit=MAX_ASKED)
        page: GatePage = await self._dependencies.platform.request(rpc.LIST_GATES, request)
        return [
            waiting_gate(gate.gate_id, gate.gate_type, gate.detail, gate.expires_at)  # no call that this stream told of
            for gate in page.gates
            if gate.gate_id not in self._decided
        ]
