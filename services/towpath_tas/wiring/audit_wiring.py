"""Builds what one replica answers about the audit log, and what seals the log and shortens it.

A replica without a sealing key does not start: an audit that is not sealed would prove nothing.

All this is apart from `call_wiring.py`, so that who has the path of a call in memory, as tests of people's networks
have, does not import it.
"""

from datetime import timedelta

from towpath_audit.notes import NoteError, PublicKey, Signer, read_keys
from towpath_contracts import rpc
from towpath_contracts.tools.retention import TasRetention
from towpath_fabric.service import Service
from towpath_fabric.turns.work_turns import WorkTurns
from towpath_tas.adapters.checkpoints import CheckpointFilePublisher, CheckpointLogPublisher, CheckpointUrlPublisher
from towpath_tas.adapters.keys import KeyFileError, load_key
from towpath_tas.app.audit.audit_export import AuditLogRequests
from towpath_tas.app.audit.audit_proofs import AuditProofs
from towpath_tas.app.audit.erasures import Erasures
from towpath_tas.app.audit.housekeeping import AuditRetention, RetentionQueries
from towpath_tas.app.audit.run_retention import RunPruning, RunRetention
from towpath_tas.app.audit.sealer import CheckpointPublisher, Sealer
from towpath_tas.core.erasure_rules import ErasureRules
from towpath_tas.core.prune_rules import RunKeepDays
from towpath_tas.metrics import TasMetrics
from towpath_tas.settings import TasSettings
from towpath_tas.wiring.call_wiring import serve, serve_in_turns

AUDIT_READINGS = 1
"""Requests that read the audit at the same time. Each holds a connection or the loop for long, and those that no loop
keeps are few: stop switches, approvals, fences and seals need one too."""

AUDIT_WAIT_S = 4.0
"""How long such a request waits for its turn: the gateway waits for most answers for five seconds."""


def audit_turns() -> WorkTurns:
    """Return the turns of projects at reading the audit."""
    return WorkTurns(AUDIT_READINGS, lambda _: AUDIT_READINGS, AUDIT_WAIT_S)


SEAL_KEY_NAME = "seal.key"
"""File name of the embedded platform's sealing key, next to the ticket key."""


def note_signer(settings: TasSettings) -> Signer:
    """Return the signer of checkpoints; on the embedded platform its key is created. Raises KeyFileError."""
    path = settings.seal_key_file
    if path is None and settings.embedded and settings.ticket_key_file is not None:
        path = settings.ticket_key_file.with_name(SEAL_KEY_NAME)
    if path is None:
        msg = "TOWPATH_SEAL_KEY_FILE is not set, and the audit has to be sealed; make a key: towpath keys seal FILE"
        raise KeyFileError(msg)
    try:
        return Signer(settings.audit_origin, load_key(path, create=settings.embedded, what="sealing key"))
    except NoteError as error:
        raise KeyFileError(f"TOWPATH_AUDIT_ORIGIN: {error}") from error


def other_seal_keys(settings: TasSettings) -> list[PublicKey]:
    """Return the keys that checkpoints of this log may bear besides the own. Raises KeyFileError."""
    texts = [text for text in settings.seal_other_keys.split(",") if text.strip()]
    try:
        keys = read_keys(texts)
    except NoteError as error:
        raise KeyFileError(f"TOWPATH_SEAL_OTHER_KEYS: {error}; show a key: towpath audit checkpoint") from error
    strange = [key.name for key in keys if key.name != settings.audit_origin]
    if strange:
        msg = f"TOWPATH_SEAL_OTHER_KEYS has a key of another log, {strange[0]}; this one is {settings.audit_origin}"
        raise KeyFileError(msg)
    return keys


def start_audit(service: Service, settings: TasSettings, signer: Signer, metrics: TasMetrics, turns: WorkTurns) -> None:
    """Answer requests about the audit log, and start to seal it."""
    pool, bus, log = service.pool, service.bus, service.log
    outlets: list[CheckpointPublisher] = [CheckpointLogPublisher(log)]
    if settings.checkpoint_file is not None:
        outlets.append(CheckpointFilePublisher(settings.checkpoint_file, log))
    if settings.checkpoint_url:
        outlets.append(CheckpointUrlPublisher(settings.checkpoint_url, log))
    sealer = Sealer(
        *(pool, signer, outlets, metrics, log),
        every_s=settings.seal_every_s,
        idle_s=settings.seal_idle_s,
        publish_s=settings.checkpoint_every_s,
        other_keys=other_seal_keys(settings),
    )
    bundles = AuditLogRequests(pool, sealer)
    serve_in_turns(bus, rpc.AUDIT_EXPORT, bundles.export, turns)
    serve_in_turns(bus, rpc.AUDIT_CHECKPOINT, bundles.checkpoint, turns)
    serve_in_turns(bus, rpc.AUDIT_PROVE, AuditProofs(pool, sealer).prove, turns)
    service.loop(sealer.run)
    rules = ErasureRules(delay=timedelta(hours=settings.erase_delay_h), single_person=settings.single_person)
    erasures = Erasures(pool, rules, log)
    serve(bus, rpc.REQUEST_ERASURE, erasures.request)
    serve(bus, rpc.DECIDE_ERASURE, erasures.decide)
    serve(bus, rpc.LIST_ERASURES, erasures.list)
    service.loop(erasures.run)
    serve(bus, rpc.PRUNE_RUNS, RunPruning(pool).prune)
    service.loop(RunRetention(pool, log, metrics, keep=keep_days_of(settings)).run)
    serve(bus, rpc.GET_RETENTION, RetentionQueries(retention_of(settings)).get)
    service.loop(AuditRetention(pool, log, metrics, keep_days=settings.audit_keep_days).run)


def keep_days_of(settings: TasSettings) -> RunKeepDays:
    """Return for how long runs are kept with *settings*."""
    return RunKeepDays(
        days=settings.run_keep_days,
        by_status={str(status): days for status, days in settings.run_keep_days_by_status.items()},
        by_network=settings.run_keep_days_by_network,
    )


def retention_of(settings: TasSettings) -> TasRetention:
    """Return for how long the audit and runs are kept with *settings*, and whether somebody has set it."""
    return TasRetention(
        instance=settings.instance,
        audit_keep_days=settings.audit_keep_days,
        origin="set" if "audit_keep_days" in settings.model_fields_set else "default",
        run_keep_days=settings.run_keep_days,
        runs_origin="set" if "run_keep_days" in settings.model_fields_set else "default",
        run_keep_days_by_status=dict(keep_days_of(settings).by_status),
        run_keep_days_by_network=settings.run_keep_days_by_network,
    )
