"""Folders of this host on their way into the workspace of a run, as they are when the task is submitted.

Nothing outside the allowed roots is read, whatever links say, and nothing is read that the globs leave out. What
travels are texts: the platform never sees this host's paths.
"""

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from towpath.declared_places import checks_keywords
from towpath.errors import RefusedError
from towpath_contracts.base import JsonObject
from towpath_contracts.glob_patterns import GlobPatternTooLongError, matching_paths
from towpath_contracts.problems.registry import problem
from towpath_contracts.tools.workspace import MAX_MOUNT_BYTES, MAX_MOUNT_FILES

DEFAULT_EXCLUDE = ("**/.git/**", ".git/**", "**/__pycache__/**", "__pycache__/**")
"""Rarely wanted when a folder is mounted; give `exclude=()` to have them."""


@checks_keywords
@dataclass(frozen=True, slots=True)
class HostMount:
    """A folder (or a file) of this host, read-only in the workspace under *mount_path*.

    Globs are over paths below the folder: only what *include* matches and *exclude* does not. *max_bytes* bounds all
    files together. Links are left out unless *follow_symlinks*, and then lead nowhere outside *roots*. *roots* are the
    folders that may be mounted from; without them it is the working directory alone.
    """

    host_path: str | Path
    mount_path: str = ""
    include: Sequence[str] = field(default=("**",), kw_only=True)
    exclude: Sequence[str] = field(default=DEFAULT_EXCLUDE, kw_only=True)
    max_bytes: int = field(default=MAX_MOUNT_BYTES, kw_only=True)
    follow_symlinks: bool = field(default=False, kw_only=True)
    roots: Sequence[str | Path] | None = field(default=None, kw_only=True)

    def to_json(self) -> JsonObject:
        """Read the files and return the mount as a task writes it; raises RefusedError for what can't be mounted."""
        return {"mount_path": self.mount_path, "files": read_mount(self)}

    def links_left_out(self) -> list[str]:
        """Return the paths of the links below the folder that are not mounted although the globs have them."""
        base, roots = Path(self.host_path), _roots(self)
        found = [
            place.relative_to(base).as_posix()
            for folder, folders, names in os.walk(base, followlinks=False)
            for place in (Path(folder, name) for name in (*folders, *names))
            if not _may_read(place, self, roots)
        ]
        return sorted(_matching(self, found))


def _roots(mount: HostMount) -> list[Path]:
    return [Path(root).resolve() for root in (mount.roots if mount.roots is not None else [Path.cwd()])]


def _matching(mount: HostMount, paths: Collection[str]) -> set[str]:
    """Return those of *paths* that the globs have; raises RefusedError for a glob that is too long."""
    try:
        wanted = {path for pattern in mount.include for path in matching_paths(pattern, paths)}
        return wanted - {path for pattern in mount.exclude for path in matching_paths(pattern, paths)}
    except GlobPatternTooLongError as error:
        raise _refused(str(error)) from error


def read_mount(mount: HostMount) -> list[JsonObject]:
    """Return the files of *mount* by path; raises RefusedError for what is outside the roots, too large or no text."""
    roots = _roots(mount)
    base = Path(mount.host_path)
    try:
        inside = _inside(base.resolve(strict=True), roots)
    except OSError as error:
        raise _refused(f"{base} can't be read: {error.strerror or error}") from error
    if not inside:
        raise _refused(f"{base} is outside what may be mounted: {', '.join(map(str, roots))}")
    found = dict(_files(base, mount, roots))
    wanted = _matching(mount, found)
    if len(wanted) > MAX_MOUNT_FILES:
        raise _refused(f"{base} has {len(wanted)} files; the limit is {MAX_MOUNT_FILES}")
    return _read(mount, {path: found[path] for path in sorted(wanted)})


def _read(mount: HostMount, places: dict[str, Path]) -> list[JsonObject]:
    files: list[JsonObject] = []
    size = 0
    for path, place in places.items():
        try:
            size += place.stat().st_size
            if size > mount.max_bytes:
                raise _refused(f"{mount.host_path} has more than {mount.max_bytes} bytes; leave files out by a glob")
            files.append({"path": path, "content": _text(place, follow=mount.follow_symlinks)})
        except UnicodeDecodeError as error:
            raise _refused(f"{place} is no UTF-8 text; leave it out by a glob") from error
        except OSError as error:
            raise _refused(f"{place} can't be read: {error.strerror or error}") from error
    return files


def _text(place: Path, *, follow: bool) -> str:
    """Read a file; one that has become a link meanwhile is not followed."""
    flags = os.O_RDONLY | (0 if follow else os.O_NOFOLLOW)
    with os.fdopen(os.open(place, flags), "rb") as file:
        return file.read().decode("utf-8")


def _files(base: Path, mount: HostMount, roots: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    if base.is_file():
        yield base.name, base
        return
    for folder, folders, names in os.walk(base, followlinks=mount.follow_symlinks, onerror=_raise_refused):
        folders[:] = [name for name in sorted(folders) if _may_read(Path(folder, name), mount, roots)]
        for name in sorted(names):
            place = Path(folder, name)
            if _may_read(place, mount, roots) and place.is_file():
                yield place.relative_to(base).as_posix(), place


def _may_read(place: Path, mount: HostMount, roots: Sequence[Path]) -> bool:
    """Links are left out, or must lead to a place inside the roots."""
    if not place.is_symlink():
        return True
    return mount.follow_symlinks and _inside(place.resolve(), roots)


def _inside(place: Path, roots: Sequence[Path]) -> bool:
    return any(place.is_relative_to(root) for root in roots)


def _raise_refused(error: OSError) -> None:
    raise _refused(f"{error.filename} can't be read: {error.strerror or error}") from error


def _refused(detail: str) -> RefusedError:
    return RefusedError(problem("mount_refused", detail))
