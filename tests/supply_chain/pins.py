"""The exact versions of a hashed requirements file, as `uv pip compile --generate-hashes` writes it."""

from pathlib import Path
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name


class PinError(ValueError):
    """A line that is no exact version with a SHA-256; the message has the file and the line."""


class Pin(NamedTuple):
    """One version of one package, the environments it is for, and the SHA-256 of each file that may be installed."""

    name: str
    version: str
    marker: str
    sha256: tuple[str, ...]


def read_pins(path: Path) -> list[Pin]:
    """Return what *path* pins, in its order; raises PinError for a line without an exact version or without a hash."""
    lines = path.read_text("utf-8").replace("\\\n", " ").splitlines()
    pins = [_pin(line, path) for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not pins:
        msg = f"{path} pins nothing"
        raise PinError(msg)
    return pins


def _pin(line: str, path: Path) -> Pin:
    wish, *options = line.split("--hash=")
    try:
        requirement = Requirement(wish.strip())
    except InvalidRequirement as error:
        msg = f"{path}: {wish.strip()!r} is no requirement: {error}"
        raise PinError(msg) from error
    exact = [found.version for found in requirement.specifier if found.operator == "=="]
    hashes = [option.strip().removeprefix("sha256:") for option in options]
    if len(exact) != 1 or len(requirement.specifier) != 1 or "*" in exact[0]:
        msg = f"{path}: {requirement.name} has no exact version"
        raise PinError(msg)
    if not hashes or not all(len(text) == 64 and set(text) <= set("0123456789abcdef") for text in hashes):
        msg = f"{path}: {requirement.name} has no SHA-256"
        raise PinError(msg)
    marker = str(requirement.marker or "")
    return Pin(canonicalize_name(requirement.name), exact[0], marker, tuple(sorted(hashes)))
