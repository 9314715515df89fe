"""What scenarios that break a server share: their findings, freezing a process tree, probes from outside.

Findings are figures and problems in sentences; those of the judge are always among them.
"""

import asyncio
import json
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from tests.chaos.load.steady_load import NETWORK, SteadyLoad, scripted_decisions
from tests.chaos.scenarios.catalogue import Figure, ScenarioReport

from towpath_embedded.chaos.judge import JudgeReport
from towpath_embedded.processes.role_process import http_status
from towpath_fabric.clock import monotonic

MIN_SHARE: Final = 0.95
PROBES: Final = 5
"""A process that misses this many questions in a row is not alive; a busy machine may make it miss one."""

HTTP_TIMEOUT_S: Final = 60.0


@dataclass
class ScenarioFindings:
    """Figures and problems of one scenario, gathered while it goes on."""

    figures: dict[str, Figure] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def require(self, condition: bool, sentence: str) -> None:
        """Add *sentence* as a problem unless *condition* holds."""
        if not condition:
            self.problems.append(sentence)

    def add_verdict(self, verdict: JudgeReport) -> None:
        """Add the judge's figures: those that must be 0, and the work done."""
        counts = {name: len(found) for name, found in verdict.findings.items()}
        self.figures.update(runs=verdict.runs, completed=verdict.completed, effects=verdict.effects)
        self.figures.update(repeats=verdict.repeats, unknown=len(verdict.unknown), **counts)
        for name, found in verdict.findings.items():
            self.problems += [f"{name}: {sentence}" for sentence in found[:5]]
        self.require(verdict.share >= MIN_SHARE, f"only {verdict.completed} of {verdict.runs} runs completed")

    def report(self) -> ScenarioReport:
        """Return the scenario's report."""
        return ScenarioReport.of(self.figures, self.problems)


def process_tree(pid: int) -> list[int]:
    """Return *pid* and all that descend from it, from /proc; Postgres's children lead sessions of their own."""
    children: dict[int, list[int]] = {}
    for child, parent in _parents():
        children.setdefault(parent, []).append(child)
    found = [pid]
    for known in found:
        found.extend(children.get(known, ()))
    return found


def _parents() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_text()
            except OSError:  # it has just ended
                continue
            yield int(entry.name), int(stat.rpartition(")")[2].split()[1])


def signal_tree(pid: int, number: signal.Signals) -> int:
    """Send *number* to *pid* and its descendants; return how many got it."""
    sent = 0
    for each in process_tree(pid):
        try:
            os.kill(each, number)
        except ProcessLookupError:
            continue
        sent += 1
    return sent


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What HTTP answered: status (0 without an answer), Retry-After, problem code, and after how many seconds."""

    status: int
    retry_after: str
    code: str
    took_s: float

    @property
    def refused_clearly(self) -> bool:
        """Whether it is a refusal that names when to try again."""
        return self.status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE) and bool(self.retry_after)


async def post_run(work: SteadyLoad, key: str, steps: int = 2) -> HttpAnswer:
    """Submit a run over HTTP, once; one that is accepted is added to the work."""
    body = {"network": NETWORK, "user_message": key, "script": scripted_decisions(steps, len(key))}
    request = Request(
        f"{work.platform.gateway_url}/v1/runs",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Idempotency-Key": key, **work.platform.access.authorization()},
    )
    status, headers, answer, took_s = await asyncio.to_thread(_send, request)
    if status == HTTPStatus.ACCEPTED:
        work.run_ids.append(str(answer["run_id"]))
    return HttpAnswer(status, headers.get("retry-after", ""), str(answer.get("code", "")), took_s)


def _send(request: Request) -> tuple[int, Mapping[str, str], dict[str, Any], float]:
    began = monotonic()
    try:
        with urlopen(request, timeout=HTTP_TIMEOUT_S) as found:
            return found.status, _lower(found.headers), json.loads(found.read()), monotonic() - began
    except HTTPError as error:
        with error:
            return error.code, _lower(error.headers), _json(error.read()), monotonic() - began
    except (URLError, OSError):
        return 0, {}, {}, monotonic() - began


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _json(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


async def slowest_liveness_answer(work: SteadyLoad) -> tuple[float, list[str]]:
    """Ask every service `/livez` at once; return the longest wait in seconds, and the services that did not answer."""

    async def one(name: str) -> tuple[str, float, bool]:
        began = monotonic()
        port = int(work.platform.health_url(name).rpartition(":")[2])
        for _ in range(PROBES):
            if await http_status(port, "/livez") == HTTPStatus.OK:
                return name, monotonic() - began, True
        return name, monotonic() - began, False

    names = [name for name in work.platform.processes if name not in ("nats", "postgres")]
    found = await asyncio.gather(*(one(name) for name in names))
    return max(took for _, took, _ in found), [name for name, _, well in found if not well]
