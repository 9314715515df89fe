"""The HTTP API and the message bus, for people: drawn from the documents that programs read."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from towpath_console.api import ApiRefusalError
from towpath_console.page import Asked, Page, PageRoute
from towpath_console.schema_words import bounds_of, fields_of, name_of, paragraphs, type_of

SECTION = "/docs"
METHODS = ("get", "post", "put", "patch", "delete")
DOCUMENTS = {"/docs": "/openapi.json", "/asyncapi": "/asyncapi.json"}


async def docs(asked: Asked) -> Page:
    """Make the list of operations, or the page of one operation or schema that the query names."""
    document = await asked.api.get(DOCUMENTS["/docs"])
    if name := asked.query.get("schema"):
        return _schema_page(document, name, "/docs")
    operations = list(_operations(document))
    if wanted := asked.query.get("operation"):
        found = [one for one in operations if one["id"] == wanted]
        if not found:
            raise _nothing("operation", wanted)
        return _operation_page(found[0])
    words = asked.query.get("q", "").strip().lower()
    tags = defaultdict(list)
    for one in operations:
        if words in f"{one['method']} {one['path']} {one['summary']} {one['scope']}".lower():
            tags[one["tag"]].append(one)
    schemas = [name for name in sorted(document["components"]["schemas"]) if words in name.lower()]
    view = {"tags": dict(tags), "schemas": schemas, "info": document["info"], "words": words}
    shown = [{key: one[key] for key in ("id", "method", "path", "summary", "scope")} for one in operations]
    return Page("HTTP API", "docs.html", {"operations": shown, "document": DOCUMENTS["/docs"]}, view)


async def asyncapi(asked: Asked) -> Page:
    """Make the list of channels, or the page of one schema."""
    document = await asked.api.get(DOCUMENTS["/asyncapi"])
    if name := asked.query.get("schema"):
        return _schema_page(document, name, "/asyncapi")
    words = asked.query.get("q", "").strip().lower()
    channels = [
        one
        for one in _channels(document)
        if words in f"{one['address']} {one['sender']} {one['receiver']} {one['summary']}".lower()
    ]
    schemas = [name for name in sorted(document["components"]["schemas"]) if words in name.lower()]
    view = {"channels": channels, "schemas": schemas, "info": document["info"], "words": words}
    return Page("Message bus", "asyncapi.html", {"channels": channels, "document": DOCUMENTS["/asyncapi"]}, view)


def _operations(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for path, methods in document["paths"].items():
        for method in METHODS:
            if method in methods:
                one = methods[method]
                yield {
                    "id": one["operationId"],
                    "method": method.upper(),
                    "path": path,
                    "tag": (one.get("tags") or ["others"])[0],
                    "summary": one.get("summary", ""),
                    "scope": one.get("x-scope", ""),
                    "described": one,
                }


def _operation_page(one: Mapping[str, Any]) -> Page:
    described = one["described"]
    parameters = [
        {
            "name": parameter["name"],
            "place": parameter["in"],
            "required": parameter.get("required", False),
            "type": type_of(parameter.get("schema", {})),
            "bounds": bounds_of(parameter.get("schema", {})),
            "description": paragraphs(parameter.get("description", "")),
        }
        for parameter in described.get("parameters", ())
    ]
    answers = [
        {
            "status": status,
            "description": answer.get("description", ""),
            "type": [
                piece for content in answer.get("content", {}).values() for piece in type_of(content.get("schema"))
            ],
            "codes": answer.get("x-codes", ()),
        }
        for status, answer in sorted(described["responses"].items())
    ]
    contents = described.get("requestBody", {}).get("content", {})
    view = {
        "one": one,
        "description": paragraphs(described.get("description", "")),
        "parameters": parameters,
        "body": [piece for content in contents.values() for piece in type_of(content.get("schema"))],
        "media": ", ".join(contents),
        "answers": answers,
        "base": "/docs",
    }
    return Page(f"{one['method']} {one['path']}", "docs_operation.html", described, view)


def _channels(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the channels that have an address, each with what is answered where something is."""
    channels = document["channels"]
    return [
        {
            "key": key,
            "address": one["address"],
            "sender": one.get("x-from", ""),
            "receiver": one.get("x-to", ""),
            "stream": _stream_of(one.get("x-carrier")),
            "summary": one.get("summary", ""),
            "messages": list(one.get("messages", ())),
            "replies": [name for name in channels.get(f"{key}Reply", {}).get("messages", ()) if name != "Problem"],
        }
        for key, one in channels.items()
        if one.get("address")
    ]


def _stream_of(carrier: Any) -> str:
    """Return the stream that keeps what is said; empty where nothing does."""
    return str(carrier.get("stream", "")) if isinstance(carrier, Mapping) else ""


def _schema_page(document: Mapping[str, Any], name: str, base: str) -> Page:
    schema = document["components"]["schemas"].get(name)
    if schema is None:
        raise _nothing("schema", name)
    view = {
        "name": name,
        "schema": schema,
        "description": paragraphs(schema.get("description", "")),
        "fields": (fields := fields_of(schema)),
        "described": any(field.description for field in fields),
        "type": type_of({key: value for key, value in schema.items() if key != "properties"}),
        "kinds": [name_of(one["$ref"]) for one in schema.get("oneOf", schema.get("anyOf", ())) if "$ref" in one],
        "base": base,
        "document": DOCUMENTS[base],
    }
    return Page(name, "docs_schema.html", schema, view)


def _nothing(what: str, name: str) -> ApiRefusalError:
    problem = {"code": "not_found", "title": f"There is no such {what}", "detail": name[:200]}
    return ApiRefusalError(404, problem)


PAGES = (PageRoute("/docs", docs, SECTION), PageRoute("/asyncapi", asyncapi, SECTION))
