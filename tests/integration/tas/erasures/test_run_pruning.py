"""Old runs pruned in a real Postgres by their owners' roles: what goes and stays, who may do it, what is proved."""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs
from tests.conftest import DatabaseUrl
from tests.support.tas import audit_log as logs
from tests.support.tas.audit_log import PROJECT, audit_log, fill
from tests.support.tas.run_owners import LOG, Owners

from towpath_audit.verifier import verify
from towpath_contracts.problems.registry import ProblemError
from towpath_contracts.tools.retention import PrunedRuns, PruneRuns
from towpath_fabric.clock import wall
from towpath_fabric.ids import new_run_id
from towpath_fabric.postgres.pool import open_pool
from towpath_fabric.postgres.run_erasures import RunErasureLoop
from towpath_log_writer.wiring import ERASURES as HISTORY
from towpath_orchestrator.adapters.run_store import ERASURES as RUNS
from towpath_tas.app.audit import run_retention
from towpath_tas.app.audit.run_retention import RunPruning, RunRetention
from towpath_tas.core.prune_rules import RunKeepDays
from towpath_tas.metrics import TasMetrics

AGE_DAYS = 100


def aged_ids() -> Callable[[], UUID]:
    """Make ids of runs that began AGE_DAYS ago."""
    began = int((wall() - timedelta(days=AGE_DAYS)).timestamp() * 1000)
    return lambda: UUID(int=(began << 80) | (new_run_id().int & ((1 << 80) - 1)))


@pytest.fixture
async def owners(database: DatabaseUrl, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Owners]:
    """Two runs of ten calls that ended long ago, with their audit."""
    monkeypatch.setattr(logs, "new_run_id", aged_ids())
    pools = [await open_pool(database(role), 2, "test") for role in ("orchestrator", "log_writer")]
    async with audit_log(database(), database("tas")) as log:
        await fill(log, 20, run_calls=10)
        ended = "UPDATE runs.run SET project = $1, status = 'completed', ended_at = now() - interval '99 days'"
        await log.owner(ended, PROJECT)
        await log.owner("UPDATE tas.tool_call SET updated_at = updated_at - interval '99 days'")
        await log.age(99)
        yield Owners(log, *pools)
    for pool in pools:
        await pool.close()


async def prune(owners: Owners, **asked: Any) -> PrunedRuns:
    wanted: dict[str, Any] = {"project": PROJECT, "actor": "dana", "older_than_days": 90, "dry_run": False} | asked
    return await RunPruning(owners.log.pool).prune(PruneRuns(**wanted))


def retention_of(owners: Owners, **keep: Any) -> RunRetention:
    """Return the loop of one replica that keeps runs so long."""
    return RunRetention(owners.log.pool, LOG, TasMetrics(CollectorRegistry()), keep=RunKeepDays(**keep))


async def carry_out(owners: Owners) -> None:
    for part in (owners.erase_runs, owners.erase_history, owners.log.erasures.finish):
        await part()


async def chosen(owners: Owners) -> list[list[UUID]]:
    """Return the runs of each pruning that was chosen, in order."""
    return [row[0] for row in await owners.log.owner("SELECT run_ids FROM tas.erasure ORDER BY erasure_id")]


async def statuses(owners: Owners) -> list[str]:
    return [row[0] for row in await owners.log.owner("SELECT status FROM tas.erasure ORDER BY erasure_id")]


