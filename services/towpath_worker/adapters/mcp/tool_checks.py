"""What a server says about its tools, made fit to be stored, shown and checked, or refused.

Names that could be mistaken are refused, never repaired; texts are cleaned, because they are only read; a schema
that could cause endless work is refused. Nothing here decides about rights.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator, SchemaError

from towpath_contracts.base import JsonObject
from towpath_contracts.schema_bounds.size import DEFINED, NAMED, SchemaTooCostlyError, require_finite
from towpath_contracts.text import normalized

MAX_TOOLS = 256
"""Of one server; a server with more is cut down by `allow`."""

MAX_ANSWER_VALUES = 100_000
"""Values in one message of a server. Each becomes an object: 4 MB of empty lists took seconds, and half a gigabyte."""

MAX_DESCRIPTION_CHARS = 2_048
"""A model reads this at every step and pays for it."""

MAX_SCHEMA_CHARS = 32_768
MAX_SCHEMA_DEPTH = 24

HIDDEN_SHARE = 8
"""Of a text so many times its longest are looked at: some characters are hidden, and a server may send megabytes."""

_NAME = re.compile(r"^[a-zA-Z0-9_][a-zA-Z0-9_.:/-]{0,63}$")
_LOOKALIKES = str.maketrans({"l": "1", "i": "1", "|": "1", "o": "0", "-": "_", ".": "_", "/": "_", ":": "_"})
_TEXTS = frozenset({"title", "description", "$comment"})
_INJECTIONS = (
    (
        re.compile(r"ignore (?:all |any )?(?:previous|prior|above)|disregard (?:all|the|any)", re.IGNORECASE),
        "asks to ignore",
    ),
    (
        re.compile(r"</?(?:important|system|instructions?|secret|assistant|user)\b", re.IGNORECASE),
        "has tags like a prompt's",
    ),
    (
        re.compile(r"do not (?:tell|mention|inform|show)|without telling|don't (?:tell|mention)", re.IGNORECASE),
        "asks for secrecy",
    ),
    (
        re.compile(r"(?:before|after|instead of) (?:using|calling) (?:this|any|other|every)", re.IGNORECASE),
        "steers other tools",
    ),
    (re.compile(r"~/\.|/etc/|id_rsa|\.env\b|api[ _-]?keys?|password|credential", re.IGNORECASE), "names secrets"),
)


class DiscoveredToolRefusedError(ValueError):
    """A server's tool that is not offered; the text says why."""


@dataclass(frozen=True, slots=True)
class CleanedText:
    """A text without invisible characters, and warnings about what it was."""

    text: str
    warnings: tuple[str, ...] = ()


def clean_text(text: str, limit: int = MAX_DESCRIPTION_CHARS, hide: Callable[[str], str] = str) -> CleanedText:
    """Return *text* normalised, without control, format, private and unassigned characters, at most *limit* long.

    *hide* takes secrets out, before and after: one with invisible characters in it is one again without them.
    """
    text = hide(text)
    seen = text[: HIDDEN_SHARE * limit]
    normal = normalized("NFC", seen)
    kept = "".join(sign for sign in normal if sign in "\n\t" or unicodedata.category(sign)[0] != "C").strip()
    warnings = ["hidden characters were removed"] if len(kept) < len(normal.strip()) else []
    kept = hide(kept)
    if len(kept) > limit or len(seen) < len(text):
        kept = kept[: limit - 1] + "…"
        warnings.append(f"cut to {limit} characters")
    return CleanedText(kept, tuple(warnings))


def suspicions(text: str) -> tuple[str, ...]:
    """Return what in a description reads like an instruction to the model: hints for a person, never a verdict."""
    return tuple(word for pattern, word in _INJECTIONS if pattern.search(text))


def check_name(name: str) -> str:
    """Return *name*; raises DiscoveredToolRefusedError for one that is no plain name."""
    if not _NAME.fullmatch(name):
        shown = name.encode("ascii", "backslashreplace").decode()[:80]
        msg = f"the name {shown!r} is not plain: letters, digits and _ . : / - only, at most 64"
        raise DiscoveredToolRefusedError(msg)
    return name


def skeleton(name: str) -> str:
    """Return what is left of *name* when everything that looks alike is the same."""
    return name.lower().translate(_LOOKALIKES).replace("rn", "m").replace("vv", "w")


def check_schema(schema: Mapping[str, Any], *, of_arguments: bool = True) -> JsonObject:
    """Return *schema* with its texts cleaned; raises DiscoveredToolRefusedError for one that can't be used."""
    cleaned: JsonObject = _cleaned(schema, 0)
    cleaned.pop("$schema", None)
    cleaned.pop("$id", None)
    if len(json.dumps(cleaned)) > MAX_SCHEMA_CHARS:
        msg = f"its schema is longer than {MAX_SCHEMA_CHARS} characters"
        raise DiscoveredToolRefusedError(msg)
    if of_arguments and cleaned.get("type") != "object":
        msg = "its schema does not ask for an object"
        raise DiscoveredToolRefusedError(msg)
    try:
        require_finite(cleaned)
    except SchemaTooCostlyError as error:
        msg = f"its schema {error}"
        raise DiscoveredToolRefusedError(msg) from error
    try:
        Draft202012Validator.check_schema(cleaned)
    except SchemaError as error:
        msg = f"its schema is no JSON Schema 2020-12: {error.message[:200]} at {error.json_path[:200]}"
        raise DiscoveredToolRefusedError(msg) from error
    return cleaned


def _cleaned(value: Any, depth: int, *, names: bool = False) -> Any:
    """Clean the texts of a schema. *names* says that the members of *value* are names of properties, not keywords."""
    if depth > MAX_SCHEMA_DEPTH:
        msg = f"its schema is nested deeper than {MAX_SCHEMA_DEPTH} levels"
        raise DiscoveredToolRefusedError(msg)
    if isinstance(value, list):
        return [_cleaned(item, depth + 1) for item in value]
    if not isinstance(value, Mapping):
        _require_visible_name(value)
        return value
    found: JsonObject = {}
    for key, item in value.items():
        _require_visible_name(key)
        if not names and key in _TEXTS and isinstance(item, str):
            found[key] = clean_text(item).text
        else:
            inner = not names and (key in NAMED or key in DEFINED)
            found[key] = _cleaned(item, depth + 1, names=inner)
    if not names and "patternProperties" in found and {"additionalProperties", "unevaluatedProperties"} & found.keys():
        msg = "its schema combines patternProperties with additionalProperties, which is not taken"
        raise DiscoveredToolRefusedError(msg)
    return found


def _require_visible_name(value: Any) -> None:
    """Names of parameters and values to choose from are compared, not only read: they can't be repaired."""
    if isinstance(value, str) and any(unicodedata.category(sign) in {"Cf", "Cs", "Co"} for sign in value):
        msg = "its schema has hidden characters in a name or a value"
        raise DiscoveredToolRefusedError(msg)
