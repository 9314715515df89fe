"""The HTTP application: every operation, every refusal, and its own description.

What is served is what `/openapi.json` says; no page loads anything from another host.
"""

import asyncio
import functools
import json
import re
import warnings
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic.warnings import UnsupportedFieldAttributeWarning

from towpath_contracts.problems.registry import Problem
from towpath_gateway.app.console import ConsoleRoute
from towpath_gateway.app.dependencies import GatewayDependencies
from towpath_gateway.app.errors import answer_with_problems
from towpath_gateway.app.protocols.a2a import agent_routes
from towpath_gateway.app.protocols.ag_ui import agent_runs
from towpath_gateway.app.protocols.mcp_server.route import McpRoute
from towpath_gateway.app.protocols.openai import model_runs
from towpath_gateway.app.routes import (
    access,
    audit_log,
    budgets,
    dead_letters,
    erasures,
    gates,
    grants,
    keys,
    legacy_run_api,
    networks,
    notices,
    policies,
    problems,
    queues,
    quotas,
    records,
    settings,
    sign_in,
    switches,
    workspaces,
)
from towpath_gateway.app.routes.operations import costs, models, sampled_metrics, workers
from towpath_gateway.app.routes.runs import bulk, control, run_retention, submission, threads, views
from towpath_gateway.app.strict_requests import requirements

TITLE = "Towpath"
VERSION = "1"
OPENAPI_PATH = "/openapi.json"
ASYNCAPI_PATH = "/asyncapi.json"
DESCRIPTION = (
    "Runs LLM agents. Submit a task, follow its run, decide at its gates, read its record. "
    "Every refusal is application/problem+json with a stable `code` and a `remedy`."
)

ROUTERS = tuple(
    route_module.router
    for route_module in (
        bulk,
        run_retention,
        submission,
        control,
        legacy_run_api,
        views,
        threads,
        workspaces,
        records,
        dead_letters,
        queues,
        workers,
        agent_runs,
        agent_routes,
        networks,
        gates,
        notices,
        switches,
        budgets,
        quotas,
        costs,
        sampled_metrics,
        models,
        model_runs,
        access,
        grants,
        audit_log,
        erasures,
        policies,
        keys,
        settings,
        problems,
        sign_in,
    )
)
"""The routes of the API, in the order of its document."""


def create_app(dependencies: GatewayDependencies | None) -> FastAPI:
    """Return the application; without *dependencies* it can only describe itself."""
    # FastAPI silences this while it makes the adapter of a body; ours are built later, at the first request of a route.
    warnings.filterwarnings("ignore", "The 'alias' attribute", UnsupportedFieldAttributeWarning)
    app = FastAPI(
        title=TITLE,
        version=VERSION,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,  # its bytes are made once, below
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False, "operation_spans": False},
    )
    app.state.dependencies = dependencies
    answer_with_problems(app)
    for router in ROUTERS:
        app.include_router(router)
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]  # FastAPI's documented way to change it
    document = functools.cache(lambda: asyncio.ensure_future(asyncio.to_thread(_document_of, app)))

    async def openapi(_: Request) -> Response:
        return Response(await asyncio.shield(document()), media_type="application/json")

    app.add_route(OPENAPI_PATH, openapi, include_in_schema=False)
    app.add_route(ASYNCAPI_PATH, _asyncapi, include_in_schema=False)
    if dependencies is not None:
        app.router.routes.append(McpRoute(app, dependencies))
        app.state.console = ConsoleRoute(app, dependencies)
        app.router.routes.append(app.state.console)
    return app


@functools.cache
def _asyncapi_document() -> bytes:
    from towpath_fabric.asyncapi import asyncapi_document  # noqa: PLC0415  # for whoever asks

    return json.dumps(asyncapi_document(), ensure_ascii=False, separators=(",", ":")).encode()


async def _asyncapi(_: Request) -> Response:
    """Answer with the description of the message bus."""
    return Response(_asyncapi_document(), media_type="application/json")


def public_paths() -> re.Pattern[str]:
    """Return what the whole of a path matches that needs no key."""
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    paths = [OPENAPI_PATH, ASYNCAPI_PATH, *(route.path for route in routes if not requirements(route))]
    return re.compile("|".join(re.sub(r"\\\{.*?\\\}", "[^/]+", re.escape(path)) for path in paths))


def _document_of(app: FastAPI) -> bytes:
    """Return the bytes of the OpenAPI document; half a second's work, so never on the loop."""
    return json.dumps(app.openapi(), ensure_ascii=False, separators=(",", ":")).encode()


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, made once."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        app.openapi_schema = _with_scopes(_with_problems(document))
    return app.openapi_schema


def _with_scopes(document: dict[str, Any]) -> dict[str, Any]:
    """Add to each operation the scope that its caller needs."""
    for router in ROUTERS:
        for route in router.routes:
            operations = document["paths"].get(route.path_format) if isinstance(route, APIRoute) else None
            if operations is None or not requirements(route):
                continue
            for method in route.methods:
                operations[method.lower()]["x-scope"] = " ".join(one.scope for one in requirements(route) if one.scope)
    return document


def _with_problems(document: dict[str, Any]) -> dict[str, Any]:
    """Add the schema of problems and keys, and take out the framework's own error form, which is never sent."""
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    problem_schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(problem_schema.pop("$defs", {}))
    schemas["Problem"] = problem_schema
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    components["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "bearerFormat": "twp_<prefix>.<secret>"}
    }
    document["security"] = [{"key": []}]
    for path, operations in document["paths"].items():
        if path.startswith("/problems"):
            for operation in operations.values():
                operation["security"] = []
                operation["responses"].pop("422", None)
    return document