async def test_pruned_runs_are_gone_and_the_audit_holds_and_has_every_payload(owners: Owners) -> None:
    first, second = await owners.all_runs()
    other = new_run_id()
    await owners.limit(first, second, other)
    await owners.log.owner(
        "INSERT INTO runs.budget (project, scope, key, soft, on_soft) SELECT $1, k.scope, k.key, 0.8, 'warn'"
        " FROM (VALUES ('run', $2), ('agent', $2 || '/a'), ('caller', 'ann')) k (scope, key)",
        *(PROJECT, str(first)),
    )
    before = verify(await owners.log.export(), checkpoints=owners.log.kept.notes)
    counted = await prune(owners, dry_run=True)
    assert (counted.runs, counted.families, counted.kept, counted.erasure_id) == (2, 2, {}, None)
    measured = await owners.log.pool.fetchval("SELECT runs.stored_bytes_of($1)", [first, second])
    assert counted.bytes == measured > 20 * 100, "each of them is measured, with its rows in all tables"
    assert await statuses(owners) == []
    pruned = await prune(owners, reason="storage")
    assert (pruned.runs, pruned.next_behind, pruned.bytes) == (2, None, None) and pruned.erasure_id is not None
    with pytest.raises(ProblemError, match="prune_under_way"):
        await prune(owners)
    again = await prune(owners, dry_run=True)
    assert (again.runs, again.bytes) == (0, 0), "what is being pruned is chosen once"
    await carry_out(owners)
    assert await statuses(owners) == ["done"]
    rows = await owners.log.owner("SELECT pruned, erased_at IS NULL FROM runs.run ORDER BY run_id")
    assert [tuple(row) for row in rows] == [(True, False)] * 2
    for table, left in (("runs.run_event", 0), ("runs.budget", 1), ("tas.tool_call", 20)):
        assert (await owners.log.owner(f"SELECT count(*) FROM {table}"))[0][0] == left, table
    assert await owners.limited() == {"rule_count": [other], "fence": [other], "restored_run": [other]}
    assert await owners.log.owner("SELECT 1 FROM tas.tool_call WHERE args_digest <> '' OR fact IS NOT NULL") == []
    cursors = await owners.log.owner("SELECT run_id, erased, pruned FROM history.run_cursor ORDER BY 1")
    assert [tuple(row) for row in cursors] == [(first, True, True), (second, True, True)]
    report = verify(await owners.log.export(), checkpoints=owners.log.kept.notes)
    assert (before.faults, report.faults) == ([], [])
    assert (report.figures["payloads_erased"], report.figures["runs_pruned"]) == (0, 2)
    assert report.figures["decisions"] == before.figures["decisions"]
    assert (await prune(owners)).erasure_id is None and await statuses(owners) == ["done"]


async def test_what_is_young_or_open_stays_with_its_family(owners: Owners) -> None:
    first, second = await owners.all_runs()
    changes = {
        "not_ended": "UPDATE runs.run SET status = 'quarantined' WHERE run_id = $1",
        "too_young": "UPDATE runs.run SET ended_at = now() - interval '89 days' WHERE run_id = $1",
        "held": "UPDATE tas.tool_call SET status = 'unknown' WHERE run_id = $1",
    }
    own = "UPDATE runs.run SET status = 'completed', ended_at = now() - interval '99 days' WHERE run_id = $1"
    for why, change in changes.items():
        await owners.log.owner(change, second)
        assert (await prune(owners, dry_run=True)).kept == {why: 1}
        for relation in ("root_run_id = $1, parent_run_id = $1", "continues = $1, thread_id = $1"):
            clear = "root_run_id = NULL, parent_run_id = NULL, continues = NULL, thread_id = NULL"
            await owners.log.owner(f"UPDATE runs.run SET {clear}")
            await owners.log.owner(f"UPDATE runs.run SET {relation} WHERE run_id = $2", first, second)
            found = await prune(owners, dry_run=True)
            assert (found.runs, found.kept) == (0, {why: 1}), relation
        await owners.log.owner(f"UPDATE runs.run SET {clear}")
        await owners.log.owner(own, second)
        await owners.log.owner("UPDATE tas.tool_call SET status = 'succeeded'")
        assert (await prune(owners, dry_run=True)).runs == 2
    await owners.log.owner("UPDATE tas.tool_call SET updated_at = now() WHERE run_id = $1", first)
    assert (await prune(owners, dry_run=True)).kept == {"held": 1}, "settled since then: the audit has it as young"
    gate = (
        "INSERT INTO runs.gate (gate_id, run_id, project, network, gate_type, status, reason, detail, opened_at,"
        " expires_at) VALUES (gen_random_uuid(), $1, $2, 'n', 'manual', 'pending', '', '{}', now(), now())"
    )
    await owners.log.owner(gate, second, PROJECT)
    assert (await prune(owners, dry_run=True)).kept == {"held": 2}


