"""A platform under steady load, for scenarios that break a server: runs of marking tools, their end, the judgement.

A submission is repeated under its key until it is answered, as any client should do it. Nothing here knows what is
broken.
"""

import asyncio
import contextlib
import json
import logging
import random
from collections.abc import Callable, Collection
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import asyncpg
import nats as nats_client
from nats.aio.client import Client
from nats.errors import Error as NatsError
from tests.chaos.load.tools import EVERY_CLASS, OUTSIDE_VARIABLE, TOOL_NAMES
from tests.support.places import IMPORTS_TESTS

from towpath_contracts import rpc, subjects
from towpath_contracts.networks.spec import PublishNetwork
from towpath_embedded.chaos.judge import FINAL, JudgeReport, judge
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_fabric.clock import monotonic

_log = logging.getLogger(__name__)

NETWORK: Final = "marking"
AT_ONCE: Final = 32
"""Submissions under way at a time, so that asking costs little beside the work."""

ASK_S: Final = 12.0
ASK_AGAIN_S: Final = 0.2
LOOK_S: Final = 0.1
DATABASE_ERRORS = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""What asking a database raises that is broken on purpose."""

_POLICY = "kind: Policy\nrules:\n  - {name: marks, tool: 'marking.*', effect: allow}\n"
_SPEC = {
    "name": NETWORK,
    "agents": [
        {
            "key": "marker",
            "is_default": True,
            "allow_respond": True,
            "equipped_tools": list(EVERY_CLASS),
            "prompt_template": "Mark.",
        }
    ],
    "max_steps": 50,
    "timeout_ms": 1_800_000,
}


def scripted_decisions(
    steps: int, seed: int, tools: tuple[str, ...] = TOOL_NAMES, delay_ms: int = 0
) -> list[dict[str, Any]]:
    """Return a script of *steps* calls of tools chosen by *seed*, then the answer."""
    chance = random.Random(seed)
    calls = [{"tool_name": chance.choice(tools), "tool_params": {"n": n}} for n in range(steps)]
    used = [
        {
            "action": "USE_TOOL",
            "action_reasoning": "mark",
            "action_details": {"calls": [call]},
            **({"delay_ms": delay_ms} if delay_ms else {}),
        }
        for call in calls
    ]
    return [*used, {"action": "RESPOND", "action_reasoning": "done", "action_details": {"payload": "done"}}]


class SteadyLoad:
    """A platform under steady work, as a context: started with it and stopped with it.

    *options* are those of *make*, by default the Platform's own; *rules* are more lines of the permission matrix.
    `run_ids` are all accepted runs.
    """

    def __init__(
        self,
        folder: Path,
        *,
        workers: int = 1,
        make: Callable[..., Platform] = Platform,
        rules: str = "",
        **options: Any,
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.outside = folder / "outside.txt"
        policy = folder / "policy.yaml"
        policy.write_text(_POLICY + rules)
        environment = {name: dict(values) for name, values in options.pop("role_environment", {}).items()}
        environment.setdefault("tas", {})["TOWPATH_POLICY_FILE"] = str(policy)
        worker = WorkerLaunch(
            modules=("tests.chaos.load.tools",),
            count=workers,
            concurrency=8,
            environment={**IMPORTS_TESTS, OUTSIDE_VARIABLE: str(self.outside)},
        )
        self.platform = make(folder / "d", role_environment=environment, workers=[worker], **options)
        self.run_ids: list[str] = []
        self._nc: Client | None = None
        self._reader: Any = None
        self._numbers = 0

    @property
    def nc(self) -> Client:
        """A client's connection, as the caller `anonymous`; RuntimeError before the start."""
        if self._nc is None:
            raise RuntimeError("The work has not begun.")
        return self._nc

    async def __aenter__(self) -> Self:
        await self.platform.start()
        try:
            self._nc = await connect(self.platform.nats_url)
            await self._publish()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    async def submit(
        self,
        count: int,
        *,
        steps: int = 6,
        patience_s: float = 120,
        delay_ms: int = 0,
        tools: tuple[str, ...] = TOOL_NAMES,
    ) -> list[str]:
        """Submit *count* runs, each again and again under its key until it is accepted; TimeoutError names why not."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(number: int) -> str:
            async with gate:
                task = {
                    "network": NETWORK,
                    "user_message": f"run {number}",
                    "script": scripted_decisions(steps, number, tools, delay_ms=delay_ms),
                    "idempotency_key": f"steady-{number}",
                }
                return str((await self.ask(subjects.TASK_SUBMIT_ANONYMOUS, task, patience_s))["run_id"])

        numbers = range(self._numbers, self._numbers + count)
        self._numbers += count
        found = await asyncio.gather(*(one(number) for number in numbers))
        self.run_ids += found
        return list(found)

    async def ask(self, subject: str, body: dict[str, Any], patience_s: float) -> dict[str, Any]:
        """Ask until the answer is no problem that may pass; raises TimeoutError with the last one."""
        end = monotonic() + patience_s
        answer: dict[str, Any] = {}
        while monotonic() < end:
            with contextlib.suppress(TimeoutError, NatsError):
                answer = json.loads((await self.nc.request(subject, json.dumps(body).encode(), timeout=ASK_S)).data)
                if "code" not in answer:
                    return answer
                if not answer.get("retryable"):
                    raise AssertionError(f"{subject}: {answer}")
            await asyncio.sleep(ASK_AGAIN_S)
        raise TimeoutError(f"{subject}: {answer}")

    async def rows(self, statement: str, *values: object) -> list[Any] | None:
        """Ask the database as its owner; None while it is away."""
        try:
            if self._reader is None:
                self._reader = await asyncpg.connect(self.platform.dsn(), timeout=2)
            found: list[Any] = await self._reader.fetch(statement, *values, timeout=2)
        except DATABASE_ERRORS:
            self._drop()
            return None
        return found

    async def ended(self, run_ids: Collection[str] | None = None) -> int | None:
        """Return how many of *run_ids* (all, without) are at rest; None while the database is away.

        At rest is what has ended, and what waits for a person to resolve an unknown call.
        """
        rows = await self.rows(
            "SELECT count(*) AS n FROM runs.run r WHERE run_id = ANY ($1::uuid[]) AND (status = ANY ($2) OR EXISTS"
            " (SELECT FROM runs.gate g WHERE g.run_id = r.run_id AND g.status = 'pending'))",
            list(self.run_ids if run_ids is None else run_ids),
            list(FINAL),
        )
        return None if rows is None else int(rows[0]["n"])

    async def until_ended(self, share: float = 1.0, *, timeout_s: float = 180) -> None:
        """Wait until *share* of all runs have ended; TimeoutError names how many had."""
        await self.until(lambda count: count >= share * len(self.run_ids), timeout_s)

    async def until(self, condition: Callable[[int], bool], timeout_s: float) -> None:
        """Wait until *condition* holds for the number of ended runs."""
        end, count = monotonic() + timeout_s, None
        while monotonic() < end:
            count = await self.ended()
            if count is not None and condition(count):
                return
            await asyncio.sleep(LOOK_S)
        restarts = {name: state.restarts for name, state in self.platform.processes.items() if state.restarts}
        raise TimeoutError(f"{count} of {len(self.run_ids)} runs had ended after {timeout_s} s; restarts: {restarts}")

    async def events(self) -> int | None:
        """Return how many events the logs of all runs hold; None while the database is away."""
        rows = await self.rows("SELECT count(*) AS n FROM runs.run_event")
        return None if rows is None else int(rows[0]["n"])

    async def resumed(self, since: int, *, timeout_s: float = 120) -> float:
        """Wait until the logs hold more than *since* events, or nothing is left to do; return the seconds it took."""
        began = monotonic()
        while monotonic() - began < timeout_s:
            count = await self.events()
            if count is not None and (count > since or await self.ended() == len(self.run_ids)):
                return monotonic() - began
            await asyncio.sleep(LOOK_S / 2)
        raise TimeoutError(f"no run moved on within {timeout_s} s")

    async def verdict(self, *, settle_s: float = 60) -> JudgeReport:
        """Judge all runs, once the history holds them whole or after *settle_s*."""
        end = monotonic() + settle_s
        while True:
            rows = await self.rows(
                "SELECT count(*) AS n FROM runs.run r LEFT JOIN history.run_cursor c USING (run_id)"
                " WHERE c.seq IS DISTINCT FROM r.seq"
            )
            if (rows and rows[0]["n"] == 0) or monotonic() > end:
                return await judge(self.platform.dsn(), self.outside, self.run_ids)
            await asyncio.sleep(LOOK_S)

    async def _publish(self) -> None:
        gateway = await connect(self.platform.nats_url_of("gateway"), inbox=b"_INBOX_gateway")
        body = PublishNetwork(project="default", actor="chaos", spec=_SPEC).model_dump_json().encode()
        last_answer = b"nothing"
        try:
            async with asyncio.timeout(60):
                while True:
                    with contextlib.suppress(NatsError):
                        reply = await gateway.request(rpc.PUBLISH_NETWORK.subject, body, timeout=5)
                        if not (reply.headers and rpc.PROBLEM_HEADER in reply.headers):
                            return
                        last_answer = reply.data
                    await asyncio.sleep(ASK_AGAIN_S)
        except TimeoutError:
            raise TimeoutError(f"the network was not published: {last_answer.decode()}") from None
        finally:
            await gateway.close()

    def _drop(self) -> None:
        if self._reader is not None:
            self._reader.terminate()
        self._reader = None

    async def _stop(self) -> None:
        self._drop()
        if self._nc is not None:
            await self._nc.close()
        await self.platform.stop()


async def connect(url: str, *, inbox: bytes = b"_INBOX") -> Client:
    """Connect for as long as it takes, and again whenever the broker was away."""
    servers, options = url.split(","), {"max_reconnect_attempts": -1, "reconnect_time_wait": 0.1}
    return await nats_client.connect(servers, inbox_prefix=inbox, error_cb=_log_connection_error, **options)


async def _log_connection_error(error: Exception) -> None:
    """nats-py would log an error with a traceback, and here servers are broken on purpose."""
    _log.debug("connection error: %s", error)
