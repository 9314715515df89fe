"""Below a run that was stopped stands the command that goes on with it; while calls wait for a worker, that is said."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from towpath.cli.administration.doctor_command import check_untaken_calls
from towpath.cli.administration.queues_commands import _trouble
from towpath.cli.runs.next_command import next_command
from towpath.cli.runs.run_follower import RunFollower
from towpath.cli.runs.run_waits import ASKED_AT_ONCE, MOST_ASKED, calls_without_worker, short_waits
from towpath.cli.runs.runs_commands import _why, show_untaken
from towpath.cli.shared.output import OutputPrinter
from towpath.client.client import Client
from towpath.errors import DeniedError
from towpath_contracts.decisions.decision import CallToolsInstruction
from towpath_contracts.events.log import EffectResent, InstructionIssued, LogEntry
from towpath_contracts.problems.registry import problem
from towpath_contracts.run_limits import MAX_STEPS_CAP
from towpath_contracts.runs.views import RunView
from towpath_contracts.tools.queues import BUSY_CALLS, QueueList, QueueState

RUN = UUID(int=7)
AT = datetime(2026, 11, 22, tzinfo=UTC)
UNTAKEN = QueueState(stream="TOOLEXEC", consumer="orders", toolset="orders", waits=2)


def view(**more: Any) -> RunView:
    known = {"project": "p", "kind": "network", "network": "support", "version": 1, "snapshot_digest": "sha256:0"}
    seen = {"run_id": RUN, "status": "failed", "caller": "me", "seq": 9, "created_at": AT, "step": 5, "max_steps": 5}
    return RunView.model_validate(known | seen | more)


@pytest.mark.parametrize(
    ("end", "told"),
    [
        ({"reason": "loop_detected"}, f"towpath runs fork {RUN} --from-step 5 --note 'what to do otherwise'"),
        ({"reason": "max_steps_exceeded"}, f"towpath runs fork {RUN} --from-step 6 --set max_steps=10"),
        (
            {"reason": "max_steps_exceeded", "max_steps": MAX_STEPS_CAP},
            f"towpath runs fork {RUN} --from-step 6 --set max_steps={MAX_STEPS_CAP}",
        ),
        ({"reason": "budget_exceeded"}, f"towpath runs fork {RUN} --from-step 5 --fresh-budget"),
        (
            {"reason": "deadline_exceeded", "status": "timed_out"},
            f"towpath runs fork {RUN} --from-step 5 --set timeout",
        ),
        ({"reason": "script_exhausted"}, None),
        ({"reason": "budget_exceeded", "kind": "plan"}, None),
        ({"reason": "budget_exceeded", "step": 0}, None),
        ({"reason": "", "status": "completed"}, None),
    ],
)
def test_a_run_that_was_stopped_is_told_with_what_goes_on_with_it(end: dict[str, Any], told: str | None) -> None:
    found = next_command(view(**end))
    assert found is None if told is None else found is not None and found.startswith(told)


class Queues:
    """Answers with one list of queues after the other; the last one stays."""

    def __init__(self, *lists: tuple[QueueState, ...] | None) -> None:
        self._lists = list(lists)

    async def list(self) -> QueueList:
        found = self._lists.pop(0) if len(self._lists) > 1 else self._lists[0]
        if found is None:
            raise DeniedError(problem("forbidden", "this needs the scope runs:read"))
        return QueueList(queues=found)


class WaitingRun(Client):
    """A run whose calls have gone out, and of which nothing more is heard until something was said of them."""

    def __init__(self, queues: Queues, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__("http://127.0.0.1:9")
        self.queues, self.said, self._capsys = queues, list[str](), capsys  # type: ignore[assignment]

    async def events(self, _run: UUID | str, _after: int = 0, *, children: bool = False) -> AsyncIterator[LogEntry]:
        calls = CallToolsInstruction(calls=())
        yield LogEntry(seq=1, at=AT, event=InstructionIssued(step=1, epoch=1, agent_key="a", instruction=calls))
        yield LogEntry(seq=2, at=AT, event=EffectResent(effect_id=RUN, attempt=2, resend_at=AT))
        async with asyncio.timeout(60):
            while not self.said:
                await asyncio.sleep(0.001)
                self.said.extend(self._capsys.readouterr().err.splitlines())


async def test_calls_that_no_worker_takes_are_told_once_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    taken = UNTAKEN.model_copy(update={"listeners": 1})
    async with WaitingRun(Queues((), (taken,), (UNTAKEN,)), capsys) as client:
        await RunFollower(client, OutputPrinter("json"), unanswered_s=0.01).follow(RUN)
    assert len(client.said) == 1 and "2 calls wait" in client.said[0] and "toolset orders" in client.said[0]
    assert "towpath worker" in client.said[0]


async def test_a_key_that_may_not_look_at_queues_follows_its_run_all_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with WaitingRun(Queues(None), capsys) as client:
        assert await calls_without_worker(client) == []


@pytest.mark.parametrize(
    ("queue", "told"),
    [
        (UNTAKEN, True),
        (UNTAKEN.model_copy(update={"listeners": 1}), False),
        (UNTAKEN.model_copy(update={"in_flight": BUSY_CALLS}), False),  # it has too much to do to ask for more
        (UNTAKEN.model_copy(update={"in_flight": BUSY_CALLS, "redelivered": 1}), True),
        (UNTAKEN.model_copy(update={"waits": 0}), False),
    ],
)
async def test_every_command_takes_a_worker_that_is_busy_for_one(
    queue: QueueState, told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    async with WaitingRun(Queues((queue,)), capsys) as client:
        assert bool(await check_untaken_calls(client)) is told
        assert bool(await calls_without_worker(client)) is told
    assert (_trouble(queue.model_dump(mode="json")) == "nobody takes from it") is told


class ListedRuns(Client):
    """Runs of a list; each says what it waits for when it is asked for alone."""

    def __init__(self, *found: RunView) -> None:
        super().__init__("http://127.0.0.1:9")
        self.asked = list[UUID]()
        self.most_at_once = 0
        self._asking = 0
        self._found = {one.run_id: one for one in found}

    async def get(self, run_id: UUID | str, *, wait_ms: int = 0) -> RunView:
        self.asked.append(UUID(str(run_id)))
        self._asking += 1
        self.most_at_once = max(self.most_at_once, self._asking)
        await asyncio.sleep(0)
        self._asking -= 1
        if self._found[UUID(str(run_id))].caller == "erased":
            raise DeniedError(problem("forbidden", "no"))
        return self._found[UUID(str(run_id))]


async def test_a_list_says_of_unfinished_runs_in_short_what_they_wait_for() -> None:
    waits = {
        1: ("approval: refunds of more than 100 need a person",),
        2: ("tool: no worker takes calls of the toolset orders (start the one that has it: towpath worker MODULE)",),
        3: (),
    }
    runs = [view(run_id=UUID(int=number), status="waiting", waits=waits[number]) for number in waits]
    gone = view(run_id=UUID(int=4), status="running", caller="erased")
    ended = view(run_id=UUID(int=5), reason="budget_exceeded", message="it spent 0.5 of 0.5 USD")
    async with ListedRuns(*runs, gone, ended) as client:
        found = await short_waits(client, [*runs, gone, ended])
    assert [client.asked.count(UUID(int=number)) for number in range(1, 6)] == [1, 1, 1, 1, 0]
    rows = [{**one.model_dump(mode="json"), "waits": found.get(one.run_id, ())} for one in (*runs, gone, ended)]
    assert [_why(row) for row in rows] == [
        "approval: refunds of more than 100 need a person",
        "no worker for its calls",
        "",
        "",
        "budget_exceeded: it spent 0.5 of 0.5 USD",
    ]


async def test_of_the_runs_of_a_list_few_are_asked_at_once() -> None:
    runs = [view(run_id=UUID(int=number), status="waiting", waits=("tool: x",)) for number in range(MOST_ASKED + 9)]
    async with ListedRuns(*runs) as client:
        found = await short_waits(client, runs)
    assert len(found) == len(client.asked) == MOST_ASKED
    assert client.most_at_once == ASKED_AT_ONCE


@pytest.mark.parametrize(
    ("statuses", "queue", "told"),
    [
        (("completed", "running"), UNTAKEN, True),
        (("running",), UNTAKEN.model_copy(update={"listeners": 1}), False),
        (("running",), UNTAKEN.model_copy(update={"waits": 0}), False),
        (("completed", "waiting"), UNTAKEN, False),
    ],
)
async def test_below_runs_that_go_on_stands_which_calls_no_worker_takes(
    statuses: tuple[str, ...], queue: QueueState, told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [view(status=status) for status in statuses]
    async with WaitingRun(Queues((queue,)), capsys) as client:
        await show_untaken(client, runs, OutputPrinter("json"))
        assert capsys.readouterr().out == "", "a program reads documents alone"
        await show_untaken(client, runs, OutputPrinter("table"))
    shown = capsys.readouterr().out
    assert ("2 calls wait, and no worker takes what is of the toolset orders" in shown) is told
    assert ("towpath worker MODULE_OR_FILE" in shown) is told


async def test_the_doctor_finds_toolsets_whose_calls_no_worker_takes(capsys: pytest.CaptureFixture[str]) -> None:
    taken = UNTAKEN.model_copy(update={"toolset": "mail", "listeners": 1})
    async with WaitingRun(Queues((taken, UNTAKEN)), capsys) as client:
        (found,) = await check_untaken_calls(client)
    assert (found.check, found.good) == ("toolset orders", False)
    assert found.detail.startswith("2 calls wait") and found.remedy.startswith("Start the worker")
