"""The workspace of a run: its files and its plan, while it goes on and afterwards.

What is shown is what the run's log names; a file's text is the blob of exactly that digest.
"""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Response

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.tools.workspace import FileText, FileVersion, WorkspaceView
from towpath_gateway.app.dependencies import (
    Dependencies,
    GatewayDependencies,
    RunsReader,
    documented,
    json_answer,
    long_json_answer,
)
from towpath_gateway.app.strict_requests import BoundedJsonRoute
from towpath_readings.workspace import WorkspaceReader

router = APIRouter(prefix="/v1/runs/{run_id}/workspace", route_class=BoundedJsonRoute, tags=["runs"])


@router.get(
    "", response_model=WorkspaceView, responses=documented("run_not_found", "run_erased"), summary="The files of a run"
)
async def get_workspace(run_id: UUID, dependencies: Dependencies, principal: RunsReader) -> Response:
    """Return the files of a run with their versions, and its plan, as they stand."""
    return json_answer(await _view(dependencies, principal.project, run_id))


@router.get(
    "/{path:path}",
    response_model=FileText,
    responses=documented("run_not_found", "run_erased", "file_not_found"),
    summary="Read a file of a run",
)
async def get_file(
    run_id: UUID,
    path: str,
    dependencies: Dependencies,
    principal: RunsReader,
    version: Annotated[int | None, Query(ge=1, description="An earlier version of the file")] = None,
) -> Response:
    """Return the text of a file, as it stands or as an earlier version was."""
    view = await _view(dependencies, principal.project, run_id)
    file = next((one for one in view.files if one.path == path), None)
    wanted: FileVersion | None = None
    if file is not None:
        number = file.version if version is None else version
        wanted = next((one for one in file.versions if one.version == number), None)
    if wanted is None:
        which = f"version {version} of {path}" if file is not None else f"file {path}"
        raise ProblemError(problem("file_not_found", f"run {run_id} has no {which}", run_id=str(run_id)))
    async with dependencies.readings.blob(principal.project, run_id, wanted.digest) as data:
        text = FileText(run_id=run_id, path=path, version=wanted.version, digest=wanted.digest, content=data.decode())
        return await long_json_answer(dependencies, principal.project, text)


async def _view(dependencies: GatewayDependencies, project: str, run_id: UUID) -> WorkspaceView:
    reader = WorkspaceReader(run_id)
    async with dependencies.readings.log(project, run_id, reader):
        return reader.view()
