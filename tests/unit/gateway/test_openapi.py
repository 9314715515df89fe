"""What the gateway says about itself."""

import asyncio
import json
import time
from typing import Any

import pytest
from tests.support.gateway.openapi_document import openapi_document

from towpath_contracts.problems.registry import REGISTRY
from towpath_gateway.__main__ import main
from towpath_gateway.app.application import OPENAPI_PATH, create_app
from towpath_gateway.core.api_keys import SCOPES


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return openapi_document()


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(path, method, found) for path, methods in document["paths"].items() for method, found in methods.items()]


def test_every_refusal_is_described_as_a_problem(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                schema = response["content"]["application/problem+json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/Problem"}, (path, method, status)
                assert all(REGISTRY[code].status == int(status) for code in response["x-codes"])


def test_every_operation_that_needs_a_key_says_how_it_refuses(document: dict[str, Any]) -> None:
    assert document["security"] == [{"key": []}]
    for path, _, operation in operations(document):
        if not path.startswith("/problems"):
            assert {"401", "403", "422", "503"} <= set(operation["responses"])
            assert operation["summary"]
            assert operation["description"]


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    def references(part: Any) -> list[str]:
        if isinstance(part, dict):
            own = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
            return own + [found for value in part.values() for found in references(value)]
        return [found for value in part for found in references(value)] if isinstance(part, list) else []

    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(references(document)) <= known
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_the_document_is_printed_by_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["openapi"]) == 0
    assert '"/v1/runs/{run_id}/events"' in capsys.readouterr().out
    assert len(SCOPES) == len(set(SCOPES))


async def test_others_are_served_while_the_document_is_made() -> None:
    (endpoint,) = [route.endpoint for route in create_app(None).routes if getattr(route, "path", "") == OPENAPI_PATH]  # type: ignore[attr-defined]
    asking = asyncio.gather(endpoint(None), endpoint(None))
    longest = 0.0
    while not asking.done():
        began = time.thread_time()
        await asyncio.sleep(0.001)
        longest = max(longest, time.thread_time() - began)
    one, other = await asking
    assert one.body == other.body
    assert "/v1/runs" in json.loads(one.body)["paths"]
    assert longest < 0.1
