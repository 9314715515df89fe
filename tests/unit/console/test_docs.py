"""The references: every operation, subject, schema and problem code has its page, and all links lead somewhere."""

import json
import re
from typing import Any

import pytest
from tests.support.console.recorded_api import RecordedApi, asked_of, drawn
from tests.support.gateway.openapi_document import openapi_document

from towpath_console.api import ApiRefusalError
from towpath_console.pages.docs import asyncapi, docs
from towpath_console.pages.problems import problem_page
from towpath_console.schema_words import TypePiece, bounds_of, fields_of, type_of
from towpath_contracts.problems.examples.problem_examples import EXAMPLES
from towpath_contracts.problems.registry import REGISTRY, TYPE_PREFIX
from towpath_fabric.asyncapi import asyncapi_document

MOST_BYTES = 250_000


@pytest.fixture(scope="module")
def api() -> RecordedApi:
    documents = {"/openapi.json": openapi_document(), "/asyncapi.json": asyncapi_document()}
    return RecordedApi(**json.loads(json.dumps(documents)))


def linked(html: str, kind: str) -> set[str]:
    return set(re.findall(rf'href="/(?:docs|asyncapi)\?{kind}=([^"&]+)"', html))


async def test_every_operation_and_schema_has_a_page_and_every_link_leads_to_one(api: RecordedApi) -> None:
    page = await docs(asked_of(api))
    index = drawn(page)
    operations, schemas = linked(index, "operation"), linked(index, "schema")
    assert len(operations) == len(page.data["operations"]) > 70 and len(schemas) > 200
    for name in operations:
        html = drawn(await docs(asked_of(api, {"operation": name})))
        assert linked(html, "schema") <= schemas and len(html) < MOST_BYTES
        assert set(re.findall(r'href="/problems/([a-z_]+)"', html)) <= set(REGISTRY)
    for name in sorted(schemas)[::8]:
        assert linked(drawn(await docs(asked_of(api, {"schema": name}))), "schema") <= schemas


async def test_an_operation_says_which_scope_it_needs(api: RecordedApi) -> None:
    page = await docs(asked_of(api))
    scopes = {(one["method"], one["path"]): one["scope"] for one in page.data["operations"]}
    assert scopes["POST", "/v1/runs"] == "runs:write"
    assert {path for (_, path), scope in scopes.items() if not scope} == {"/problems", "/problems/{code}", "/v1/me"}


async def test_the_search_finds_by_path_word_and_scope_and_says_when_nothing_matches(api: RecordedApi) -> None:
    query = {"q": "budget"}
    html = drawn(await docs(asked_of(api, query)), query)
    assert "/v1/budgets" in html and "/v1/gates" not in html
    nothing = drawn(await docs(asked_of(api, {"q": "<b>zz"})))
    assert "No operation matches" in nothing and "<b>zz" not in nothing
    with pytest.raises(ApiRefusalError) as refused:
        await docs(asked_of(api, {"schema": "Nothing"}))
    assert refused.value.status == 404


async def test_every_subject_is_shown_with_who_says_it_to_whom(api: RecordedApi) -> None:
    html = drawn(await asyncapi(asked_of(api)))
    schemas = linked(html, "schema")
    for one in asyncapi_document()["channels"].values():
        assert not one.get("address") or one["address"] in html
    assert "orchestrator" in html and len(html) < MOST_BYTES
    for name in ("SubmitTask", "Fact"):
        assert linked(drawn(await asyncapi(asked_of(api, {"schema": name}))), "schema") <= schemas


def test_types_are_said_in_words() -> None:
    said: list[tuple[dict[str, Any], str]] = [
        ({"type": "array", "items": {"$ref": "#/components/schemas/A"}}, "list of A"),
        ({"anyOf": [{"type": "string", "format": "uuid"}, {"type": "null"}]}, "string (uuid) or null"),
        ({"enum": ["a", "b"]}, "'a' or 'b'"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "map of integer"),
        ({}, "any value"),
    ]
    for schema, words in said:
        assert "".join(piece.words for piece in type_of(schema)) == words
    assert type_of({"$ref": "#/x/Name"}) == [TypePiece("Name", "Name")]
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(500):
        deep = {"type": "array", "items": deep}
    assert len(type_of(deep)) < 20, "a schema that is nested deeply costs nothing"
    shallow: dict[str, Any] = {"type": "string"}
    for _ in range(8):
        shallow = {"type": "array", "items": shallow}
    assert [piece.words for piece in type_of(shallow)] == ["list of "] * 8 + ["string"]
    deeper = type_of({"type": "array", "items": shallow})
    assert [piece.words for piece in deeper] == ["list of "] * 9 + ["any value"]
    (many,), (more,) = (type_of({"enum": list(range(number))}) for number in (40, 41))
    assert many.words.endswith("38 or 39") and more.words.endswith("38 or 39 or …")
    assert bounds_of({"anyOf": [{"type": "string", "maxLength": 5}, {"type": "null"}]}) == "at most 5 characters"
    fields = fields_of({"properties": {"a": {"default": 3}, "b": {}}, "required": ["b"]})
    assert [(field.name, field.required, field.bounds) for field in fields] == [
        ("b", True, ""),
        ("a", False, "default 3"),
    ]


def test_each_problem_code_has_a_page_with_its_remedy() -> None:
    kinds = [
        {"type": TYPE_PREFIX + code, **kind._asdict(), **EXAMPLES[code]._asdict()} for code, kind in REGISTRY.items()
    ]
    listed = drawn(problem_page(kinds, ""))
    for kind in kinds:
        assert f'href="/problems/{kind["code"]}"' in listed
    html = drawn(problem_page(kinds, "unauthenticated"))
    assert "of the command line" in drawn(problem_page(kinds, "port_busy")) and "of the command line" not in html
    assert REGISTRY["unauthenticated"].title in html and REGISTRY["unauthenticated"].remedy in html
    assert EXAMPLES["unauthenticated"].cause in html and "<code>towpath keys create --caller NAME</code>" in html


async def test_a_subject_names_the_stream_that_keeps_it_or_says_that_none_does(api: RecordedApi) -> None:
    page = await asyncapi(asked_of(api))
    streams = {one["address"]: one["stream"] for one in page.data["channels"]}
    assert (streams["tool.request"], streams["task.submit"]) == ("TOOLREQ", "")
    assert "not kept" in drawn(page)
