"""What the client of a request has said that it takes, and where its person finds the gateway."""

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request

Context = ServerRequestContext[Any, Any]

TASKS = "io.modelcontextprotocol/tasks"
"""The extension by which a client takes a task for an answer."""


def is_modern(context: Context) -> bool:
    """Return whether the request is of a protocol in which each says what its client takes."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


def takes_tasks(context: Context) -> bool:
    """Return whether the client takes a task for an answer."""
    declared = context.session.client_capabilities
    return is_modern(context) and declared is not None and TASKS in (declared.extensions or {})


def asks_by_form(context: Context) -> bool:
    """Return whether the client puts the questions of an answer to its person, as forms."""
    declared = context.session.client_capabilities
    asks = None if declared is None else declared.elicitation
    return is_modern(context) and asks is not None and (asks.form is not None or asks.url is None)


def request_of(context: Context) -> Request:
    """Return the HTTP request that brought a message."""
    request = context.request
    assert isinstance(request, Request), "every message comes by HTTP"
    return request


def site_of(context: Context, own_url: str) -> str:
    """Return where people find the gateway: at *own_url*, where somebody said so, else where the client found it."""
    return own_url.rstrip("/") or str(request_of(context).base_url).rstrip("/")
