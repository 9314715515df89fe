"""What messages and HTTP operations take at most, and take for what is left out: tests/golden/limits.txt.

`python -m tests.support.wire_summary write` writes this file too. A bound that becomes narrower refuses what a client
of an older version sends, and another default gives another meaning to what it leaves out: both break compatibility,
and are refused as a field that goes away is. A wider bound, and a default where there was none, are additions.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from tests.support.wire_summary import COMMAND, Names, documents

from towpath.cli.broker.broker_user_list import BrokerUserList
from towpath.project.mcp_servers import ServersFile
from towpath.tools.builtin import http_request
from towpath_contracts.decisions.assessments import (
    ConfidenceAnswer,
    FinalSummaryAnswer,
    ProgressAnswer,
    ReflectionAnswer,
    ResultValidationAnswer,
)
from towpath_contracts.decisions.decision import AbandonDetails, Certainty, RequestGateDetails
from towpath_contracts.decisions.provider_limits import ProviderLimit
from towpath_contracts.files.policy_tests import PolicyTest
from towpath_contracts.networks.child_tools import BUILT_IN_TOOLS, delegate_spec
from towpath_contracts.tools.reports import ArtifactReport, TestReport
from towpath_engine.rules import output_tools, plan_tools, workspace_tools
from towpath_fabric.prices.model_price_list import TokenPrice
from towpath_orchestrator.adapters.notice_targets import ApprovalNoticesFile
from towpath_orchestrator.adapters.webhooks import WebhookFile
from towpath_orchestrator.app.api.client_requests import ClientCancel, ClientGetEvents, ClientGetRun

FILE = Path(__file__).parents[1] / "golden" / "limits.txt"
HEAD = f"""\
# What messages and HTTP operations take at most, and for what is left out. Written by `{COMMAND}`; don't edit.
# `field[]` are the items of a list, `field{{}}` the values of an object with any keys.
"""
Json = dict[str, Any]
LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
DEFAULT = "default"
EVERYWHERE = "schema_version"
"""A field of every message, whose default is the version of them all."""

WRITTEN_BY_HAND: tuple[type[BaseModel], ...] = (
    *(ServersFile, WebhookFile, ApprovalNoticesFile, BrokerUserList, PolicyTest, ProviderLimit, TokenPrice),
    *(ClientGetRun, ClientGetEvents, ClientCancel),
    *(Certainty, AbandonDetails, RequestGateDetails, ResultValidationAnswer, ConfidenceAnswer, ProgressAnswer),
    *(ReflectionAnswer, FinalSummaryAnswer, TestReport, ArtifactReport),
    *(output_tools._ReadPart, output_tools._SearchText, plan_tools._SetUp),
    *(workspace_tools._Read, workspace_tools._Write, workspace_tools._FileEdit),
    *(workspace_tools._Glob, workspace_tools._Grep),
)
"""Files of operators, requests of plain NATS clients, answers of models and tools, arguments of the platform's tools:
none of it is a message of the platform, and what was taken of it yesterday has to be taken tomorrow, too."""

Limits = dict[str, dict[str, str]]
"""By `Message.field`, the words of its JSON Schema."""


def limits() -> Limits:
    """Return what the code of this checkout takes."""
    messages, openapi = documents()
    found: Limits = {}
    for schemas in (messages, openapi["components"]["schemas"]):
        names = Names(schemas)
        found |= _of_all({names.of(key): part for key, part in schemas.items() if not key.endswith("-Output")})
    for path, methods in sorted(openapi["paths"].items()):
        for method, operation in sorted(methods.items()):
            for part in operation.get("parameters", ()):
                found |= _of(f"{method.upper()} {path} {part['name']}", part["schema"])
    for model in WRITTEN_BY_HAND:
        schema = model.model_json_schema()
        found |= _of_all({name.strip("_"): part for name, part in [(model.__name__, schema), *_inner(schema)]})
    offered = (http_request.spec, *BUILT_IN_TOOLS.values(), delegate_spec("agent"))
    found |= _of_all({f"tool {spec.name}": spec.parameters for spec in offered})
    return {place: words for place, words in found.items() if words}


def _inner(schema: Json) -> Iterator[tuple[str, Json]]:
    yield from schema.get("$defs", {}).items()


def _of_all(schemas: Json) -> Limits:
    return {
        place: words
        for name in sorted(schemas)
        for field, schema in schemas[name].get("properties", {}).items()
        if field != EVERYWHERE
        for place, words in _words(f"{name}.{field}", schema)
    }


def _of(place: str, schema: Json) -> Limits:
    return dict(_words(place, schema))


def _words(place: str, schema: Json) -> Iterator[tuple[str, dict[str, str]]]:
    own = {word: _number(schema[word]) for word in (*LOWER, *UPPER) if word in schema}
    given = schema.get(DEFAULT)
    if "const" not in schema and isinstance(given, bool | int | float | str) and given != "":
        own = {DEFAULT: str(given).lower() if isinstance(given, bool) else _number(given), **own}
    inner: list[tuple[str, dict[str, str]]] = []
    choices = schema.get("anyOf", schema.get("oneOf", ()))
    for number, choice in enumerate(one for one in choices if one.get("type") != "null"):
        found = list(_words(f"{place}|{number}" if number else place, choice))
        own |= found[0][1] if found and found[0][0] == place else {}
        inner += found[1:] if found and found[0][0] == place else found
    yield place, own
    yield from inner
    if isinstance(items := schema.get("items"), dict):
        yield from _words(f"{place}[]", items)
    if isinstance(values := schema.get("additionalProperties"), dict):
        yield from _words(f"{place}{{}}", values)
    if isinstance(keys := schema.get("propertyNames"), dict):
        yield from _words(f"{place}{{}} key", keys)


def _number(value: object) -> str:
    return f"{int(value)}" if isinstance(value, float) and value.is_integer() else str(value)


def lines(found: Limits) -> str:
    """Return the text of the file."""
    told = (
        f"{place}: {', '.join(f'{word} {value}' for word, value in words.items())}\n" for place, words in found.items()
    )
    return HEAD + "".join(told)


def written(text: str) -> Limits:
    """Return what *text* holds, as `lines` writes it."""
    found: Limits = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            place, _, words = line.partition(": ")
            found[place] = dict(part.split(" ", 1) for part in words.split(", "))  # type: ignore[misc]
    return found


def breaks(old: Limits, new: Limits) -> list[str]:
    """Return what a client that relies on *old* misses in *new*, a sentence each; what is gone is not named."""
    return [
        sentence for place, words in new.items() if place in old for sentence in _narrower(place, old[place], words)
    ]


def _narrower(place: str, old: dict[str, str], new: dict[str, str]) -> Iterator[str]:
    if DEFAULT in old and old[DEFAULT] != new.get(DEFAULT):
        yield f"{place}: its default was {old[DEFAULT]}, is {new.get(DEFAULT, 'none')}"
    for word in (*LOWER, *UPPER):
        if word in new:
            grown = word not in old or (float(new[word]) - float(old[word])) * (1 if word in LOWER else -1) > 0
            if grown:
                yield f"{place}: {word} was {old.get(word, 'none')}, is {new[word]}"
