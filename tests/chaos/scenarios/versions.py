"""Records that a version can't read, and two versions at work side by side.

What must hold: a log that the machine can't fold parks its own run and no other; while every service is replaced by its
next version and back again, nothing is lost, nothing happens twice, and every run replays.
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from nats.errors import Error as NatsError
from tests.chaos.launchers.next_version import FIELD, SUFFIX, VARIABLE
from tests.chaos.load.findings import ScenarioFindings
from tests.chaos.load.steady_load import NETWORK, SteadyLoad, connect
from tests.chaos.load.tools import TOOL_NAMES
from tests.chaos.scenarios.broker_cluster import PAUSE, STEPS, THINKS_MS, under_way
from tests.chaos.scenarios.catalogue import Scenario, ScenarioContext, ScenarioReport
from tests.chaos.scenarios.messages import finish
from tests.support.places import IMPORTS_TESTS

from towpath_contracts import rpc
from towpath_contracts.base import Message
from towpath_contracts.networks.spec import PublishNetwork
from towpath_contracts.runs.records import ReplayRuns
from towpath_fabric.clock import monotonic, wall

SETTLE_S: Final = 180.0
UNDER_WAY: Final = 200

NEXT_MIGRATION: Final = (
    "ALTER TABLE runs.run ADD COLUMN introduced_next text",
    "ALTER TABLE tas.tool_call ADD COLUMN introduced_next text",
    (
        "INSERT INTO public.towpath_migration (owner, version, name, checksum)"
        " VALUES ('towpath_orchestrator', '9001', 'introduced_next', 'sha256:next')"
    ),
)
"""What the next version brings: columns that this one does not know, added while its statements are prepared."""
REPLACED: Final = ("orchestrator", "tas", "decider", "log_writer")
TWO: Final = {"orchestrator": 2, "tas": 2, "decider": 2}

HALF: Final = ("orchestrator-2", "tas-2", "decider-2", "log_writer")
"""Replaced together, they work beside the old version of themselves; no service waits for the log-writer."""

POISON_MS: Final = 20_000
UNREADABLE: Final = '{"type": "of_no_version"}'


async def make_log_unreadable(work: SteadyLoad, findings: ScenarioFindings, *, runs: int) -> None:
    """Make the log of one of many runs unreadable, and let every orchestrator begin with nothing in memory."""
    [poison] = await work.submit(1, steps=6, delay_ms=POISON_MS)  # still under way when the last of the others is in
    others = await work.submit(runs - 1, steps=3, delay_ms=300)
    names = [name for name in work.platform.processes if name.startswith("orchestrator")]
    for name in names:
        await work.platform.hold(name)
    broken = await work.rows(
        "UPDATE runs.run_event SET event = $2::text::json WHERE run_id = $1::uuid AND seq = 2 RETURNING seq",
        *(poison, UNREADABLE),
    )
    await work.rows("DELETE FROM runs.run_snapshot WHERE run_id = $1::uuid", poison)
    for name in names:
        work.platform.release(name)
    await work.platform.wait_ready()
    await _status(work, poison, "quarantined")
    work.run_ids.remove(poison)
    await work.until_ended(timeout_s=SETTLE_S)
    await _status(work, poison, "quarantined")
    letters = await work.rows("SELECT count(*) AS n FROM runs.dead_letter WHERE run_id = $1::uuid", poison)
    parked = await work.rows("SELECT run_id::text FROM runs.run WHERE status = 'quarantined'")
    findings.figures.update(
        poisoned=1, others_ended=await work.ended(others), dead_letters_of_it=letters[0]["n"] if letters else None
    )
    findings.require(bool(broken), "no event was there to break: nothing was shown")
    findings.require(
        [row["run_id"] for row in parked or ()] == [poison], f"parked: {[row['run_id'] for row in parked or ()]}"
    )


async def _status(work: SteadyLoad, run_id: str, wanted: str) -> None:
    end, rows = monotonic() + SETTLE_S, None
    while not rows or rows[0]["status"] != wanted:
        if monotonic() > end:
            raise TimeoutError(f"run {run_id} is {rows[0]['status'] if rows else 'unknown'}, not {wanted}")
        rows = await work.rows("SELECT status FROM runs.run WHERE run_id = $1::uuid", run_id)
        await asyncio.sleep(0.1)


def next_version_options(folder: Path) -> dict[str, Any]:
    """Return the Platform's options with which every replaced service can become its next version."""
    marks = folder / "next"
    marks.mkdir(parents=True, exist_ok=True)
    launcher = (sys.executable, "-m", "tests.chaos.launchers.next_version")
    return {
        "commands": {role: (*launcher, f"towpath_{role}") for role in REPLACED},
        "environment": {**IMPORTS_TESTS, VARIABLE: str(marks)},
        "replicas": TWO,
    }


async def upgrade_and_roll_back(
    work: SteadyLoad, findings: ScenarioFindings, folder: Path, groups: Sequence[Sequence[str]], *, runs: int
) -> None:
    """Replace processes by their next version, one of *groups* after another, and put the old one back in the same way.

    *runs* are submitted before each turn, and are under way while both versions are.
    """
    began = wall().timestamp()
    for statement in NEXT_MIGRATION:
        await work.rows(statement)
    for arm in (True, False):
        for names in groups:
            await work.submit(runs, delay_ms=100)
            for name in names:
                mark = folder / "next" / name
                mark.touch() if arm else mark.unlink()
            await _restarted(work, names)
        if arm:
            await _publish_second(work)
            await work.submit(runs)
    pauses = await work.rows(PAUSE, began, wall().timestamp())
    findings.figures["longest_pause_s"] = round(float(pauses[0]["pause"]), 1) if pauses else None
    findings.figures["restarts"] = 2 * sum(map(len, groups))


