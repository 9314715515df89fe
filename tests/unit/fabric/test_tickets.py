"""A ticket is good for exactly one call, for a while, and can't be made by anybody else."""

import uuid
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from towpath_contracts.tools.calls import EffectClass
from towpath_contracts.tools.tickets import TicketClaims
from towpath_fabric.tickets import TicketFault, TicketRefusedError, TicketSigner, TicketVerifier

SIGNER = TicketSigner(Ed25519PrivateKey.generate())
VERIFIER = TicketVerifier(SIGNER.public_keys())
RUN, EXECUTION = uuid.uuid4(), uuid.uuid4()
CALL: dict[str, Any] = {
    "execution_id": EXECUTION,
    "attempt": 1,
    "run_id": RUN,
    "tool": "orders.refund",
    "args_digest": "sha256:aa",
    "now": 150.0,
}


def claims(**changes: Any) -> TicketClaims:
    seen = {key: value for key, value in CALL.items() if key != "now"}
    fixed = {"project": "default", "fence": 2, "effect_class": EffectClass.PURE, "policy_version": 1}
    return TicketClaims.model_validate(
        {**fixed, "issued_at": 100.0, "expires_at": 200.0, "key_id": SIGNER.key_id, **seen, **changes}
    )


def refused(ticket: str, **changes: Any) -> TicketFault:
    with pytest.raises(TicketRefusedError) as caught:
        VERIFIER.verify(ticket, **{**CALL, **changes})
    return caught.value.reason


def test_a_ticket_is_accepted_for_its_own_call() -> None:
    assert VERIFIER.verify(SIGNER.sign(claims()), **CALL, fence=2) == claims()


def test_a_missing_ticket_is_refused() -> None:
    assert refused("") is TicketFault.MISSING


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("execution_id", uuid.uuid4()),
        ("attempt", 2),
        ("run_id", uuid.uuid4()),
        ("tool", "orders.read"),
        ("args_digest", "sha256:bb"),
        ("run_digest", "sha256:cc"),
    ],
)
def test_a_ticket_for_another_call_is_refused(name: str, other: Any) -> None:
    assert refused(SIGNER.sign(claims()), **{name: other}) is TicketFault.MISMATCH


def test_a_ticket_attests_what_is_said_of_the_run_of_the_call_and_nothing_where_nothing_is_said() -> None:
    attested = SIGNER.sign(claims(run_digest="sha256:cc"))
    assert VERIFIER.verify(attested, **CALL, run_digest="sha256:cc").run_digest == "sha256:cc"
    assert refused(attested, run_digest="sha256:dd") is TicketFault.MISMATCH
    assert refused(attested) is TicketFault.MISMATCH
    assert "run_digest" not in claims().model_dump(), "as before the field existed"


def test_an_expired_ticket_is_refused() -> None:
    assert refused(SIGNER.sign(claims()), now=200.1) is TicketFault.EXPIRED


def test_a_ticket_from_an_older_fence_is_refused() -> None:
    assert refused(SIGNER.sign(claims()), fence=3) is TicketFault.OUTDATED


def test_no_changed_character_is_accepted() -> None:
    ticket = SIGNER.sign(claims())
    for place in range(len(ticket)):
        other = "A" if ticket[place] != "A" else "B"
        forged = ticket[:place] + other + ticket[place + 1 :]
        try:
            opened = VERIFIER.open(forged)
        except TicketRefusedError as error:
            assert error.reason is TicketFault.FORGED
        else:  # the last character of unpadded base64 carries bits that no byte uses
            assert opened == claims()


def test_a_ticket_of_an_unknown_key_is_a_forgery() -> None:
    stranger = TicketSigner(Ed25519PrivateKey.generate())
    assert refused(stranger.sign(claims(key_id=stranger.key_id))) is TicketFault.FORGED


def test_a_stranger_who_names_our_key_is_refused() -> None:
    stranger = TicketSigner(Ed25519PrivateKey.generate(), SIGNER.key_id)
    assert refused(stranger.sign(claims())) is TicketFault.FORGED


@pytest.mark.parametrize("ticket", [".", "x", "é.é", "e30.e30", "a" * 9_000, "=.=", "{}.{}"])
def test_anything_else_is_a_forgery(ticket: str) -> None:
    assert refused(ticket) is TicketFault.FORGED


def test_a_signer_does_not_sign_for_another_key() -> None:
    with pytest.raises(ValueError, match="name key other"):
        SIGNER.sign(claims(key_id="other"))


def test_a_verifier_learns_a_rotated_key() -> None:
    fresh = TicketSigner(Ed25519PrivateKey.generate())
    verifier = TicketVerifier(SIGNER.public_keys())
    verifier.learn(fresh.public_keys())
    assert verifier.open(fresh.sign(claims(key_id=fresh.key_id))).key_id == fresh.key_id
    assert verifier.open(SIGNER.sign(claims())).key_id == SIGNER.key_id


@pytest.mark.parametrize(("chars", "decoded"), [(8_192, True), (8_193, False)])
def test_a_text_far_longer_than_a_ticket_is_not_decoded(chars: int, decoded: bool) -> None:
    with pytest.raises(TicketRefusedError) as caught:
        VERIFIER.open("a" * chars)
    assert ("far too long" not in str(caught.value)) is decoded
