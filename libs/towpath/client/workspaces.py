"""The workspaces of runs, as people and programs read them. HTTP only."""

from urllib.parse import quote
from uuid import UUID

from towpath.client.transport import Transport
from towpath_contracts.tools.workspace import WorkspaceView


class Workspaces:
    """`client.workspaces`: list the files of a run, and read them as any version was."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self, run_id: UUID | str) -> WorkspaceView:
        """Return the files of a run and its plan, as they stand."""
        return WorkspaceView.model_validate(await self._transport.request("GET", f"/v1/runs/{run_id}/workspace"))

    async def read(self, run_id: UUID | str, path: str, version: int | None = None) -> str:
        """Return the text of a file, as it stands or as *version* was; raises NotFoundError."""
        asked = f"/v1/runs/{run_id}/workspace/{quote(path)}"
        answer = await self._transport.request("GET", asked, query={} if version is None else {"version": version})
        return str(answer["content"])
