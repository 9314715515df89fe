"""Plays mixtures on a platform: submits them, speaks at their gates, cancels and forks them, and kills its services."""

import asyncio
import json
import random
import time
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.mixtures.checks import Mark, Tree, WaitWatch, findings, spending_findings
from tests.mixtures.door import Door
from tests.mixtures.mixture import ENDS, Mixture
from tests.mixtures.platform_process import KILLED, PlatformProcess

Json = dict[str, Any]

LOOK_S = 0.25
QUIET_S = 150
"""A tree that neither ends nor changes for so long has come to a standstill."""

SURE_S = 7
"""After this time a worker that is only slow has made its call, or gave it up: what happened can then be looked up."""

CHILD_S = 60
"""How long runs below one that has ended may take to end."""


class Campaign:
    """The mixtures that are played, and what was found."""

    def __init__(self, platform: PlatformProcess, door: Door, witness: Path, say: Callable[[str], None]) -> None:
        self._platform, self._door, self._witness, self._say = platform, door, witness, say
        self.found: list[str] = []
        self.counts: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()

    async def play_all(self, mixtures: list[Mixture], *, at_once: int, kills: int, seed: int) -> None:
        """Play *mixtures*, so many at once, while services are killed."""
        todo = iter(mixtures)
        playing = asyncio.gather(*(self._play_some(todo) for _ in range(at_once)))
        killing = asyncio.create_task(self._kill(kills, seed))
        try:
            await playing
        finally:
            killing.cancel()
            await asyncio.gather(killing, return_exceptions=True)

    async def _kill(self, kills: int, seed: int) -> None:
        chance = random.Random(seed)
        for number in range(kills):
            await asyncio.sleep(chance.uniform(1, 4))
            if self._platform.kill(KILLED[number % len(KILLED)]):
                self.counts["kills"] += 1

    async def _play_some(self, todo: Any) -> None:
        for mixture in todo:
            try:
                wrong = await self.play(mixture)
            except (RuntimeError, TimeoutError) as error:
                wrong = [f"{mixture.title}: {type(error).__name__}: {error}"]
            self.found += wrong
            for one in wrong:
                self._say(one)

    async def play(self, mixture: Mixture) -> list[str]:
        """Play one mixture to its end and return what is wrong with it."""
        run_id, wrong = await self._submit(mixture)
        forks: list[str] = []
        wrong += await self._follow(mixture, run_id, forks)
        if mixture.fork == "end":
            forks += await self._fork(run_id)
        for fork in forks:
            self.counts["forks"] += 1
            wrong += await self._follow(mixture, fork, None)
        trees = [await self._tree(one) for one in (run_id, *forks)]
        for tree in trees:
            wrong += findings(mixture, tree, self._marks(), is_fork=tree is not trees[0])
        wrong += spending_findings(mixture, trees)
        self.counts[mixture.kind] += 1
        return wrong

    async def _submit(self, mixture: Mixture) -> tuple[str, list[str]]:
        """Submit the task twice under one key: there must be one run."""
        key, made = str(uuid.uuid4()), []
        for _ in range(2):
            status, body = await self._door.ask("POST", "/v1/runs", mixture.task, **{"Idempotency-Key": key})
            if status not in {200, 202}:
                raise RuntimeError(f"the task is answered {status}: {body}")
            made.append(body["run_id"])
        return made[0], [] if made[0] == made[1] else [f"{mixture.title}: one key made {made}"]

    async def _follow(self, mixture: Mixture, run_id: str, forks: list[str] | None) -> list[str]:
        """Do with a run what its mixture says until it has ended; a fork of it (*forks* is None) only meets people."""
        watch, settled, wrong = WaitWatch(), _SettledGates(), set[str]()
        began, last, changed = time.monotonic(), -1, time.monotonic()
        cancel_at = None if forks is None else mixture.cancel_after_s
        while True:
            run = await self._door.get(f"/v1/runs/{run_id}")
            if run["status"] in ENDS:
                return [f"{mixture.title}: {one}" for one in wrong]
            if silent := watch.look(run, time.monotonic()):
                wrong.add(silent)
            gates = await self._gates(run_id)
            if gates and forks is not None and not forks and mixture.fork == "gate":
                forks += await self._fork(run_id)
            if cancel_at is not None and time.monotonic() - began > cancel_at:
                cancel_at = None
                await self._cancel(run_id)
            elif gates and forks is not None and mixture.cancel_at_gate:
                await self._cancel(run_id)
            else:
                await self._settle(mixture, gates, settled)
            seen = run["seq"] + sum(node["step"] for node in await self._door.tree(run_id)) + len(gates)
            if seen != last:
                last, changed = seen, time.monotonic()
            elif time.monotonic() - changed > QUIET_S:
                raise TimeoutError(f"run {run_id} is {run['status']} and nothing happens; it waits for {run['waits']}")
            await asyncio.sleep(LOOK_S)

    async def _gates(self, run_id: str) -> list[Json]:
        found: list[Json] = (await self._door.get(f"/v1/gates?root_run_id={run_id}&status=pending"))["gates"]
        return found

    async def _settle(self, mixture: Mixture, gates: list[Json], settled: "_SettledGates") -> None:
        for gate in gates:
            kind, path = gate["gate_type"], f"/v1/gates/{gate['gate_id']}"
            if kind == "unknown_effect":
                if not settled.is_sure(gate["gate_id"]):
                    continue
                happened = any(mark.call == gate["execution_id"] for mark in self._marks())
                path, body = f"{path}/resolve", {"verdict": "happened" if happened else "did_not_happen"}
            elif kind in {"approval", "permission"} and mixture.verdict == "denied":
                path, body = f"{path}/deny", {}
            else:
                path, body = f"{path}/approve", {}
            status, answer = await self._door.ask("POST", path, {**body, "reason": "as the mixture says"})
            if status >= 400 and answer.get("code") not in {"gate_settled", "run_finished", "gate_not_found"}:
                raise RuntimeError(f"gate {gate['gate_id']} ({kind}) is answered {status}: {answer}")
            self.counts[f"gate {kind}"] += 1

    async def _cancel(self, run_id: str) -> None:
        status, answer = await self._door.ask("POST", f"/v1/runs/{run_id}/cancel", {"reason": "enough"})
        if status >= 400 and answer.get("code") not in {"run_finished", "run_ended"}:
            raise RuntimeError(f"a cancel of {run_id} is answered {status}: {answer}")
        self.counts["cancels"] += 1

    async def _fork(self, run_id: str) -> list[str]:
        step = max(1, (await self._door.get(f"/v1/runs/{run_id}"))["step"])
        body = {"from_step": random.Random(run_id).randint(1, step), "idempotency_key": str(uuid.uuid4())}
        status, answer = await self._door.ask("POST", f"/v1/runs/{run_id}/fork", body)
        self.counts[f"fork {answer.get('code', 'made')}"] += 1
        return [answer["run_id"]] if status < 300 else []

    async def _tree(self, run_id: str) -> Tree:
        """Return a tree once all of it has ended, at the latest after CHILD_S."""
        until = time.monotonic() + CHILD_S
        while True:
            runs = await self._door.tree(run_id)
            if all(run["status"] in ENDS for run in runs) or time.monotonic() > until:
                break
            await asyncio.sleep(LOOK_S)
        logs = {run["run_id"]: await self._door.events(run["run_id"]) for run in runs}
        root = await self._door.get(f"/v1/runs/{run_id}")
        self.statuses[root["status"]] += 1
        self.counts["runs"] += len(runs)
        return Tree(root, runs, logs, await self._gates(run_id))

    def _marks(self) -> list[Mark]:
        return [Mark(**json.loads(line)) for line in self._witness.read_text("utf-8").splitlines()]


class _SettledGates:
    """Remembers since when a gate is seen."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def is_sure(self, gate_id: str) -> bool:
        """Whether it was seen for so long that what it asks can be looked up."""
        return time.monotonic() - self._since.setdefault(gate_id, time.monotonic()) > SURE_S
