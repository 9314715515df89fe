"""Submits the runs of a soak, as many as may be under way, and does what people do to them: approve, resolve, cancel.

A submission is repeated under its key until it is accepted, as any client should do it; each that is accepted is
written to a file at once, so that what was promised is known however the soak ends.
"""

import asyncio
import contextlib
import json
from collections import Counter
from pathlib import Path
from typing import Any, Final, TextIO

from nats.aio.client import Client as NatsClient
from nats.errors import Error as NatsError
from tests.chaos.load.steady_load import connect
from tests.chaos.soak.mixture import is_cancelled, kind_of, networks, task_of

from towpath.client.client import Client
from towpath.errors import TowpathError
from towpath_contracts import rpc, subjects
from towpath_embedded.chaos.run_watcher import DatabaseReader
from towpath_embedded.platform import Platform
from towpath_fabric.clock import monotonic

LOOK_S: Final = 0.1
ASK_S: Final = 10.0
AGAIN_S: Final = 0.5
PATIENCE_S: Final = 300.0
PASSED: Final = frozenset({"run_finished"})
"""What is no fault: a run that ended by itself takes no cancel."""

SUBMITTERS: Final = 64
"""Submissions that wait for their answer at a time."""

PUBLISH_S: Final = 90.0
CALLER: Final = "soak"
"""Who submits: another one than who approves, since nobody approves what they asked for."""

_ADMIT: Final = "INSERT INTO gateway.principal (caller, project) VALUES ($1, 'default') ON CONFLICT DO NOTHING"
_UNDER_WAY: Final = (
    "SELECT count(*) AS n, count(*) FILTER (WHERE parent_run_id IS NULL) AS roots FROM runs.run"
    " WHERE status IN ('running', 'waiting', 'cancelling') UNION ALL"
    " SELECT count(*), count(*) FILTER (WHERE parent_run_id IS NULL) FROM runs.run WHERE status = 'queued'"
)
"""Two looks into indexes that hold nothing but what has not ended."""


async def publish(client: Client) -> None:
    """Publish the networks; until the worker has registered, its tools are not known and that is refused."""
    end = monotonic() + PUBLISH_S
    for spec in networks():
        while True:
            try:
                await client.networks.publish(spec)
                break
            except TowpathError:
                if monotonic() > end:
                    raise
            await asyncio.sleep(AGAIN_S)


class SoakLoad:
    """Submits *runs* runs on *platform*, at most *at_once* of them under way; `accepted` are the runs by number.

    `ending` is set from outside where no more are to be submitted; what was begun goes on until its time is over.
    """

    def __init__(self, platform: Platform, *, runs: int, at_once: int, seed: int, ids: TextIO) -> None:
        self.runs = runs
        self.accepted: dict[int, str] = {}
        self.kinds: dict[str, int] = {}
        self.asked_again = Counter[str]()
        """Questions that got no answer, or a refusal that may pass, by its code."""
        self.under_way = 0
        self.roots_under_way = 0
        self.waited_s = 0.0
        """How long there was no room for another run: the platform is the bottleneck then, and not what submits."""
        self.ending = asyncio.Event()
        self._platform = platform
        self._at_once = at_once
        self._seed = seed
        self._ids = ids
        self._next = 0
        self._room = 0
        self._asked = 0
        self._reader = DatabaseReader(platform.dsn())
        self._nc: NatsClient | None = None

    @property
    def done(self) -> int:
        """How many of the accepted runs had ended at the last look."""
        return len(self.accepted) - self.roots_under_way

    async def submit_all(self) -> None:
        """Submit until every run is accepted or `ending` is set; the last batch is accepted by then."""
        await self._reader.rows(_ADMIT, CALLER)
        # What is let in for the gateway may speak for any caller, as the gateway does.
        self._nc = await connect(self._platform.nats_url_of("gateway"), inbox=b"_INBOX_gateway")
        looking = asyncio.create_task(self._look_regularly())
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(SUBMITTERS):
                    group.create_task(self._submit_next(group))
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def look(self) -> bool:
        """Ask how many runs are under way, children among them; False where the database is away."""
        rows = await self._reader.rows(_UNDER_WAY)
        if rows is None:
            return False
        self.under_way = sum(row["n"] for row in rows)
        self.roots_under_way = sum(row["roots"] for row in rows)
        self._room = self._at_once - self.under_way - self._asked
        return True

    async def all_ended(self, patience_s: float) -> bool:
        """Wait until nothing is under way; False where something still is after *patience_s*."""
        end = monotonic() + patience_s
        while not (await self.look() and not self.under_way):
            if monotonic() > end:
                return False
            await asyncio.sleep(LOOK_S)
        return True

    async def close(self) -> None:
        """Close the connections."""
        await self._reader.close()
        if self._nc is not None:
            await self._nc.close()

    async def _look_regularly(self) -> None:
        while True:
            if not await self.look():
                self._room = 0
            if self._room <= 0:
                self.waited_s += LOOK_S
            await asyncio.sleep(LOOK_S)

    async def _submit_next(self, group: asyncio.TaskGroup) -> None:
        """Submit one run after the other, whenever there is room for it."""
        while not self.ending.is_set() and self._next < self.runs:
            if self._room <= 0:
                await asyncio.sleep(LOOK_S / 4)
                continue
            number, self._next = self._next, self._next + 1
            self._room -= 1
            self._asked += 1
            await self._submit(number, group)
            self._asked -= 1

    async def _submit(self, number: int, cancels: asyncio.TaskGroup) -> None:
        answer = await self._ask(subjects.task_submit(CALLER), task_of(number, self._seed))
        run_id = self.accepted[number] = str(answer["run_id"])
        kind = kind_of(number, self._seed)
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        self._ids.write(f"{number} {kind} {run_id}\n")
        if is_cancelled(number, self._seed):
            cancels.create_task(self._cancel(run_id))

    async def _cancel(self, run_id: str) -> None:
        await self._ask(rpc.CANCEL_RUN.subject, {"project": "default", "run_id": run_id, "actor": CALLER})

    async def _ask(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        """Ask until there is a final answer; AssertionError where that is a refusal, TimeoutError where none comes.

        That a run which ended by itself takes no cancel is no refusal.
        """
        assert self._nc is not None
        data, end = json.dumps(body).encode(), monotonic() + PATIENCE_S
        while monotonic() < end:
            answer: dict[str, Any] = {"code": "no answer"}
            with contextlib.suppress(TimeoutError, NatsError):
                answer = json.loads((await self._nc.request(subject, data, timeout=ASK_S)).data)
                if "code" not in answer or answer["code"] in PASSED:
                    return answer
                if not answer.get("retryable"):
                    raise AssertionError(f"{subject}: {answer}")
            self.asked_again[answer["code"]] += 1
            await asyncio.sleep(AGAIN_S)
        raise TimeoutError(f"{subject} was not answered within {PATIENCE_S:.0f} s: {answer}")


def read_ids(place: Path) -> dict[str, str]:
    """Return every accepted run of the file *place* with its kind."""
    lines = (line.split() for line in place.read_text("utf-8").splitlines())
    return {words[2]: words[1] for words in lines if len(words) == 3}
