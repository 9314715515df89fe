"""A submitted run as a value: what was accepted says whether two are the same, and goes where no client can."""

import copy
import pickle
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from towpath import RefusedError, SubmittedRun, SyncSubmittedRun
from towpath_contracts.tasks import RunAccepted

RUN_ID = UUID("00000000-0000-7000-8000-000000000001")
BEGAN = datetime(2026, 11, 27, tzinfo=UTC)
ACCEPTED = RunAccepted(run_id=RUN_ID, project="p", network="n", version=1, status="queued", created_at=BEGAN)


class CancelsRuns:
    """A client that can be neither copied nor pickled."""

    async def cancel(self, run_id: UUID, reason: str = "") -> Any:
        return run_id, reason

    def __reduce__(self) -> str:
        raise TypeError("a connection stays where it is")


def submitted() -> SubmittedRun:
    return SubmittedRun.of(ACCEPTED, CancelsRuns())  # type: ignore[arg-type]


@pytest.mark.parametrize("run", [submitted(), SyncSubmittedRun.of(submitted())])
def test_it_is_what_was_accepted(run: SubmittedRun | SyncSubmittedRun) -> None:
    for other in (pickle.loads(pickle.dumps(run)), copy.deepcopy(run), copy.copy(run)):
        assert other == run == ACCEPTED == other and hash(other) == hash(run)
        assert type(other) is type(run)
    assert run != ACCEPTED.model_copy(update={"status": "running"}) and run != ACCEPTED.run_id


async def test_one_that_came_without_its_client_says_so() -> None:
    came = pickle.loads(pickle.dumps(submitted()))
    with pytest.raises(RefusedError, match=r"without the client that submitted .*: client\.get\(run_id\)"):
        await came.cancel("late")
    assert await copy.deepcopy(submitted()).cancel("late") == (ACCEPTED.run_id, "late")


def test_so_does_one_that_needs_no_await() -> None:
    came = pickle.loads(pickle.dumps(SyncSubmittedRun.of(submitted())))
    with pytest.raises(RefusedError, match="without the client"):
        came.cancel()
    assert SyncSubmittedRun.of(submitted()).cancel("late") == (ACCEPTED.run_id, "late")
