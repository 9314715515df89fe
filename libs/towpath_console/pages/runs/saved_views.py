"""Views that a browser keeps: names of filters, in a cookie that anybody may have written.

What is read is therefore checked like any input: known filters, short texts, few of them; the rest is dropped.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence

from towpath_console.api import VIEWS_COOKIE, Api, ApiRefusalError

MOST_VIEWS = 12
MOST_CHARS = 3_000
"""Of the cookie: browsers keep about 4,000."""

MOST_NAME, MOST_VALUE = 40, 256

Views = dict[str, dict[str, str]]


def read_views(api: Api, filters: Sequence[str]) -> Views:
    """Return the views that the browser of this caller keeps, by name."""
    try:
        found = json.loads(base64.urlsafe_b64decode(api.cookie(VIEWS_COOKIE).encode("ascii", "replace")))
    except (ValueError, binascii.Error, RecursionError):
        return {}
    views: Views = {}
    for name, kept in list(found.items())[:MOST_VIEWS] if isinstance(found, dict) else ():
        if _is_name(name) and isinstance(kept, dict):
            views[name] = {
                key: value
                for key, value in kept.items()
                if key in filters and isinstance(value, str) and 0 < len(value) <= MOST_VALUE
            }
    return views


def with_view(api: Api, filters: Sequence[str], name: str, kept: Mapping[str, str]) -> str:
    """Return the cookie with one view more; raises where it has no name, or there are too many."""
    views = read_views(api, filters) | {name: dict(kept)}
    written = _written(views)
    if not _is_name(name):
        raise _refused(f"give the view a name of at most {MOST_NAME} characters")
    if len(views) > MOST_VIEWS or len(written) > MOST_CHARS:
        raise _refused(f"a browser keeps at most {MOST_VIEWS} views: forget one first")
    return written


def without_view(api: Api, filters: Sequence[str], name: str) -> str:
    """Return the cookie without the view *name*."""
    return _written({key: kept for key, kept in read_views(api, filters).items() if key != name})


def _written(views: Views) -> str:
    return base64.urlsafe_b64encode(json.dumps(views, ensure_ascii=False).encode()).decode()


def _is_name(name: str) -> bool:
    return 0 < len(name) <= MOST_NAME and name.isprintable()


def _refused(detail: str) -> ApiRefusalError:
    return ApiRefusalError(422, {"code": "request_invalid", "title": "The view was not kept", "detail": detail})
