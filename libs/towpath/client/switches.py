"""The stop switch, as a client sets it. HTTP only."""

from towpath.client.transport import Transport
from towpath_contracts.base import JsonObject
from towpath_contracts.switches import SwitchKind, SwitchList, SwitchSet


class Switches:
    """What is paused."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self) -> SwitchList:
        """Return the project's open switches, oldest first."""
        return SwitchList.model_validate(await self._transport.request("GET", "/v1/switches"))

    async def pause(
        self, kind: SwitchKind, name: str | None = None, *, reason: str, stop_running: bool = False
    ) -> SwitchSet:
        """Hold new calls back; with *stop_running* also ask those that run to stop. A project needs no *name*."""
        return await self._set("pause", kind, name, {"reason": reason, "stop_running": stop_running})

    async def resume(self, kind: SwitchKind, name: str | None = None, *, reason: str) -> SwitchSet:
        """Let what waits go on."""
        return await self._set("resume", kind, name, {"reason": reason})

    async def _set(self, verb: str, kind: SwitchKind, name: str | None, more: JsonObject) -> SwitchSet:
        body = {"kind": kind, **more} if name is None else {"kind": kind, "name": name, **more}
        return SwitchSet.model_validate(await self._transport.request("POST", f"/v1/switches/{verb}", body=body))
