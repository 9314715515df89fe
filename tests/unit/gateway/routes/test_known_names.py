"""A refused request is told with the run or the gate that its path names, in the place of the word for it."""

import json
import uuid

import httpx2
import pytest
from fastapi import FastAPI

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_gateway.app.errors import naming_run, on_problem

GATE, RUN = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))


async def refused(path: str) -> str:
    app = FastAPI()
    app.state.dependencies = None
    app.add_exception_handler(ProblemError, on_problem)

    @app.get("/v1/gates/{gate_id}")
    async def at_gate(gate_id: str) -> None:
        raise ProblemError(problem("verdict_invalid", f"{gate_id}: say one of: approved, denied"))

    @app.get("/v1/runs/{run_id}")
    async def of_run(run_id: str) -> None:
        raise ProblemError(problem("answer_missing", f"{run_id} has none"))

    @app.get("/v1/named")
    async def of_named() -> None:
        with naming_run(uuid.UUID(RUN)):
            raise ProblemError(problem("answer_missing", "it has none"))

    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://towpath") as client:
        remedy: str = json.loads((await client.get(path)).content)["remedy"]
        return remedy


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        (f"/v1/gates/{GATE}", f"Say one of those in detail: towpath gates resolve {GATE} VERDICT."),
        (f"/v1/runs/{RUN}", f"Look at it: towpath runs show {RUN}."),
        ("/v1/named", f"Look at it: towpath runs show {RUN}."),
        ("/v1/gates/$(id)", "Say one of those in detail: towpath gates resolve GATE VERDICT."),
    ],
)
async def test_a_remedy_names_what_the_path_names(path: str, remedy: str) -> None:
    assert await refused(path) == remedy
