"""Objectives on the command line: the options of `towpath run` that make it pursue one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

from towpath.cli.shared.input_files import read_json
from towpath.cli.shared.output import print_notice
from towpath.tasks.mounts import DEFAULT_EXCLUDE, HostMount
from towpath_contracts.base import JsonObject
from towpath_contracts.problems.registry import ProblemError, problem

Many = Annotated[tuple[str, ...], Parameter(negative="")]


@Parameter(name="*", group=Group("An objective", sort_key=26))
@dataclass(frozen=True, kw_only=True)
class ObjectiveOptions:
    """What makes the run one that pursues an objective in the background, and the files that it finds."""

    objective: str | None = None
    "What is to be reached, in at most 1,024 ASCII characters; or @FILE with the whole objective as JSON."
    deliverable_schema: Path | None = None
    "A file with the JSON Schema of what is handed over."
    context: Many = ()
    "TITLE=FILE: a text that stands in every prompt; may be given more than once."
    mount: Many = ()
    "DIR[:PATH]: the files of a folder, read-only in the workspace under PATH; may be given more than once."
    mount_exclude: Many = ()
    "A glob of files below the folders that are left out, such as '**/*.bin'."

    def options(self) -> dict[str, Any]:
        """Return the fields of SubmitTask; raises ProblemError for parts without an objective, and for bad files."""
        mounts = {"mounts": [self._mount_files(one) for one in self.mount]} if self.mount else {}
        if self.objective is None:
            if self.deliverable_schema or self.context:
                raise ProblemError(problem("request_invalid", "a deliverable and context belong to an --objective"))
            return mounts
        return {**mounts, "background": self._file() if self.objective.startswith("@") else self._to_json()}

    def _to_json(self) -> JsonObject:
        written: JsonObject = {"objective": self.objective, "context_sections": [_section(one) for one in self.context]}
        if self.deliverable_schema is not None:
            written["deliverable_schema"] = _object(self.deliverable_schema)
        return written

    def _file(self) -> JsonObject:
        if self.deliverable_schema or self.context:
            raise ProblemError(problem("request_invalid", "an objective from a file brings everything along"))
        found = _object(Path((self.objective or "")[1:]))
        inner = found.get("background")
        return inner if isinstance(inner, dict) else found  # a whole task brings its objective along

    def _mount_files(self, option: str) -> JsonObject:
        host, _, path = option.partition(":")
        exclude = (*DEFAULT_EXCLUDE, *self.mount_exclude)
        mount = HostMount(host, path, exclude=exclude, roots=[host])  # who types a folder means it
        written, links = mount.to_json(), mount.links_left_out()
        if links:
            print_notice(f"{host}: {len(links)} symbolic link(s) are not mounted, the first is {links[0]}")
        return written


def _object(file: Path) -> JsonObject:
    found = read_json(file)
    if not isinstance(found, dict):
        raise ProblemError(problem("request_invalid", f"{file} holds no JSON object"))
    return found


def _section(option: str) -> JsonObject:
    title, sign, file = option.partition("=")
    if not sign:
        raise ProblemError(problem("request_invalid", f"--context takes TITLE=FILE, not {option}"))
    try:
        return {"title": title, "text": Path(file).read_text("utf-8")}
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemError(problem("request_invalid", f"{file} can't be read: {error}")) from error
