"""Finds which files that a worker's tools are in, or the project's own, were saved, added or removed.

Nothing is imported here. What a tool imports of a user's folders is told by the worker's program, which imports it.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path

from towpath.errors import RefusedError
from towpath.project.project_file import PROJECT_FILE, read_project, tool_files
from towpath_contracts.base import JsonObject

Version = tuple[int, int]


def tool_places(modules: Sequence[str]) -> list[Path]:
    """Return the places of `towpath.yaml` where the *modules* were taken from these; none where they were named."""
    try:
        project = read_project(PROJECT_FILE) if PROJECT_FILE.exists() else None
    except (RefusedError, OSError):
        project = None
    is_of_project = project is not None and project.tool_modules() == tuple(modules)
    return list(project.tools) if project is not None and is_of_project else []


class ToolFiles:
    """The *modules* of a worker, or the files at *places*, where there are any.

    *project* is the `towpath.yaml` that was read at the start, where one was. What was saved after *since* counts as
    changed at the first look.
    """

    def __init__(
        self, modules: Sequence[str], places: Sequence[Path], *, project: Path | None, since: datetime
    ) -> None:
        self._named = tuple(modules)
        self._places = places
        self.project = project
        self._places_named = self._named_places()
        self._imported: Collection[Path] = ()
        self._since = since
        self._seen: dict[Path, Version | None] = {}
        self.follow_imports(())

    def modules(self) -> tuple[str, ...]:
        """Return what a worker that is started now serves."""
        return tuple(str(file) for file in self._placed()) if self._places else self._named

    def follow_imports(self, files: Collection[Path], *, read_at: datetime | None = None) -> None:
        """Look at *files* as well, which the modules import; what was saved since *read_at* has changed."""
        self._imported = files
        self._since = read_at or self._since
        for path in self._files():
            version = version_of(path)
            self._seen.setdefault(path, None if is_newer(version, self._since) else version)

    def changed(self) -> list[Path]:
        """Return the files that were saved, added or removed since the last call."""
        found = self._found()
        changed = [path for path, version in found.items() if version != self._seen.get(path)]
        self._seen = found
        return changed

    def have_changed(self) -> bool:
        """Return whether `changed` would find any."""
        return any(version != self._seen.get(path) for path, version in self._found().items())

    def _found(self) -> dict[Path, Version | None]:
        return {path: version_of(path) for path in sorted(self._seen.keys() | set(self._files()))}

    def needs_new_start(self) -> bool:
        """Return whether the project says something else than at the start, but for its MCP servers: these follow."""
        return self._named_places() != self._places_named

    def _named_places(self) -> JsonObject | None:
        try:
            return None if self.project is None else read_project(self.project).model_dump(mode="json", exclude={"mcp"})
        except (RefusedError, OSError):
            return None

    def _files(self) -> list[Path]:
        named = [Path(name) for name in self._named if name.endswith(".py")]
        own = [*(self._placed() if self._places else named), *([self.project] if self.project else [])]
        known = {path.absolute() for path in own}
        return [*own, *(path for path in self._imported if path.absolute() not in known)]

    def _placed(self) -> list[Path]:
        files = [file for place in self._places for file in tool_files(place) if file.is_file()]
        return list(dict.fromkeys(files))


def version_of(path: Path) -> Version | None:
    """Return what differs once the file at *path* was saved; None where there is none."""
    try:
        found = path.stat()
    except OSError:  # it is gone
        return None
    return found.st_mtime_ns, found.st_size


def is_newer(version: Version | None, moment: datetime) -> bool:
    """Return whether a file of this *version* was saved after *moment*."""
    return version is not None and version[0] > int(moment.timestamp() * 1e9)