async def _restarted(work: SteadyLoad, names: Sequence[str]) -> None:
    before = work.platform.processes
    for name in names:
        work.platform.signal(name, signal.SIGTERM)
    async with asyncio.timeout(SETTLE_S):
        while any(work.platform.processes[name].restarts == before[name].restarts for name in names):  # noqa: ASYNC110 - a level
            await asyncio.sleep(0.05)
    await work.platform.wait_ready()


async def judge_versions(work: SteadyLoad, findings: ScenarioFindings) -> None:
    """Check that both versions folded facts, some with fields that are new, and every run kept its snapshot."""
    versions = await work.rows("SELECT DISTINCT engine_version FROM runs.run_fact ORDER BY 1") or ()
    found = [row["engine_version"] for row in versions]
    findings.require(len(found) == 2 and found[1] == found[0] + SUFFIX, f"engine versions at work: {found}")
    wider = await work.rows("SELECT count(*) AS n FROM runs.run_fact WHERE position($1 in fact::text) > 0", FIELD)
    findings.figures["facts_with_unknown_fields"] = wider[0]["n"] if wider else None
    findings.require(bool(wider and wider[0]["n"]), "no fact of the next version had a field that is new")
    kept = await work.rows(
        "SELECT count(DISTINCT r.snapshot_digest) AS used, count(*) FILTER (WHERE r.snapshot_digest <>"
        " e.event->>'snapshot_digest') AS moved FROM runs.run r JOIN runs.run_event e USING (run_id) WHERE e.seq = 1"
    )
    snapshots = [(row["used"], row["moved"]) for row in kept or ()]
    findings.require(snapshots == [(2, 0)], f"snapshots in use, and runs that left theirs: {snapshots}")
    replayed, identical, differences = await replay_all(work)
    findings.figures.update(replayed=replayed, replay_mismatches=replayed - identical)
    findings.require(replayed == identical >= len(work.run_ids), f"runs that replay otherwise: {differences}")


async def replay_all(work: SteadyLoad) -> tuple[int, int, Sequence[str]]:
    """Replay every run on the platform; returns how many there were, how many are identical, and what differs."""
    runs, identical, differences = 0, 0, list[str]()
    after = None
    while True:
        page = await _ask(work, rpc.REPLAY_RUNS, ReplayRuns(project="default", after=after))
        runs, identical, after = runs + page.runs, identical + page.identical, page.next_after
        differences += [f"{result.run_id} {result.verdict}: {result.why}" for result in page.results]
        if after is None:
            return runs, identical, differences


async def _publish_second(work: SteadyLoad) -> None:
    agent = {
        "key": "marker",
        "is_default": True,
        "allow_respond": True,
        "equipped_tools": list(TOOL_NAMES),
        "prompt_template": "Mark again.",
    }
    spec = {"name": NETWORK, "agents": [agent], "max_steps": 50, "timeout_ms": 1_800_000}
    await _ask(work, rpc.PUBLISH_NETWORK, PublishNetwork(project="default", actor="chaos", spec=spec))


async def _ask(work: SteadyLoad, method: rpc.RpcMethod, request: Message) -> Any:
    gateway = await connect(work.platform.nats_url_of("gateway"), inbox=b"_INBOX_gateway")
    body, last_answer = request.model_dump_json().encode(), b"nothing"
    try:
        async with asyncio.timeout(SETTLE_S):
            while True:
                with contextlib.suppress(NatsError):
                    reply = await gateway.request(method.subject, body, timeout=30)
                    if not (reply.headers and rpc.PROBLEM_HEADER in reply.headers):
                        return method.answer.model_validate_json(reply.data)
                    last_answer = reply.data
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise TimeoutError(f"{method.subject}: {last_answer.decode()}") from None
    finally:
        await gateway.close()


async def _poisoned(context: ScenarioContext) -> ScenarioReport:
    async with SteadyLoad(context.folder, notice=context.notice) as work:
        findings = ScenarioFindings()
        await make_log_unreadable(work, findings, runs=500 if context.long else 30)
        return await finish(work, findings)


async def _upgraded(context: ScenarioContext) -> ScenarioReport:
    options = next_version_options(context.folder)
    async with SteadyLoad(context.folder, notice=context.notice, **options) as work:
        findings = ScenarioFindings()
        alone = [(name,) for name in work.platform.processes if name.rsplit("-", 1)[0] in REPLACED]
        if context.long:
            await work.submit(UNDER_WAY, steps=STEPS, delay_ms=THINKS_MS)
            async with under_way(work, UNDER_WAY):
                await upgrade_and_roll_back(work, findings, context.folder, alone, runs=5)
        else:
            await upgrade_and_roll_back(work, findings, context.folder, [HALF], runs=5)
        await work.until_ended(timeout_s=SETTLE_S)
        await judge_versions(work, findings)
        return await finish(work, findings)


SCENARIOS = (
    Scenario(number=17, name="poison-run", summary="make the log of one run unreadable among many", run=_poisoned),
    Scenario(
        number=18, name="rolling-upgrade", summary="replace every service by its next version and back", run=_upgraded
    ),
)
