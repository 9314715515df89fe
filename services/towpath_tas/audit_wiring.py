"""The parts of one replica that make the audit a log: sealer, exports, retention, put together from the settings.

A replica without a sealing key does not start: an audit that is quietly not sealed would prove nothing.
"""

from towpath_audit.notes import NoteError, Signer
from towpath_contracts import rpc
from towpath_fabric.service import Service
from towpath_tas.adapters.checkpoints import CheckpointFile, CheckpointLog, Witness
from towpath_tas.adapters.keys import KeyFileError, load_key
from towpath_tas.app.audit.audit_export import Bundles
from towpath_tas.app.audit.audit_proofs import Proving
from towpath_tas.app.audit.retention import Retention
from towpath_tas.app.audit.sealer import Outlet, Sealer
from towpath_tas.metrics import Metrics
from towpath_tas.settings import TasSettings
from towpath_tas.wiring import serve

BESIDE = "seal.key"
"""The name of the embedded platform's sealing key, which lies beside the one that signs tickets."""


def note_signer(settings: TasSettings) -> Signer:
    """Return what signs checkpoints; the embedded platform makes its key. Raises KeyFileError."""
    path = settings.seal_key_file
    if path is None and settings.embedded and settings.ticket_key_file is not None:
        path = settings.ticket_key_file.with_name(BESIDE)
    if path is None:
        msg = "TOWPATH_SEAL_KEY_FILE is not set, and the audit has to be sealed; make a key: towpath keys seal FILE"
        raise KeyFileError(msg)
    try:
        return Signer(settings.audit_origin, load_key(path, create=settings.embedded, what="sealing key"))
    except NoteError as error:
        raise KeyFileError(f"TOWPATH_AUDIT_ORIGIN: {error}") from error


def start_auditing(service: Service, settings: TasSettings, signer: Signer, metrics: Metrics) -> None:
    """Answer what is asked of the log, and begin to seal it."""
    pool, bus, log = service.pool, service.bus, service.log
    outlets: list[Outlet] = [CheckpointLog(log)]
    if settings.checkpoint_file is not None:
        outlets.append(CheckpointFile(settings.checkpoint_file, log))
    if settings.checkpoint_url:
        outlets.append(Witness(settings.checkpoint_url, log))
    sealer = Sealer(
        *(pool, signer, outlets, metrics, log),
        every_s=settings.seal_every_s,
        idle_s=settings.seal_idle_s,
        publish_s=settings.checkpoint_every_s,
    )
    bundles = Bundles(pool, sealer)
    serve(bus, rpc.AUDIT_EXPORT, bundles.export)
    serve(bus, rpc.AUDIT_CHECKPOINT, bundles.checkpoint)
    serve(bus, rpc.AUDIT_ERASE, bundles.erase)
    serve(bus, rpc.AUDIT_PROVE, Proving(pool, sealer).prove)
    service.loop(sealer.run)
    service.loop(Retention(pool, log, keep_days=settings.audit_keep_days).run)
