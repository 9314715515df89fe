"""Entry point of the tool-access service: reads the settings and keys, and serves."""

import sys
from typing import Any

from towpath_fabric.garbage_collector import paused
from towpath_fabric.process_protection import protect_process

if __name__ == "__main__":
    protect_process()

with paused():
    from towpath_audit.notes import Signer
    from towpath_contracts import rpc
    from towpath_contracts.streams import TOOLOUT_CONSUMER, TOOLREQ_CONSUMER, exec_consumer
    from towpath_fabric.nats.pull_consumer import PullConsumer
    from towpath_fabric.nats.streams import ensure_streams
    from towpath_fabric.ports import Database
    from towpath_fabric.postgres.pool import DATABASE_DOWN
    from towpath_fabric.postgres.read_replica import reading_database
    from towpath_fabric.service import Service
    from towpath_fabric.startup.process_end import run_process
    from towpath_fabric.tickets import TicketSigner
    from towpath_tas.adapters.keys import KeyFileError, load_key
    from towpath_tas.adapters.ledger_tables import QUERIES
    from towpath_tas.app.audit.audit_queries import AuditQueries, CallBlobRequests
    from towpath_tas.app.audit.housekeeping import DatabaseMaintenance
    from towpath_tas.app.policy.access_queries import AccessQueries
    from towpath_tas.app.policy.policies import PolicyFileWatcher, PolicyStore
    from towpath_tas.app.policy.policy_diff import PolicyDiffRequests
    from towpath_tas.app.policy.policy_statistics import PolicyStatisticsQueries
    from towpath_tas.app.policy.policy_threads import PolicyThreads
    from towpath_tas.app.policy.policy_versions import PolicyVersionRequests
    from towpath_tas.app.policy.shadow_policy import ShadowPolicyRequests
    from towpath_tas.app.policy.tool_registration import ToolRegistrations
    from towpath_tas.app.queue_gauges import QueueGauges
    from towpath_tas.app.queue_queries import QueueQueries, queue_turns
    from towpath_tas.app.worker_instances import WorkerInstances
    from towpath_tas.app.worker_requests import serve_blobs, serve_toolsets
    from towpath_tas.app.worker_turns import WorkerTurns
    from towpath_tas.core.tools.registry import WorkerTrust
    from towpath_tas.metrics import QueueMetrics, TasMetrics
    from towpath_tas.settings import TasSettings
    from towpath_tas.wiring.audit_wiring import audit_turns, note_signer, other_seal_keys, start_audit
    from towpath_tas.wiring.call_wiring import CallWiring, TasConnections, serve, serve_in_turns


