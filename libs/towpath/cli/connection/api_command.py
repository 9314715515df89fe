"""`towpath api`: any operation of the HTTP API, sent as every command sends its own.

What is typed is a path of the platform that is asked and never an address: the key goes nowhere else.
"""

import difflib
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qsl, urlsplit

from cyclopts import Parameter

from towpath.cli.shared.input_files import parse_json, read_json
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions
from towpath.errors import TowpathError
from towpath_contracts.problems.registry import ProblemError, problem

if TYPE_CHECKING:
    from towpath.client.client import Client

METHODS = ("GET", "POST", "PUT", "DELETE")
NEAR = 3
"""Operations that are suggested in the place of one that there isn't."""

_VARIABLE = re.compile(r"\{([^}]+)\}")
_WITH_SLASHES = frozenset({"path", "name", "network"})
"""Variables of paths whose values may have slashes in them."""


async def api(
    method: str,
    path: str,
    /,
    *,
    field: Annotated[tuple[str, ...], Parameter(name=("--field", "-f"), negative="")] = (),
    typed: Annotated[tuple[str, ...], Parameter(name=("--json-field", "-F"), negative="")] = (),
    body_file: Annotated[Path | None, Parameter(name="--input", allow_leading_hyphen=True)] = None,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Do any operation of the HTTP API and print its answer; docs/README.md says where they are listed.

    Args:
        method: GET, POST, PUT or DELETE.
        path: The path, such as /v1/runs.
        field: name=TEXT of the body, or of the query with GET and DELETE; may be repeated.
        typed: name=JSON, for numbers, lists and so on; may be repeated.
        body_file: A JSON file with the body, to which the fields are added; - is standard input.
    """
    verb, place, query = _operation(method, path)
    sends_body = verb in {"POST", "PUT"}
    if body_file is not None and not sends_body:
        detail = f"{verb} has no body, so --input says nothing"
        raise ProblemError(problem("request_invalid", detail, remedy="Give fields of the query: -f name=TEXT."))
    body: dict[str, Any] = {} if body_file is None else _object(read_json(body_file), str(body_file))
    typed_fields = ((name, parse_json(text, f"-F {name}")) for name, text in _pairs(typed, "-F"))
    fields = [*_pairs(field, "-f"), *typed_fields]
    if sends_body:
        body |= _once(fields)
    parameters = _together(query if sends_body else [*query, *fields])
    async with common.connect() as client:
        try:
            answer = await client.request(verb, place, body=body if sends_body else None, query=parameters)
        except TowpathError as error:
            if error.problem.code not in {"not_found", "method_not_allowed"}:
                raise
            raise await _explained(client, verb, place, error) from error
        except ValueError as error:
            detail = f"{place} does not answer in JSON"
            raise ProblemError(
                problem("request_invalid", detail, remedy="Ask it with curl or in a browser.")
            ) from error
    common.out().data(answer)


def _operation(method: str, path: str) -> tuple[str, str, list[tuple[str, Any]]]:
    """Return the method, the path and its query as they are sent; raises ProblemError for what can't be."""
    verb = method.upper()
    if verb not in METHODS:
        detail = f"{method} is no method of the API; there are {', '.join(METHODS)}"
        raise ProblemError(problem("request_invalid", detail))
    if not path.startswith("/") or path.startswith("//"):
        detail = f"{path!r} is no path: it begins with one slash, as /v1/runs does; the platform is named by --server"
        raise ProblemError(problem("request_invalid", detail))
    parts = urlsplit(path)
    return verb, parts.path, parse_qsl(parts.query, keep_blank_values=True)


def _pairs(given: tuple[str, ...], option: str) -> list[tuple[str, str]]:
    pairs = [text.partition("=") for text in given]
    wrong = [name for name, sign, _ in pairs if not sign or not name]
    if wrong:
        raise ProblemError(problem("request_invalid", f"{option} takes name=value, not {wrong[0]!r}"))
    return [(name, value) for name, _, value in pairs]


def _once(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of a body, which has each of them once."""
    found = dict(fields)
    if len(found) < len(fields):
        twice = next(name for name, count in Counter(name for name, _ in fields).items() if count > 1)
        remedy = f"Give it once, a list as -F '{twice}=[…]'."
        raise ProblemError(problem("request_invalid", f"the field {twice} is given more than once", remedy=remedy))
    return found


def _together(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of a query, with a list of its values where one is given more than once."""
    found: dict[str, list[Any]] = {}
    for name, value in fields:
        found.setdefault(name, []).extend(value if isinstance(value, list) else [value])
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _object(value: Any, source: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ProblemError(problem("request_invalid", f"{source} holds no JSON object"))
    return value


async def _explained(client: "Client", verb: str, path: str, error: TowpathError) -> Exception:
    """Return what is wrong with an operation that there isn't; *error* itself where there is one."""
    try:
        operations = (await client.request("GET", "/openapi.json"))["paths"]
    except TowpathError:
        return error
    return unknown_operation(operations, verb, path) or error


def unknown_operation(operations: Mapping[str, Mapping[str, Any]], verb: str, path: str) -> ProblemError | None:
    """Return what is wrong with an operation that is not among *operations*, and which may be meant."""
    methods = [
        method.upper()
        for template, known in operations.items()
        if _pattern(template).fullmatch(path)
        for method in known
    ]
    if verb in methods:
        return None
    if methods:
        detail = f"{path} takes {', '.join(methods)}, not {verb}"
        return ProblemError(problem("method_not_allowed", detail, remedy=f"towpath api {methods[0]} {path}"))
    near = _nearest(operations, path)
    meant = f"Did you mean: {', '.join(near)}?" if near else "Operations are listed in the console, below Docs."
    return ProblemError(problem("not_found", f"the API has no {path}", remedy=meant))


def _pattern(template: str) -> re.Pattern[str]:
    pieces = _VARIABLE.split(template)
    return re.compile(
        "".join(
            (".+" if piece in _WITH_SLASHES else "[^/]+") if number % 2 else re.escape(piece)
            for number, piece in enumerate(pieces)
        )
    )


def _nearest(operations: Mapping[str, Mapping[str, Any]], path: str) -> list[str]:
    """Return the operations whose paths are like *path*; what stands in the place of a variable counts as equal."""
    typed = path.split("/")
    filled = {
        "/".join(
            one if _VARIABLE.fullmatch(part) else part
            for part, one in zip(template.split("/"), [*typed, *[""] * template.count("/")], strict=False)
        ): template
        for template in operations
    }
    found = [filled[one] for one in difflib.get_close_matches(path, filled, n=NEAR, cutoff=0.7)]
    return [f"{method.upper()} {template}" for template in found for method in operations[template]][:NEAR]
