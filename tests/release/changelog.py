"""The changelog of a release: what stands below "Unreleased" becomes the section of the version, with its day."""

import re
from datetime import date

from packaging.version import InvalidVersion, Version

UNRELEASED = "## [Unreleased]"
_RELEASED = re.compile(r"^## \[([^\]]+)\] - \d{4}-\d{2}-\d{2}$", re.MULTILINE)
_ENTRY = re.compile(r"^- \S", re.MULTILINE)


class ChangelogError(ValueError):
    """The changelog has nothing to release, or not in the form that it should have; the message says what to do."""


def released_versions(text: str) -> list[Version]:
    """Return the versions that have a section, in the order of the file."""
    try:
        return [Version(name) for name in _RELEASED.findall(text)]
    except InvalidVersion as error:
        msg = f"CHANGELOG.md: {error}"
        raise ChangelogError(msg) from error


def release_changelog(text: str, version: Version, day: date) -> str:
    """Return the changelog in which the unreleased entries are those of *version*.

    What stands before the first group of entries is about the state before a release, and is left out.
    """
    before, found, after = text.partition(f"{UNRELEASED}\n")
    if not found:
        msg = f"CHANGELOG.md has no line {UNRELEASED!r}; add it above the newest version"
        raise ChangelogError(msg)
    if newer := [released for released in released_versions(text) if released >= version]:
        msg = f"CHANGELOG.md has {max(newer)} already; release a version above it"
        raise ChangelogError(msg)
    next_section = re.search(r"^## ", after, re.MULTILINE)
    end = next_section.start() if next_section else len(after)
    group = re.search(r"^### ", after[:end], re.MULTILINE)
    if group is None or not _ENTRY.search(after, group.start(), end):
        msg = f"CHANGELOG.md has no entry below {UNRELEASED!r}; say what changed for users before you release it"
        raise ChangelogError(msg)
    entries = after[group.start() : end].rstrip("\n")
    rest = f"\n\n{after[end:]}" if next_section else "\n"
    return f"{before}{UNRELEASED}\n\n## [{version}] - {day.isoformat()}\n\n{entries}{rest}"
