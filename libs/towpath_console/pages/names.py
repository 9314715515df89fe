"""Names of networks and tools, and ids, in addresses: names may hold slashes, and none may lead anywhere else."""

import re
from urllib.parse import quote

from towpath_console.api import ApiRefusalError

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.:/-]{0,127}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def is_uuid(text: str) -> bool:
    """Return whether *text* is the whole id of a run, a call or an erasure."""
    return _UUID.fullmatch(text) is not None


def checked_name(name: str, what: str) -> str:
    """Return *name* as it may stand in a path of the API; raises ApiRefusalError where nothing can have it."""
    if _NAME.fullmatch(name) is None or {".", ".."} & set(name.split("/")):
        problem = {
            "code": "not_found",
            "title": f"There is no such {what}",
            "detail": f"no {what} has this name: {name}",
        }
        raise ApiRefusalError(404, problem)
    return quote(name)


def list_of_runs(path: str) -> str:
    """Return *path* where it is the list of runs, with or without filters; else the list without any."""
    return path if path == "/runs" or path.startswith("/runs?") else "/runs"


def number_of(text: str | None, what: str) -> int | None:
    """Read a number of a query or a form, or None where there is none; raises ApiRefusalError."""
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        problem = {"code": "request_invalid", "title": f"That is no {what}", "detail": f"{what}: {text[:40]}"}
        raise ApiRefusalError(422, problem)
    return int(text)
