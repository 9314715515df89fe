"""The document with which the gateway describes its API: making it takes a second, so once in a process of tests."""

import functools
from typing import Any

from towpath_gateway.app.application import create_app


@functools.cache
def openapi_document() -> dict[str, Any]:
    """Return the document; whoever gets it only reads it."""
    return create_app(None).openapi()