class ToolAccessService:
    """Builds and starts one replica once database and broker are connected."""

    def __init__(self, service: Service, settings: TasSettings, signer: TicketSigner, notes: Signer) -> None:
        self._service = service
        self._settings = settings
        self._signer = signer
        self._notes = notes
        self._metrics = TasMetrics(service.registry)
        self._threads = PolicyThreads()
        self._audit_turns = audit_turns()

    async def start(self) -> None:
        """Declare streams, apply the policy file, answer requests, start the loops."""
        service, bus, pool = self._service, self._service.bus, self._service.pool
        await self._ensure()
        window = 2 * self._settings.batch_size
        asked = PullConsumer(bus.nc, TOOLREQ_CONSUMER, window=window, rebind=self._ensure, extends=True)
        ended = PullConsumer(bus.nc, TOOLOUT_CONSUMER, window=window, rebind=self._ensure, extends=True)
        ports = TasConnections(pool=pool, bus=bus, asked=asked, ended=ended, telemetry=service.telemetry)
        calls = CallWiring(ports, self._signer, self._settings, self._metrics, service.log)
        await calls.read_time()
        policies = PolicyStore(pool, calls.policy_cache, self._threads)
        if self._settings.policy_file is not None:
            watch = PolicyFileWatcher(policies, self._settings.policy_file, self._settings.policy_project, service.log)
            await watch.check()
            service.loop(watch.run)
        await policies.log_in_force(self._settings.policy_project, service.log)
        self._answer(calls, policies, reading_database(service))
        calls.answer()
        start_audit(service, self._settings, self._notes, self._metrics, self._audit_turns)
        service.loop(QueueGauges(pool, bus.nc, QueueMetrics(service.registry), service.log).run)
        for consumer in (asked, ended):
            await consumer.start()
            service.on_stop(consumer.stop)
        await calls.claims.start()
        service.on_stop(calls.claims.stop)
        for loop in (*calls.loops, DatabaseMaintenance(pool, service.log, self._metrics).run):
            service.loop(loop)

    def _answer(self, calls: CallWiring, policies: PolicyStore, reads: Database) -> None:
        bus, pool = self._service.bus, self._service.pool
        access, audit, blobs = (
            AccessQueries(pool, calls.policy_cache, self._threads),
            AuditQueries(pool, reads),
            CallBlobRequests(pool, calls.tickets, WorkerTurns()),
        )
        trust = WorkerTrust.on(embedded=self._settings.embedded, keys=self._settings.auth == "on")
        tools = ToolRegistrations(
            *(pool, bus, calls.tickets, trust),
            max_tools=self._settings.max_project_tools,
            max_chars=self._settings.max_project_tool_chars,
        )
        serve(bus, rpc.CHECK_ACCESS, access.check)
        serve(bus, rpc.GET_PERMISSIONS, access.permissions)
        serve(bus, rpc.CHECK_GRANT, access.check_grant)
        serve(bus, rpc.DESCRIBE_TOOLS, access.describe)
        serve(bus, rpc.APPLY_POLICY, policies.apply)
        serve(bus, rpc.GET_POLICY, policies.show)
        self._answer_history(calls, policies, reads)
        serve(bus, rpc.REGISTER_TOOLS, tools.register)
        instances = WorkerInstances(pool)
        serve_toolsets(bus, tools, calls.dead_letters, instances)
        serve(bus, rpc.WORKER_BEAT, instances.beat)
        serve(bus, rpc.LIST_WORKERS, instances.list)
        serve(bus, rpc.DRAIN_WORKER, instances.drain)
        serve(bus, rpc.DECIDE_PROPOSAL, tools.decide)
        serve_in_turns(bus, rpc.AUDIT_QUERY, audit.query, self._audit_turns)
        serve(bus, rpc.RECORD_ACTION, audit.record)
        serve_in_turns(bus, rpc.LIST_QUEUES, QueueQueries(pool, bus.nc, calls.policy_cache).list_queues, queue_turns())
        serve_blobs(bus, blobs)

    def _answer_history(self, calls: CallWiring, policies: PolicyStore, reads: Database) -> None:
        bus, pool = self._service.bus, self._service.pool
        texts = self._threads.texts
        versions, shadow = PolicyVersionRequests(pool, policies, self._threads), ShadowPolicyRequests(pool, texts)
        serve(bus, rpc.POLICY_VERSIONS, versions.list_versions)
        serve(bus, rpc.POLICY_CHANGES, versions.changes)
        serve(bus, rpc.ROLL_BACK_POLICY, versions.roll_back)
        serve(bus, rpc.CHANGE_RULE, versions.change_rule)
        diffs = PolicyDiffRequests(pool, calls.policy_cache, self._threads)
        serve(bus, rpc.DIFF_POLICY, diffs.diff)
        serve(bus, rpc.DIFF_PERMISSIONS, diffs.permissions)
        serve(bus, rpc.SET_SHADOW, shadow.set)
        serve(bus, rpc.GET_SHADOW, shadow.view)
        statistics = PolicyStatisticsQueries(reads)
        serve_in_turns(bus, rpc.GET_STATISTICS, statistics.statistics, self._audit_turns)
        serve_in_turns(bus, rpc.COUNT_USED_TOOLS, statistics.used_tools, self._audit_turns)

    async def _ensure(self) -> None:
        """Declare streams and consumers, including those of every toolset that any project has registered."""
        try:
            rows: list[Any] = await self._service.pool.fetch(QUERIES.toolsets)
        except DATABASE_DOWN as error:
            raise TimeoutError from error  # callers retry after a TimeoutError
        extra = tuple(exec_consumer(row["project"], row["toolset"]) for row in rows)
        await ensure_streams(self._service.bus.nc, extra, replicas=self._service.bus.stream_replicas)


def main() -> int:
    """Run one replica; returns the exit code."""
    return run_process("tas", TasSettings.load, run, needs_database=True)


def run(settings: TasSettings) -> int:
    """Serve until asked to stop; returns the exit code."""
    service = Service("tas", settings)
    if settings.ticket_key_file is None:
        service.log.error("TOWPATH_TICKET_KEY_FILE is not set: without a key no ticket can be signed")
        return 2
    try:
        key = load_key(settings.ticket_key_file, create=settings.embedded)
        notes = note_signer(settings)
        other_seal_keys(settings)  # so that a wrong one is told before the start
    except KeyFileError as error:
        unusable = str(error)
    else:
        service.on_start(ToolAccessService(service, settings, TicketSigner(key), notes).start)
        return service.run()
    service.log.error("a key can't be used", problem=unusable)
    return 2


if __name__ == "__main__":
    sys.exit(main())
