"""What an autoscaler is told of a pool: a number where the broker gave one, and else an error, never a zero."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.queues import QueueList, QueueState
from towpath_gateway.app.routes.queues import show_demand


async def asked(*queues: QueueState) -> Any:
    """Ask about the pool `orders`, where the tool-access service answers with *queues*."""

    async def request(_method: Any, wanted: Any, **_: Any) -> QueueList:
        assert (wanted.project, wanted.toolset, wanted.platform) == ("p", "orders", False)
        return QueueList(queues=queues)

    dependencies: Any = SimpleNamespace(platform=SimpleNamespace(request=request))
    return await show_demand("orders", dependencies, SimpleNamespace(project="p"))  # type: ignore[arg-type]


def queue(**given: Any) -> QueueState:
    return QueueState(stream="TOOLEXEC", consumer="exec_p=orders", toolset="orders", **given)


async def test_calls_that_wait_and_calls_that_run_are_counted() -> None:
    answer = await asked(queue(waits=3, in_flight=2, redelivered=1, listeners=7))
    assert json.loads(answer.body)["value"] == 5


@pytest.mark.parametrize(("queues", "code"), [((), "not_found"), ((queue(missing=True),), "unavailable")])
async def test_what_nobody_knows_is_no_zero(queues: tuple[QueueState, ...], code: str) -> None:
    with pytest.raises(ProblemError) as refused:
        await asked(*queues)
    assert refused.value.problem.code == code
