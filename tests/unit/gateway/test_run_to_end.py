"""What goes wrong once there is a run names it: who repeated the request would have its effects a second time."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.tasks import RunAccepted, SubmitTask
from towpath_gateway.app.routes.legacy_run_api import run_to_end

RUN = uuid4()


class Platform:
    """Accepts a task, and fails afterwards."""

    async def submit(self, *_: Any) -> RunAccepted:
        return RunAccepted(
            run_id=RUN, project="p", network="n", version=1, status="queued", created_at=datetime.now(UTC)
        )

    async def wait_for_end(self, *_: Any) -> None:
        raise ProblemError(problem("project_share_full", "too many long answers wait", retry_after_s=1))


async def test_a_refusal_after_the_run_was_accepted_names_the_run() -> None:
    dependencies: Any = SimpleNamespace(platform=Platform())
    principal: Any = SimpleNamespace(caller="c", project="p")
    with pytest.raises(ProblemError) as refused:
        await run_to_end(dependencies, principal, SubmitTask(network="n", user_message="go"), 1)
    assert refused.value.problem.code == "project_share_full"
    assert refused.value.problem.run_id == str(RUN)
