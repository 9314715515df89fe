"""Many runs on one budget while real orchestrators are killed: `python -m tests.budgets.kills --kills 20`.

Two orchestrator processes on a real Postgres and a real NATS; this process plays the deciders and the tool-access
service, and keeps its own book of what it was paid for. Prints one line of JSON; ends with 1 if anything is wrong.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from typing import Any
from uuid import UUID

import asyncpg
from nats.aio.msg import Msg
from tests.support.orchestrator.orchestrator_peers import NETWORK, Peers, connected, respond, use
from tests.support.service_process import ServiceProcess, started

from towpath_contracts import rpc
from towpath_contracts.budgets import NOTHING, UNITS, Amounts, Budget, SetBudget
from towpath_contracts.decisions.request import CALL_LOST, DecisionRequest, Usage
from towpath_contracts.events.log import LogEntry, event_adapter
from towpath_contracts.facts import DecisionFailedFact, DecisionMadeFact
from towpath_contracts.networks.spec import NetworkSnapshot, PublishNetwork
from towpath_contracts.runs.statuses import FINAL_STATUSES
from towpath_contracts.tasks import SubmitTask
from towpath_embedded.servers.nats import Nats
from towpath_embedded.servers.postgres import Postgres
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_engine.replay import fold
from towpath_fabric.nats.pull_consumer import deliveries
from towpath_fabric.postgres.migrations import migrate

FAN = 64
LOST = 0.04
"""Answers that never come: paid, and then nothing."""

MUST_BE_ZERO = ("overspent", "leaked", "misattributed", "free", "unbound", "lost_runs", "not_over")
"""`unbound` are runs that asked a model before they knew of the limit, which was set before any task was submitted."""

STEP_TIMEOUT_MS = 1_000
MOST_S = 300.0


class PayingPeers(Peers):
    """Pays for every request that it takes, writes that down, and then answers, perhaps."""

    def __init__(self, nc: Any, chance: random.Random) -> None:
        super().__init__(nc, lambda request: respond("done") if request.step > chance.randint(2, 5) else use("x"))
        self.chance = chance
        self.paid: dict[UUID, Amounts] = defaultdict(lambda: NOTHING)
        self.told: dict[tuple[UUID, int], Amounts] = {}
        self.seen: Counter[str] = Counter()
        self.runs: dict[UUID, UUID] = {}
        self._answers: set[asyncio.Task[None]] = set()

    async def _decide(self, message: Msg) -> bool | None:
        request = DecisionRequest.model_validate_json(message.data)
        name: dict[str, Any] = {"run_id": request.run_id, "request_id": request.request_id, "attempt": request.attempt}
        if request.max_calls and deliveries(message) > 1:
            self.seen["call_lost"] += 1
            fact: Any = DecisionFailedFact(**name, code=CALL_LOST, message="it was here before")
            await self.send("decider", request.run_id, fact.model_dump_json().encode())
            return None
        calls, told, said = 1, self.chance.randint(10, 400), self.chance.randint(1, request.max_output_tokens)
        amounts = Amounts(tokens=told + said, model_calls=calls)
        self.paid[request.run_id] = self.paid[request.run_id].plus(amounts)
        self.told[request.request_id, request.attempt] = amounts
        self.seen["attempts"] += 1
        if self.chance.random() < LOST:
            self.seen["never_answered"] += 1
            return None
        usage = Usage(input_tokens=told, output_tokens=said, total_tokens=told + said, model_calls=calls)
        answer = self._say(DecisionMadeFact(**name, usage=usage, decision=self.decide(request)))
        task = asyncio.create_task(answer)
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)
        return None

    async def _say(self, fact: DecisionMadeFact) -> None:
        await asyncio.sleep(self.chance.choice((0.0, 0.01, 0.1, 0.4)))
        await self.send("decider", fact.run_id, fact.model_dump_json().encode())


async def kill_services(
    stack: ExitStack, start: Any, services: list[ServiceProcess], chance: random.Random, kills: int
) -> None:
    """Kill orchestrators, one after another; each comes again."""
    for _ in range(kills):
        await asyncio.sleep(chance.uniform(0.1, 0.8))
        place = chance.randrange(len(services))
        services[place].kill()
        services[place] = stack.enter_context(start())


async def submit_all(peers: PayingPeers, fan: int) -> list[UUID]:
    """Submit *fan* tasks at once, each until it is accepted."""

    async def one(number: int) -> UUID:
        budget = Budget(model_calls=12) if number % 2 else None
        task = SubmitTask(network="solo", user_message=f"Do {number}.", budget=budget, idempotency_key=f"k{number}")
        while True:
            try:
                reply = await peers.nc.request("task.submit", task.model_dump_json().encode(), timeout=5)
            except Exception as error:  # noqa: BLE001 - whoever was asked was killed; the key makes it one run
                peers.seen[f"submit_{type(error).__name__}"] += 1
                await asyncio.sleep(0.2)
                continue
            said = json.loads(reply.data)
            if "run_id" in said:
                return UUID(said["run_id"])
            await asyncio.sleep(0.2)

    return list(await asyncio.gather(*(one(number) for number in range(fan))))


async def all_ended(database: "asyncpg.Connection[Any]", fan: int) -> bool:
    """Wait until every run has its last word, and what was said late is folded."""
    until = time.monotonic() + MOST_S
    while time.monotonic() < until:
        rows = await database.fetch("SELECT status FROM runs.run")
        if len(rows) == fan and all(row["status"] in FINAL_STATUSES for row in rows):
            await asyncio.sleep(2)
            return True
        await asyncio.sleep(0.5)
    return False


async def judge(database: "asyncpg.Connection[Any]", peers: PayingPeers) -> dict[str, int]:
    """Compare the accounts with the logs, and both with the book."""
    figures = Counter(overspent=0, leaked=0, misattributed=0, free=0, unbound=0)
    spent: dict[tuple[str, str], Amounts] = defaultdict(lambda: NOTHING)
    paid: dict[tuple[str, str], Amounts] = defaultdict(lambda: NOTHING)
    for row in await database.fetch(
        "SELECT run_id, snapshot FROM runs.run JOIN runs.snapshot ON digest = snapshot_digest"
    ):
        events = await database.fetch("SELECT * FROM runs.run_event WHERE run_id = $1 ORDER BY seq", row["run_id"])
        log = [LogEntry(seq=e["seq"], at=e["at"], event=event_adapter.validate_json(e["event"])) for e in events]
        budget = fold(row["run_id"], NetworkSnapshot.model_validate_json(row["snapshot"]), log).budget
        types = [entry.event.type for entry in log]
        asked = types.index("decision_requested") if "decision_requested" in types else len(types)
        figures["unbound"] += asked < len(types) and "budget_applied" not in types[:asked]
        if budget is None:
            continue
        counted = NOTHING
        for event in (entry.event for entry in log):
            if event.type in ("decision_received", "usage_corrected") and event.answered is not None:
                counted = counted.plus(peers.told[event.request_id, event.answered.attempt])
        for number, account in enumerate(budget.accounts):
            place = (account.scope, account.key)
            spent[place] = spent[place].plus(account.spent)
            paid[place] = paid[place].plus(peers.paid[row["run_id"]])
            sure = account.spent.minus(account.estimated)
            if number == budget.path[0] and (sure.tokens, sure.model_calls) != (counted.tokens, counted.model_calls):
                figures["misattributed"] += 1
    for row in await database.fetch("SELECT * FROM runs.budget"):
        place = (row["scope"], row["key"])
        for unit in UNITS:
            limit = row[f"{unit}_limit"]
            figures["overspent"] += limit is not None and row[f"{unit}_spent"] > limit
            figures["leaked"] += row[f"{unit}_reserved"] != 0
            figures["misattributed"] += row[f"{unit}_spent"] != getattr(spent[place], unit)
            figures["free"] += row[f"{unit}_spent"] < getattr(paid[place], unit)
            figures[f"{unit}_estimated"] += row[f"{unit}_estimated"] if row["scope"] == "project" else 0
    return dict(figures)


async def run_campaign(fan: int, kills: int, seed: int, *, durable: bool = True) -> dict[str, Any]:
    """Let *fan* runs live through *kills* kills; returns the figures, of which those in MUST_BE_ZERO must be 0."""
    chance, began = random.Random(seed), time.monotonic()
    with temporary_folder() as folder, ExitStack() as stack:
        postgres, nats_server = Postgres(folder / "pg", durable=durable), Nats(folder / "nats")
        await postgres.start()
        await nats_server.start()
        database: asyncpg.Connection[Any] | None = None
        try:
            await migrate(postgres.dsn(database="postgres"))
            database = await asyncpg.connect(postgres.dsn(database="postgres"))
            environment = {
                "TOWPATH_DATABASE_URL": postgres.dsn(database="postgres"),
                "TOWPATH_NATS_URL": nats_server.url(),
                "TOWPATH_EMBEDDED": "1",
            }
            start = lambda: started("orchestrator", folder=folder, environment=environment)  # noqa: E731
            services = [stack.enter_context(start()) for _ in range(2)]
            async with connected(nats_server.url()) as nc:
                peers = PayingPeers(nc, chance)
                await peers.start()
                network = {**NETWORK, "step_timeout_ms": STEP_TIMEOUT_MS}
                await peers.ask(rpc.PUBLISH_NETWORK, PublishNetwork(project="default", actor="test", spec=network))
                limit = Budget(model_calls=fan * 6, tokens=fan * 200_000)
                await peers.ask(
                    rpc.SET_BUDGET,
                    SetBudget(
                        project="default", kind="project", name="default", budget=limit, actor="a", roles=("operator",)
                    ),
                )
                await asyncio.gather(submit_all(peers, fan), kill_services(stack, start, services, chance, kills))
                over = await all_ended(database, fan)
                figures = await judge(database, peers)
                ends = Counter(row["status"] for row in await database.fetch("SELECT status FROM runs.run"))
                await peers.stop()
        finally:
            if database is not None:
                await database.close()
            stack.close()
            await nats_server.stop()
            await postgres.stop()
    return {
        **figures,
        "lost_runs": 0 if over else fan - sum(ends.values()),
        "not_over": not over,
        "ends": dict(ends),
        **peers.seen,
        "kills": kills,
        "seconds": round(time.monotonic() - began, 1),
    }


def main() -> int:
    """Parse the arguments and do it."""
    parser = argparse.ArgumentParser(prog="python -m tests.budgets.kills")
    parser.add_argument("--fan", type=int, default=FAN, help="runs at once")
    parser.add_argument("--kills", type=int, default=20, help="orchestrators killed with SIGKILL")
    parser.add_argument("--seed", type=int, default=1)
    said = parser.parse_args()
    figures = asyncio.run(run_campaign(said.fan, said.kills, said.seed))
    sys.stdout.write(json.dumps(figures) + "\n")
    wrong = [name for name in MUST_BE_ZERO if figures[name]]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