async def test_a_call_that_was_settled_within_the_period_of_its_own_family_keeps_it(owners: Owners) -> None:
    first, second = await owners.all_runs()
    await owners.log.owner("UPDATE runs.run SET status = 'cancelled' WHERE run_id = $1", second)
    await owners.log.owner("UPDATE tas.tool_call SET updated_at = now() - interval '20 days' WHERE run_id = $1", first)
    assert await retention_of(owners, days=90, by_status={"cancelled": 7}).look()
    assert await chosen(owners) == [[second]], "the shortest period is not the first one's"


async def test_a_thread_that_went_on_while_its_start_was_chosen_is_pruned_later(owners: Owners) -> None:
    first, second = await owners.all_runs()
    young = "UPDATE runs.run SET ended_at = now() WHERE run_id = $1"
    await owners.log.owner(young, second)
    pruned = await prune(owners)
    assert pruned.runs == 1
    await owners.log.owner("UPDATE runs.run SET continues = $1, thread_id = $1 WHERE run_id = $2", first, second)
    await carry_out(owners)
    assert await statuses(owners) == ["done"]
    assert (await prune(owners, dry_run=True)).kept == {"too_young": 1}, "it is a family of its own"
    await owners.log.owner("UPDATE runs.run SET ended_at = now() - interval '99 days' WHERE run_id = $1", second)
    assert (await prune(owners, dry_run=True)).runs == 1


async def test_an_owner_that_dies_between_batches_leaves_the_rest_to_the_next_look(owners: Owners) -> None:
    pruned = await prune(owners)
    assert await owners.runs.fetchval("SELECT runs.erase_runs($1, 1)", pruned.erasure_id) == 1
    assert await owners.history.fetchval("SELECT history.erase_runs($1, 1)", pruned.erasure_id) == 0, "runs go first"
    assert await owners.log.pool.fetchval("SELECT tas.erase_payloads($1, 5)", pruned.erasure_id) == 0
    assert await owners.runs.fetchval("SELECT count(*) FROM runs.run WHERE pruned") == 1
    await RunErasureLoop(owners.runs, RUNS, LOG).finish()
    assert await owners.history.fetchval("SELECT history.erase_runs($1, 1)", pruned.erasure_id) == 1
    assert await owners.log.pool.fetchval("SELECT tas.erase_payloads($1, 5)", pruned.erasure_id) == 5
    assert await statuses(owners) == ["confirmed"]
    await RunErasureLoop(owners.history, HISTORY, LOG).finish()
    await owners.log.erasures.finish()
    assert await statuses(owners) == ["done"]
    assert verify(await owners.log.export(), checkpoints=owners.log.kept.notes).faults == []


