"""Known vulnerabilities, from a folder of advisories in OSV format (JSON or YAML), against versions of PyPI packages.

What can't be decided counts as affected: an advisory without a readable range says nothing that would clear a version.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

ECOSYSTEM = "PyPI"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RANGES = {"ECOSYSTEM", "SEMVER"}
"""Types of ranges that name versions; those of type GIT name commits."""


class AdvisoryError(ValueError):
    """A folder or a file that holds no advisories; the message has its path."""


class Affected(NamedTuple):
    """That one version of a package is affected by an advisory; *fixed* are versions that are not."""

    package: str
    version: str
    advisory: str
    aliases: tuple[str, ...]
    summary: str
    fixed: tuple[str, ...]

    def __str__(self) -> str:
        names = f"{self.advisory} ({', '.join(self.aliases)})" if self.aliases else self.advisory
        remedy = f"fixed in {', '.join(self.fixed)}" if self.fixed else "no fixed version is named"
        return f"{self.package} {self.version}: {names}: {self.summary or 'no summary'}; {remedy}"


def read_advisories(folder: Path) -> list[dict[str, Any]]:
    """Return every advisory of a PyPI package that was not withdrawn.

    Raises AdvisoryError where a file is unreadable or none is there: an empty folder would clear everything.
    """
    paths = [path for path in sorted(folder.rglob("*")) if path.suffix in {".json", ".yaml", ".yml"}]
    found = [advisory for path in paths if (advisory := _read(path)) is not None]
    if not found:
        msg = f"{folder} holds no advisory of a {ECOSYSTEM} package"
        raise AdvisoryError(msg)
    return found


def _read(path: Path) -> dict[str, Any] | None:
    try:
        text = path.read_text("utf-8")
        content = json.loads(text) if path.suffix == ".json" else yaml.load(text, Loader=_LOADER)  # a safe loader
    except (OSError, ValueError, yaml.YAMLError) as error:
        msg = f"{path} can't be read: {error}"
        raise AdvisoryError(msg) from error
    if not isinstance(content, dict) or not isinstance(content.get("id"), str):
        msg = f"{path} is no advisory in OSV format: it has no id"
        raise AdvisoryError(msg)
    return content if not content.get("withdrawn") and any(_of_pypi(content)) else None


def _of_pypi(advisory: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the parts of *advisory* that are about PyPI packages."""
    for part in advisory.get("affected") or []:
        ecosystem = str(part.get("package", {}).get("ecosystem", ""))
        if ecosystem.partition(":")[0].casefold() == ECOSYSTEM.casefold():
            yield part


def affected(packages: Sequence[tuple[str, str]], advisories: Iterable[Mapping[str, Any]]) -> list[Affected]:
    """Return which of *packages* (name, version) the *advisories* are about, by package and advisory."""
    wanted: dict[str, list[str]] = {}
    for name, version in packages:
        wanted.setdefault(canonicalize_name(name), []).append(version)
    found = set()
    for advisory in advisories:
        for part in _of_pypi(advisory):
            name = canonicalize_name(str(part["package"].get("name", "")))
            for version in wanted.get(name, ()):
                if concerns(part, version):
                    found.add(_finding(name, version, advisory, part))
    return sorted(found)


def _finding(name: str, version: str, advisory: Mapping[str, Any], part: Mapping[str, Any]) -> Affected:
    events = [event for found in _ranges(part) for event in found.get("events") or []]
    fixed = sorted({str(event["fixed"]) for event in events if "fixed" in event})
    aliases = sorted(str(alias) for alias in advisory.get("aliases") or [])
    summary = " ".join(str(advisory.get("summary") or "").split())
    return Affected(name, version, advisory["id"], tuple(aliases), summary, tuple(fixed))


def _ranges(part: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [found for found in part.get("ranges") or [] if found.get("type") in _RANGES]


def concerns(part: Mapping[str, Any], version: str) -> bool:
    """Return whether *version* is among the `versions` or in one of the `ranges` of an advisory's affected package."""
    listed = [str(text) for text in part.get("versions") or []]
    ranges = _ranges(part)
    if not listed and not ranges:
        return True
    ours = Version(version)
    return version in listed or any(_parsed(text) == ours for text in listed) or any(_within(r, ours) for r in ranges)


def _parsed(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _within(found: Mapping[str, Any], ours: Version) -> bool:
    """Return whether *ours* is in a range, by the evaluation that the OSV schema gives; True where it can't be read."""
    try:
        turns = [(kind, text, _order(text)) for event in found["events"] for kind, text in event.items()]
    except (InvalidVersion, KeyError, TypeError, AttributeError):
        return True
    limits = [(text, at) for kind, text, at in turns if kind == "limit"]
    if limits and not any(text == "*" or ours < at for text, at in limits if at is not None or text == "*"):
        return False
    inside = False
    for kind, _, at in sorted(turns, key=lambda turn: (turn[2] is not None, turn[2] or ours)):
        if kind == "introduced" and (at is None or ours >= at):
            inside = True
        elif at is not None and ((kind == "fixed" and ours >= at) or (kind == "last_affected" and ours > at)):
            inside = False
    return inside


def _order(text: object) -> Version | None:
    """Return the version of an event; None is before every version, which the format writes as 0, or no limit."""
    return None if text in {"0", "*"} else Version(str(text))
