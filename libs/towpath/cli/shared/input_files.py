"""Files named on the command line."""

import json
import sys
from base64 import b64encode
from mimetypes import guess_type
from pathlib import Path
from typing import TYPE_CHECKING, Any

from towpath.missing_files import missing_file
from towpath_contracts.decisions.attachments import PDF, is_text_type
from towpath_contracts.problems.json_syntax import describe_json_fault
from towpath_contracts.problems.registry import REGISTRY, ProblemError, problem

if TYPE_CHECKING:
    from towpath.networks.script_file import ScriptFile

MAX_BYTES = 4_000_000
"""Four times what one request may carry, so that the platform gives the reason where a file is too large for it."""

_CORRECT_FILE = "Correct the file at the line that is named, and run the command again."


def read_text(path: Path) -> str:
    """Return the text of *path* (`-` is standard input); raises `file_missing` or `request_invalid`."""
    if str(path) == "-":
        return sys.stdin.read(MAX_BYTES)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ProblemError(problem("request_invalid", f"{path} is larger than {MAX_BYTES} bytes"))
        return path.read_text("utf-8")
    except FileNotFoundError as error:
        raise ProblemError(problem("file_missing", missing_file(path))) from error
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise ProblemError(problem("file_missing", f"{path}: {said}", remedy="Name another file.")) from error


def read_json(path: Path) -> Any:
    """Return the JSON in *path*; raises ProblemError naming the line."""
    return parse_json(read_text(path), str(path), remedy=_CORRECT_FILE)


def parse_json(text: str, source: str, *, remedy: str = REGISTRY["request_invalid"].remedy) -> Any:
    """Return *text* as JSON; raises ProblemError naming *source* and the line."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line, fault = describe_json_fault(error)
        raise ProblemError(problem("request_invalid", f"{source}:{line}: not JSON: {fault}", remedy=remedy)) from error
    except ValueError as error:  # an integer with thousands of digits
        raise ProblemError(problem("request_invalid", f"{source}: not JSON: {error}", remedy=remedy)) from error


def read_script(path: Path) -> tuple["ScriptFile", list[str]]:
    """Return the decisions in *path*, a JSON array, and what is odd in them, which is for the caller to tell."""
    from towpath.networks.script_file import ScriptFile  # a command without a script need not pay for it
    from towpath.networks.script_files import NO_LIST, script_doubts

    text = read_text(path)
    script = parse_json(text, str(path), remedy=_CORRECT_FILE)
    if isinstance(script, dict) and "script" in script:  # a whole task brings its script along
        script = script["script"]
    if not isinstance(script, list):
        raise ProblemError(problem("request_invalid", f"{path}:1: {NO_LIST}", remedy=_CORRECT_FILE))
    found = ScriptFile(str(path), script, text)
    return found, script_doubts(found)


def read_labels(pairs: tuple[str, ...]) -> dict[str, str]:
    """Return `key=value` pairs as labels."""
    for pair in pairs:
        if "=" not in pair:
            raise ProblemError(
                problem("request_invalid", f"--label takes KEY=VALUE, not {pair}: write e.g. --label {pair}=blue")
            )
    return dict(pair.split("=", 1) for pair in pairs)


def read_quoted(pairs: tuple[str, ...]) -> dict[str, str]:
    """Return the texts of `name=FILE` pairs by name."""
    for pair in pairs:
        if "=" not in pair:
            raise ProblemError(
                problem("request_invalid", f"--quote takes NAME=FILE, not {pair}: write e.g. --quote mail={pair}")
            )
    return {name: read_text(Path(file)) for name, _, file in (pair.partition("=") for pair in pairs)}


def read_attached(pairs: tuple[str, ...]) -> list[dict[str, str]]:
    """Return the files of `name=FILE` pairs as attachments; the platform says which of them it takes."""
    attached: list[dict[str, str]] = []
    for pair in pairs:
        name, equals, file = pair.partition("=")
        if not equals:
            raise ProblemError(
                problem("request_invalid", f"--attach takes NAME=FILE, not {pair}: write e.g. --attach invoice={pair}")
            )
        path = Path(file)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ProblemError(problem("file_missing", f"{path}: {error.strerror}")) from error
        attached.append({"name": name, "media_type": _type_of(path, data), "data": b64encode(data).decode()})
    return attached


def _type_of(path: Path, data: bytes) -> str:
    """Return the media type by the ending of the file; what has none that models know, and is text, is plain text."""
    kind, packed = guess_type(path.name)
    if packed is None and kind is not None and (kind.startswith("image/") or kind == PDF or is_text_type(kind)):
        return kind
    try:
        data.decode()
    except UnicodeDecodeError:
        return kind if kind is not None and packed is None else "application/octet-stream"
    return "text/plain"
