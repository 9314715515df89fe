"""Canonical JSON and the digests made from it.

Equal values have equal bytes, whatever the order of their keys. The form is RFC 8785 in all but number formatting:
keys sorted, no white space, UTF-8; numbers as Python writes them.
"""

import hashlib
import json
import math
from typing import Any

# Made once: `json.dumps` makes a new one for every value.
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_STRICT = json.JSONEncoder(allow_nan=False)


def canonical_json(value: Any) -> str:
    """Write *value* so that equal values give equal text.

    Raises ValueError for NaN and infinities, which are not JSON.
    """
    return _CANONICAL.encode(value)


def digest_text(text: str | bytes) -> str:
    """Return `sha256:<hex>` of *text* (UTF-8)."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest(value: Any) -> str:
    """Return `sha256:<hex>` of the canonical JSON of *value*."""
    return digest_text(canonical_json(value))


def json_safe(value: Any) -> Any:
    """Return *value* with NaN and infinities, which are not JSON, as null; the value itself where there are none."""
    try:
        _STRICT.encode(value)
    except ValueError:
        return _without_nan(value)
    return value


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return value
