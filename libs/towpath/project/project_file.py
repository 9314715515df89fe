"""The file `towpath.yaml` of a project: where its networks, its policy and its tools are.

`towpath up` reads it in the folder where it is started, so that it needs no options there; an option that is given
wins over what stands in the file.
"""

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from towpath.errors import RefusedError
from towpath.networks.spec_files import locate_problems, read_yaml
from towpath_contracts.base import ClientMessagePart, JsonObject
from towpath_contracts.problems.given_values import in_words_of_a_file
from towpath_contracts.problems.input_faults import details_of
from towpath_contracts.problems.registry import ProblemDetail

PROJECT_FILE = Path("towpath.yaml")
CODE = "project_invalid"
MAX_TOOLS = 100


class ProjectFile(ClientMessagePart):
    """What a project is made of; paths begin where this file lies."""

    kind: Literal["Project"]
    networks: Path | None = None
    policy: Path | None = None
    tools: tuple[Path, ...] = Field(default=(), max_length=MAX_TOOLS)
    mcp: Path | None = None
    single_person: bool = False

    def tool_modules(self) -> tuple[str, ...]:
        """Return the files with tools, each once."""
        files = [file for place in self.tools for file in tool_files(place)]
        return tuple(str(file) for file in dict.fromkeys(files))


def find_project(path: Path = PROJECT_FILE) -> ProjectFile | None:
    """Return the project whose file lies here; None where there is none. Raises RefusedError `project_invalid`."""
    return read_project(path) if path.exists() else None


def read_project(path: Path = PROJECT_FILE) -> ProjectFile:
    """Read the file; raises RefusedError `project_invalid` with every problem and its `file:line`."""
    written, lines, _ = read_yaml(path, CODE)
    missing = _missing_files(path.parent, written)
    try:
        found = ProjectFile.model_validate(written)
    except ValidationError as error:
        details = (*in_words_of_a_file(details_of(error, ProjectFile), written), *missing)
        raise RefusedError(locate_problems(CODE, path, lines, details)) from None
    if missing:
        raise RefusedError(locate_problems(CODE, path, lines, missing))
    return found


def _missing_files(folder: Path, written: JsonObject) -> list[ProblemDetail]:
    """Return each file that is named and not there, also of a project with other mistakes."""
    tools = written.get("tools")
    named = [(key, written.get(key)) for key in ("networks", "policy", "mcp")]
    named += [(f"tools/{place}", one) for place, one in enumerate(tools if isinstance(tools, list) else ())]
    return [
        ProblemDetail(pointer=f"/{pointer}", code="file_missing", detail=f"{Path(place)} does not exist")
        for pointer, place in named
        if isinstance(place, str) and not (folder / place).exists()
    ]


def tool_files(place: Path) -> list[Path]:
    """Return the files with tools at *place*: of a folder all that end in .py, but for those that begin with `_`."""
    if not place.is_dir():
        return [place]
    return sorted(file for file in place.glob("*.py") if not file.name.startswith("_"))
