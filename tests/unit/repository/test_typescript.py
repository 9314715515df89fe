"""The types of the TypeScript client: equal to the gateway's OpenAPI document, and written by its rules."""

from typing import Any

from tests.typescript.declarations import GENERATED, ApiDeclarations, declarations


def test_the_types_of_the_typescript_client_are_those_of_the_openapi_document() -> None:
    assert GENERATED.read_text("utf-8") == declarations(), "python -m tests.typescript"


def document(**schemas: Any) -> dict[str, Any]:
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Sent-Input"}}}}
    good = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Received"}}}}
    parameters = [
        {"in": "path", "name": "run_id", "required": True, "schema": {"type": "string"}},
        {"in": "query", "name": "after", "schema": {"type": "integer", "default": 0}, "description": "a seq"},
    ]
    operation = {"parameters": parameters, "requestBody": body, "responses": {"200": good, "404": {"content": {}}}}
    return {"components": {"schemas": schemas}, "paths": {"/v1/runs/{run_id}": {"post": operation}}}


FIELDS = {
    "kind": {"const": "a", "default": "a"},
    "many": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "default": []},
    "of-any": {"type": "object", "additionalProperties": {"type": "integer"}, "default": None},
    "said": {"enum": ["x", "y"], "description": "ends */ here"},
}


def test_a_default_may_be_left_out_of_what_is_sent_and_is_there_in_what_is_received() -> None:
    message = {"type": "object", "properties": FIELDS, "required": ["said"]}
    text = ApiDeclarations(document(**{"Sent-Input": message, "Received": message})).text()
    sent, received = text.split("export interface SentInput")[1], text.split("export interface Received")[1]
    assert '  kind?: "a";\n  many?: (string | null)[];\n  "of-any"?: Record<string, number>;\n' in sent
    assert '  kind: "a";\n  many: (string | null)[];\n  "of-any"?: Record<string, number>;\n' in received
    assert '  /** ends * / here */\n  said: "x" | "y";\n' in received


def test_an_operation_says_what_it_takes_and_gives() -> None:
    empty = {"type": "object", "properties": {}}
    text = ApiDeclarations(document(**{"Sent-Input": empty, "Received": empty})).text()
    operation = text.split("export interface Operations")[1]
    for line in (
        '"POST /v1/runs/{run_id}": {',
        "path: {\n      run_id: string;\n    };",
        "query: {\n      /** a seq */\n      after?: number;\n    } | undefined;",
        "body: SentInput | undefined;",
        "answer: Received;",
    ):
        assert line in operation
