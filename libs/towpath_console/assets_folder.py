"""The style sheet, scripts and icon of the console, under addresses that change with what is in them."""

import gzip
import hashlib
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from towpath_console.sections import ASSETS

FOLDER = Path(__file__).parent / "assets"
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FOREVER = "public, max-age=31536000, immutable"


@cache
def content(name: str) -> tuple[bytes, str] | None:
    """Return what is in the file *name* and its digest; None for what is no file of the folder."""
    path = (FOLDER / name).resolve()
    if path.suffix not in KINDS or not path.is_relative_to(FOLDER) or not path.is_file():
        return None
    body = path.read_bytes()
    return body, hashlib.sha256(body).hexdigest()[:16]


@cache
def packed(name: str) -> bytes:
    """Return the file *name* compressed. Pages are not: they hold secrets beside what somebody else may have sent."""
    found = content(name)
    return gzip.compress(found[0], mtime=0) if found else b""


def address(name: str) -> str:
    """Return where the file *name* is, with its digest in it."""
    found = content(name)
    return f"{ASSETS}{found[1] if found else 'missing'}/{name}"


def serve(request: Request) -> Response:
    """Answer with a file, whatever digest was asked for: pages of the version before may still be open."""
    found = content(request.url.path.removeprefix(ASSETS).partition("/")[2])
    if found is None:
        return Response("There is no such file.", status_code=404, media_type="text/plain")
    kind = KINDS[Path(request.url.path).suffix]
    headers = {"Cache-Control": FOREVER, "X-Content-Type-Options": "nosniff", "Vary": "Accept-Encoding"}
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(found[0], media_type=kind, headers=headers)
    name = request.url.path.removeprefix(ASSETS).partition("/")[2]
    return Response(packed(name), media_type=kind, headers={**headers, "Content-Encoding": "gzip"})
