"""The Origin of pages of a console that is served without TLS at whatever Host is asked."""

from starlette.datastructures import Headers


def origin_by_host(headers: Headers) -> str:
    """Return the Origin of pages that are served to the sender of *headers*."""
    return f"http://{headers['host']}"
