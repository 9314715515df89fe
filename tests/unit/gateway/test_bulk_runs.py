"""Selecting many runs looks at a bounded number and says whether these were all; few are acted on at a time."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from towpath_contracts import rpc
from towpath_contracts.runs.views import ListRuns, RunPage, RunView
from towpath_gateway.app.routes.runs.bulk import BulkRunsBody, SelectRunsBody, act_on_runs, select_runs
from towpath_gateway.core.api_keys import Principal

ANN = Principal(
    caller="ann", actor="ann", project="shop", scopes=frozenset({"runs:read"}), roles=frozenset(), key_prefix="k"
)


class Runs:
    """A project with so many runs of one status, of which a page has as many as are asked for; or empty pages."""

    def __init__(self, number: int, status: str = "failed", *, empty_pages: bool = False) -> None:
        self.number = 0 if empty_pages else number
        self.run = RunView.model_construct(run_id=UUID(int=1), status=status, erased_at=None)
        self.empty_pages = empty_pages
        self.pages = self.at_work = self.most = 0

    async def request(self, method: rpc.RpcMethod, request: Any, _timeout_s: float = 5.0) -> Any:
        if method is not rpc.LIST_RUNS:
            self.at_work += 1
            self.most = max(self.most, self.at_work)
            await asyncio.sleep(0)
            self.at_work -= 1
            return None
        return self._page(request)

    def _page(self, request: ListRuns) -> RunPage:
        self.pages += 1
        first = 0 if request.before is None else request.before.int
        runs = (self.run,) * max(0, min(self.number - first, request.limit))  # one object: to make thousands takes long
        more = self.empty_pages or first + request.limit < self.number
        return RunPage.model_construct(runs=runs, next_before=UUID(int=first + request.limit) if more else None)


async def selected(runs: Runs, action: str) -> tuple[int, bool]:
    wanted = SelectRunsBody.model_validate({"action": action})
    answer = await select_runs(wanted, SimpleNamespace(platform=runs), ANN)  # type: ignore[arg-type]
    found = json.loads(answer.body)
    assert len(found["run_ids"]) == found["count"]
    return found["count"], found["whole"]


@pytest.mark.parametrize(("number", "expected"), [(500, (500, True)), (501, (500, False))])
async def test_five_hundred_runs_are_selected_and_it_is_said_that_there_are_more(
    number: int, expected: tuple[int, bool]
) -> None:
    assert await selected(Runs(number), "retry") == expected


@pytest.mark.parametrize(("number", "whole"), [(5_000, True), (5_001, False)])
async def test_where_none_of_many_runs_fits_five_thousand_are_looked_at(number: int, whole: bool) -> None:
    runs = Runs(number, "completed")
    assert await selected(runs, "retry") == (0, whole)
    assert runs.pages == 25


async def test_where_pages_are_empty_for_ever_fifty_are_asked_for() -> None:
    runs = Runs(0, empty_pages=True)
    assert await selected(runs, "export") == (0, False)
    assert runs.pages == 50


async def test_a_hundred_runs_are_acted_on_eight_at_a_time() -> None:
    runs = Runs(0)
    body = BulkRunsBody(action="cancel", run_ids=tuple(UUID(int=one) for one in range(100)))
    answer = await act_on_runs(body, SimpleNamespace(platform=runs), ANN)  # type: ignore[arg-type]
    assert (json.loads(answer.body)["done"], runs.most) == (100, 8)
