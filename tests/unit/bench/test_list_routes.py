"""`python -m bench.lists` asks for every list of the gateway, and uses each of its filters."""

from collections import defaultdict
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from bench.lists.questions import questions
from bench.lists.routes import OTHERWISE, not_asked
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.support.gateway.openapi_document import openapi_document

from towpath_audit.notes import Signer

SIGNER = Signer("bench", Ed25519PrivateKey.from_private_bytes(bytes(32)))
KNOWN: dict[str, Any] = defaultdict(lambda: UUID(int=7), letter=7, entry=7, size=7)


def test_every_list_and_filter_of_the_gateway_is_asked_for() -> None:
    asked = questions(defaultdict(lambda: None), KNOWN, datetime.now(UTC), SIGNER)
    document = openapi_document()
    assert list(not_asked(document, asked)) == []
    gone = {*OTHERWISE, *(one.route for one in asked if one.route)} - set(document["paths"])
    assert gone == set()


def test_a_route_and_a_parameter_without_a_question_are_named() -> None:
    asked = [
        one for one in questions(defaultdict(lambda: None), KNOWN, datetime.now(UTC), SIGNER) if one.about != "keys"
    ]
    asked = [one._replace(parameters=()) if one.about == "notices" else one for one in asked]
    found = list(not_asked(openapi_document(), asked))
    assert found == ["/v1/notices?before", "/v1/notices?status", "/v1/keys"]
