"""The last line of a run that is followed says that no model was asked only where all of its decisions were seen."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from uuid import UUID

import pytest

from towpath.cli.runs.run_follower import RunFollower
from towpath.cli.shared.output import OutputPrinter
from towpath.client.client import Client
from towpath_contracts.decisions.request import Usage
from towpath_contracts.events.log import AnyEvent, DecisionRequested, LogEntry, RunFinished

RUN = UUID(int=7)
AT = datetime(2026, 11, 22, tzinfo=UTC)


def asked(model: str) -> AnyEvent:
    return DecisionRequested(request_id=RUN, step=1, epoch=1, agent_key="clerk", model=model)


class EndedRun(Client):
    """A run whose first decision a model made, and whose second was played from a script."""

    async def events(self, _run: UUID | str, after: int = 0, *, children: bool = False) -> AsyncIterator[LogEntry]:
        usage = Usage(model_calls=2)
        end = RunFinished(status="completed", reason="responded", final={}, steps=2, fence=1, usage=usage)
        for seq, event in enumerate((asked("gemini:x"), asked("scripted:task"), end), 1):
            if seq > after:
                yield LogEntry(seq=seq, at=AT, event=event)


@pytest.mark.parametrize("after", [0, 1])
async def test_of_decisions_that_were_not_seen_it_is_not_said_that_a_script_played_them(
    after: int, capsys: pytest.CaptureFixture[str]
) -> None:
    async with EndedRun("http://127.0.0.1:9") as client:
        await RunFollower(client, OutputPrinter("table")).follow(RUN, after)
    told = capsys.readouterr().out
    assert "2 model calls" in told and "scripted" not in told