async def test_nobody_prunes_what_the_log_does_not_say_or_what_is_younger_than_a_week(owners: Owners) -> None:
    first, second = await owners.all_runs()
    pruned = await prune(owners, older_than_days=95)
    await owners.log.owner("UPDATE runs.run SET ended_at = now() - interval '94 days' WHERE run_id = $1", second)
    await owners.log.owner("UPDATE tas.erasure SET run_ids = run_ids || gen_random_uuid()")
    with pytest.raises(asyncpg.RaiseError, match="does not say that retention prunes"):
        await owners.runs.execute("SELECT runs.erase_runs($1, 10)", pruned.erasure_id)
    await owners.log.owner("UPDATE tas.erasure SET run_ids = $1", [first, second])
    await carry_out(owners)
    rows = await owners.log.owner("SELECT run_id FROM runs.run WHERE pruned")
    assert [row[0] for row in rows] == [first], "whatever was chosen, a run that ended later stays"
    forged = (
        "INSERT INTO tas.erasure (erasure_id, project, kind, before, reason, status, requested_by, requested_at,"
        " alone_from, run_ids) VALUES (gen_random_uuid(), $1, 'prune', now() - $3::interval, '', 'confirmed', 'tas',"
        " now(), now(), $2) RETURNING erasure_id"
    )
    for age in ("6 days", "99 days"):
        made = await owners.log.pool.fetchval(forged, PROJECT, [second], timedelta(days=int(age.split()[0])))
        with pytest.raises(asyncpg.RaiseError, match="does not say that retention prunes"):
            await owners.runs.execute("SELECT runs.erase_runs($1, 10)", made)
    for pool, statement in (
        (owners.runs, "SELECT runs.oldest_families('p', now(), gen_random_uuid(), 1)"),
        (owners.history, "SELECT runs.oldest_families('p', now(), gen_random_uuid(), 1)"),
        (owners.log.pool, "DELETE FROM tas.rule_count"),
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await pool.execute(statement)


async def test_retention_prunes_each_project_by_itself_and_two_replicas_choose_once(owners: Owners) -> None:
    first, second = await owners.all_runs()
    await move(owners, second, "bank")
    assert await retention_of(owners, days=100).look()
    await retention_of(owners).run()  # which ends at once
    assert await chosen(owners) == []
    for _ in range(2):
        assert await retention_of(owners, days=90).look()
    rows = await owners.log.owner("SELECT project, run_ids, requested_by, reason FROM tas.erasure ORDER BY 1")
    why = "TOWPATH_RUN_KEEP_DAYS=90"
    assert [tuple(row) for row in rows] == [
        ("bank", [second], "retention", why),
        (PROJECT, [first], "retention", why),
    ]
    await carry_out(owners)
    assert await statuses(owners) == ["done", "done"]


async def move(owners: Owners, run_id: UUID, project: str) -> None:
    for table in ("runs.run", "tas.tool_call"):
        await owners.log.owner(f"UPDATE {table} SET project = $2 WHERE run_id = $1", run_id, project)


async def test_runs_go_by_the_period_of_their_status_or_network_and_a_look_goes_on_behind_the_one_before(
    owners: Owners, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await owners.all_runs()
    await owners.log.owner("UPDATE runs.run SET status = 'failed', network = 'audits' WHERE run_id = $1", first)
    monkeypatch.setattr(run_retention, "FAMILIES_AT_ONCE", 1)
    for keep in ({"days": 90, "by_status": {"failed": 100}}, {"days": 90, "by_network": {"audits": 0}}):
        asked = PruneRuns(project=PROJECT, actor="retention", older_than_days=90)
        found = await RunPruning(owners.log.pool).prune_by(asked, RunKeepDays(**keep))
        assert (found.runs, found.next_behind) == (0, first)
    retention = retention_of(owners, by_status={"completed": 90})
    for _ in range(2):
        assert await retention.look()
    assert await chosen(owners) == [[second]], "what is chosen is not gone yet"
    [row] = await owners.log.owner("SELECT reason FROM tas.erasure")
    assert row[0] == 'TOWPATH_RUN_KEEP_DAYS=0 TOWPATH_RUN_KEEP_DAYS_BY_STATUS={"completed": 90}'
    await carry_out(owners)
    for period in (retention_of(owners, by_status={"completed": 90}), retention_of(owners, days=90)):
        assert await period.look()
    assert await chosen(owners) == [[second], [first]]


async def test_a_network_that_is_named_with_its_project_has_its_period_there_alone(owners: Owners) -> None:
    first, second = await owners.all_runs()
    await owners.log.owner("UPDATE runs.run SET network = 'audits'")
    await move(owners, second, "bank")
    assert await retention_of(owners, days=90, by_network={f"{PROJECT}/audits": 0}).look()
    rows = await owners.log.owner("SELECT run_ids, reason FROM tas.erasure")
    assert [tuple(row) for row in rows] == [([second], "TOWPATH_RUN_KEEP_DAYS=90")]
    assert await retention_of(owners, by_network={"audits": 0, f"{PROJECT}/audits": 90}).look()
    assert await chosen(owners) == [[second], [first]]


async def test_all_families_are_looked_at_once_a_day_and_each_minute_only_while_their_project_is_pruned(
    owners: Owners, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await owners.all_runs()
    await owners.log.owner("UPDATE runs.run SET network = 'audits' WHERE run_id = $1", second)
    await move(owners, second, "bank")
    monkeypatch.setattr(run_retention, "FAMILIES_AT_ONCE", 1)
    retention = retention_of(owners, days=90, by_network={"audits": 0})
    asked: list[str] = []
    choose = retention._pruning.prune_by

    async def prune_by(request: PruneRuns, keep: RunKeepDays | None) -> PrunedRuns:
        asked.append(request.project)
        return await choose(request, keep)

    monkeypatch.setattr(retention._pruning, "prune_by", prune_by)
    for expected in (["bank", "bank", PROJECT], [PROJECT], [PROJECT], []):
        asked.clear()
        assert await retention.look()
        assert asked == expected
        if expected == [PROJECT]:
            assert await chosen(owners) == [[first]]
            await carry_out(owners)
    for one in retention._passes.values():
        one.due_s -= run_retention.PASS_EVERY_S
    asked.clear()
    assert await retention.look()
    assert asked == ["bank", "bank", PROJECT]


async def test_a_project_that_fails_is_told_and_keeps_no_other_from_its_turn(owners: Owners) -> None:
    first, second = await owners.all_runs()
    await move(owners, second, "bank")
    await owners.log.owner("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$")
    await owners.log.owner(
        "CREATE TRIGGER refuse BEFORE INSERT ON tas.erasure FOR EACH ROW WHEN (NEW.project = 'bank')"
        " EXECUTE FUNCTION refuse()"
    )
    retention = retention_of(owners, days=90)
    with capture_logs() as logs:
        assert not await retention.look()
        assert await retention.look(), "it is asked again an hour later"
    told = [(one["event"], one["project"]) for one in logs]
    assert told == [("old runs were not pruned", "bank"), ("old runs are pruned", PROJECT)]
    assert await chosen(owners) == [[first]]


async def test_a_period_for_a_project_that_there_is_not_is_told_once(owners: Owners) -> None:
    retention = retention_of(owners, days=90, by_network={"defualt/desk": 0, f"{PROJECT}/desk": 0})
    with capture_logs() as logs:
        assert await retention.look() and await retention.look()
    told = [one["networks"] for one in logs if "projects without runs" in one["event"]]
    assert told == [["defualt/desk"]]


async def test_a_pruning_that_stands_still_is_logged_once_an_hour_with_what_it_waits_for(
    owners: Owners, monkeypatch: pytest.MonkeyPatch
) -> None:
    retention = retention_of(owners, days=90)
    assert await retention.look() and await retention.look(), "a batch that goes is no fault"
    [row] = await owners.log.owner(
        "UPDATE tas.erasure SET requested_at = requested_at - interval '3 hours' RETURNING erasure_id"
    )
    await owners.erase_runs()
    with capture_logs() as logs:
        assert [await retention.look() for _ in range(2)] == [False, False]
    [told] = logs
    assert (told["log_level"], told["project"], told["erasure_id"]) == ("warning", PROJECT, str(row[0]))
    assert told["missing"] == ["history", "tas"] and "not gone" in told["event"]
    monkeypatch.setattr(run_retention, "TELL_S", 0.0)
    with capture_logs() as logs:
        assert not await retention.look()
    assert len(logs) == 1
    await carry_out(owners)
    assert await retention.look() and retention._told == {}


async def test_the_loop_tells_its_success_and_looks_again_soon_while_a_pass_goes_on(
    owners: Owners, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    succeeded: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        succeeded.append(retention._metrics.housekept.labels("retention")._value.get())
        if len(pauses) == 2:
            await owners.log.owner("UPDATE tas.erasure SET requested_at = requested_at - interval '3 hours'")
        if len(pauses) in (3, 5):
            await carry_out(owners)
        if len(pauses) == 6:
            raise ConnectionError

    monkeypatch.setattr(run_retention, "FAMILIES_AT_ONCE", 1)
    retention = retention_of(owners, days=90)
    monkeypatch.setattr(run_retention.asyncio, "sleep", pause)
    with pytest.raises(ConnectionError):
        await retention.run()
    monkeypatch.undo()
    soon, late = run_retention.AGAIN_S, run_retention.PRUNE_EVERY_S
    assert pauses == [*[soon] * 5, late]
    assert succeeded[0] < succeeded[1] == succeeded[2] < succeeded[3], "what stands still is no success"
