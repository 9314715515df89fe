"""Which routes of the gateway the questions stand for, and why the others need none."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bench.lists.questions import Question

LOG_OF_ONE_RUN = "reads the log of one run, as its events do"
ONE_ROW = "reads one row by its key"
NO_TABLE = "reads no table that grows"

OTHERWISE = {
    "/v1/runs/{run_id}/tools/{execution_id}": LOG_OF_ONE_RUN,
    "/v1/runs/{run_id}/tools/{execution_id}/output": LOG_OF_ONE_RUN,
    "/v1/runs/{run_id}/nodes": LOG_OF_ONE_RUN,
    "/v1/runs/{run_id}/goal": LOG_OF_ONE_RUN,
    "/v1/runs/{run_id}/plan": LOG_OF_ONE_RUN,
    "/v1/runs/{run_id}/execution-log": LOG_OF_ONE_RUN,
    "/v1/runs/{run_id}/messages": LOG_OF_ONE_RUN,
    "/v1/runs/{run_id}/workspace": LOG_OF_ONE_RUN,
    "/v1/runs/{run_id}/workspace/{path}": LOG_OF_ONE_RUN,
    "/v1/runs/{run_id}/replay": LOG_OF_ONE_RUN,
    "/v1/runs/{run_id}/record": LOG_OF_ONE_RUN,
    "/v1/responses/{response}": LOG_OF_ONE_RUN,
    "/v1/networks/{name}": ONE_ROW,
    "/v1/networks/{network}/a2a/.well-known/agent-card.json": ONE_ROW,
    "/v1/models": "the list of networks",
    "/v1/models/{name}": ONE_ROW,
    "/v1/policy": ONE_ROW,
    "/v1/policy/rules/{name}": "the rules of one version",
    "/v1/permissions/{network}/{agent}": "the rules of one version",
    "/v1/erasures/{erasure_id}": ONE_ROW,
    "/v1/audit/checkpoint": ONE_ROW,
    "/v1/queues": "asks the broker",
    "/v1/scaling/{pool}": "asks the broker",
    "/v1/metrics/samples": NO_TABLE,
    "/v1/settings": NO_TABLE,
    "/v1/settings/retention": NO_TABLE,
    "/v1/me": NO_TABLE,
    "/problems": NO_TABLE,
    "/problems/{code}": NO_TABLE,
}
"""Routes that no question asks, and why."""

SAYS_HOW = {
    "/v1/runs/{run_id}/events": {"wait", "children", "deltas", "detailed", "event_types", "format"},
    "/v1/grants/from-runs/{network}": {"min_share", "tight"},
}
"""Parameters that say how an answer is made of the rows, and not which rows are read."""


def not_asked(document: Mapping[str, Any], asked: Iterable[Question]) -> Iterator[str]:
    """Yield each route, and each parameter of one, in the OpenAPI *document* that no question uses."""
    used: dict[str, set[str]] = {}
    for question in asked:
        used.setdefault(question.route, set()).update(question.parameters)
    for path, operations in document["paths"].items():
        if "get" not in operations or path in OTHERWISE:
            continue
        if path not in used:
            yield path
            continue
        named = {one["name"] for one in operations["get"].get("parameters", ()) if one["in"] == "query"}
        yield from (f"{path}?{one}" for one in sorted(named - used[path] - SAYS_HOW.get(path, set()) - {"limit"}))
