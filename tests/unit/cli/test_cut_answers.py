"""Commands whose answer is not all there is say so beside it, where no program reads it."""

from contextlib import asynccontextmanager
from datetime import date
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from towpath.cli.access.costs_command import costs
from towpath.cli.administration.workers_commands import list_workers
from towpath.cli.runs.bulk_command import bulk
from towpath.cli.shared.output import OutputPrinter
from towpath_contracts.runs.costs import CostReport, NamedCost
from towpath_contracts.tools.workers import WorkerList


def options(client: Any) -> Any:
    """Stands for the options of a command: its output is counted and goes nowhere."""

    @asynccontextmanager
    async def connect() -> Any:
        yield client

    quiet = OutputPrinter("json").progress
    out = SimpleNamespace(rows=lambda *_, **__: None, record=lambda *_, **__: None, progress=quiet)
    return SimpleNamespace(connect=connect, out=lambda: out)


@pytest.mark.parametrize(("by", "left_out", "says"), [("label", 3, "3 more"), ("label", 0, ""), ("day", 3, "")])
async def test_costs_say_how_many_names_are_left_out(
    by: Literal["label", "day"], left_out: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = NamedCost(name="team=shop", usd=1.0, tokens=2, model_calls=1)
    report = CostReport(by="label", since=date(2026, 11, 26), names=(name,), days=(), left_out=left_out)

    async def answer(**_: Any) -> CostReport:
        return report

    await costs(by=by, common=options(SimpleNamespace(budgets=SimpleNamespace(costs=answer))))
    said = capsys.readouterr().err
    assert says in said and bool(said) == bool(says)


@pytest.mark.parametrize(("left_out", "says"), [(3, "3 more toolsets of workers are not listed\n"), (0, "")])
async def test_workers_that_found_no_room_are_counted(
    left_out: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def answer() -> WorkerList:
        return WorkerList(workers=(), left_out=left_out)

    await list_workers(common=options(SimpleNamespace(workers=SimpleNamespace(list=answer))))
    assert capsys.readouterr().err == says


@pytest.mark.parametrize("whole", [True, False])
async def test_many_runs_are_sent_as_many_at_once_as_are_taken_and_it_is_said_that_there_are_more(
    whole: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[dict[str, Any]] = []

    async def request(_: str, path: str, *, body: dict[str, Any]) -> dict[str, Any]:
        if path.endswith("/select"):
            return {"count": 150, "whole": whole, "run_ids": [str(number) for number in range(150)]}
        asked.append(body)
        return {"results": [{"code": ""} for _ in body["run_ids"]]}

    assert await bulk("cancel", yes=True, common=options(SimpleNamespace(request=request))) == 0
    assert [len(body["run_ids"]) for body in asked] == [100, 50]
    assert ("there are more" in capsys.readouterr().err) != whole
