"""What the pages tell in words of the limits of keys and of tool access, and what has to fit into one message."""

import json
from uuid import UUID

import pytest
from tests.support.documented_limits import KIB, Promise, promise

from towpath_audit.entries import SALT_BYTES, ErasablePayload
from towpath_contracts.tools import erasures
from towpath_embedded.servers import nats
from towpath_gateway.adapters import key_store
from towpath_tas.adapters import cel
from towpath_tas.app.audit import audit_queries, export_piece
from towpath_tas.app.calls import run_ancestors
from towpath_tas.app.policy import access_queries, policy_statistics
from towpath_tas.core import erasure_rules
from towpath_tas.core.calls import outcomes

TOLD = [
    ("approvals.md", "other gateways may take it for two seconds more", key_store.CACHE_S, 2),
    ("provenance.md", "The 16 runs before it are read", run_ancestors.MAX_ANCESTORS, 16),
    ("policies.md", "250,000 entries are counted at once", policy_statistics.MAX_SCANNED, 250_000),
    ("policies.md", "page of `audit search` looks through as many", audit_queries.MAX_SCANNED, 250_000),
    ("policies.md", "it looks through 50,000", audit_queries.MAX_SCANNED_PAYLOADS, 50_000),
    ("operations.md", "dead three times, the call fails", outcomes.MAX_DEAD_DELIVERIES, 3),
]


@pytest.mark.parametrize(("page", "words", "value", "meant"), TOLD, ids=[words for _, words, _, _ in TOLD])
def test_a_limit_of_access_is_what_its_page_says(page: str, words: str, value: float, meant: int) -> None:
    said: Promise = promise(page, words)
    assert said.holds, f"docs/{page} does not say: {words}"
    assert value == meant


MESSAGE = 1_024 * KIB


def test_a_piece_of_an_export_that_is_nearly_full_has_room_for_the_longest_payload_in_one_message() -> None:
    assert nats.MAX_PAYLOAD == "1MB"
    assert export_piece.MAX_PIECE_BYTES + export_piece.MAX_PAYLOAD_BYTES < MESSAGE


def test_a_payload_that_is_too_large_is_withheld_whatever_its_characters() -> None:
    """A letter travels in one byte, and a character outside of Unicode's first plane in twelve."""
    for character, size in (("x", 1), ("\U0001f600", 12)):
        for spare, large in ((-500, False), (500, True)):
            detail = character * ((export_piece.MAX_PAYLOAD_BYTES + spare) // size)
            payload = ErasablePayload(salt=b"s" * SALT_BYTES, args_digest="", detail=detail)
            assert export_piece.is_large(payload) == large, (character, spare)


def test_nothing_is_withheld_of_the_largest_erasure() -> None:
    """What it names is what may be gone: of the log's own entries a bundle has to show all."""
    runs = [str(UUID(int=2**127 + place)) for place in range(erasure_rules.MAX_RUNS)]
    detail = json.dumps({"reason": '"' * erasures.MAX_REASON, "runs": runs})
    assert not export_piece.is_large(ErasablePayload(salt=b"s" * SALT_BYTES, args_digest="", detail=detail))


def test_an_argument_that_all_calls_gave_alike_fits_into_the_condition_of_a_grant() -> None:
    name = 100
    assert policy_statistics.MAX_CONSTANT_CHARS + len("args. == ") + name <= cel.MAX_GRANT_CHARS


def test_the_proposals_of_one_answer_fit_into_a_message_in_any_language() -> None:
    assert 3 * access_queries.MAX_PROPOSAL_CHARS < MESSAGE
