"""Requests of workers take turns of the projects that their tickets and subjects name."""

import json
import uuid
from datetime import UTC, datetime, timedelta

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from towpath_contracts.tools.calls import (
    BlobChunk,
    EffectClass,
    TicketClaims,
)
from towpath_fabric.tickets import TicketSigner
from towpath_tas.app.audit.audit_queries import CallBlobRequests
from towpath_tas.app.calls.dispatcher import TicketIssuer
from towpath_tas.app.calls.postgres_clock import PostgresClock
from towpath_tas.app.worker_turns import WorkerTurns

NOW = datetime(2026, 11, 26, tzinfo=UTC)


def ticket(signer: TicketSigner) -> str:
    claims = TicketClaims(
        **{name: uuid.uuid4() for name in ("execution_id", "run_id")},
        attempt=1,
        fence=0,
        policy_version=1,
        tool="t",
        args_digest="",
        effect_class=EffectClass.PURE,
        project="shop",
        issued_at=NOW.timestamp(),
        expires_at=(NOW + timedelta(minutes=5)).timestamp(),
        key_id=signer.key_id,
    )
    return signer.sign(claims)


def test_a_piece_of_a_result_is_read_in_the_turn_of_the_project_that_its_ticket_names() -> None:
    signer = TicketSigner(Ed25519PrivateKey.generate())
    requests = CallBlobRequests(None, TicketIssuer(signer, PostgresClock(), 300), WorkerTurns())
    for signed, owner in ((ticket(signer), "shop"), (ticket(TicketSigner(Ed25519PrivateKey.generate())), ""), ("", "")):
        piece = BlobChunk(digest="d", index=0, total=1, data_base64="", ticket=signed)
        for body in (piece.model_dump_json(), json.dumps(piece.model_dump(mode="json"))):
            assert requests.owner_of("svc.tas.blob_put", body.encode()) == owner
    assert requests.owner_of("svc.tas.blob_put", b"no request") == ""
