"""The result of an internal tool: what it answers and changes, or a refusal that the model sees.

A tool that fails changes nothing.
"""

from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import ValidationError

from towpath_contracts.base import ClientMessagePart, JsonObject
from towpath_contracts.problems.input_faults import located_message
from towpath_contracts.tools.workspace import FileChange
from towpath_engine.state.workspace import WorkspacePlan

Asked = TypeVar("Asked", bound=ClientMessagePart)


class InternalToolError(Exception):
    """The call is a mistake: `code` is stable, the text and `hint` are for the model."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


class ContentMissingError(Exception):
    """The text of a file that the call reads did not come with the fact; it is asked for again."""


@dataclass(frozen=True, kw_only=True)
class InternalToolResult:
    """What a call made: its result, the new plan or the changed files, and new texts by their digests."""

    result: JsonObject
    plan: WorkspacePlan | None = None
    reset: bool = False
    changes: tuple[FileChange, ...] = ()
    stored: dict[str, str] = field(default_factory=dict)


def read_arguments(model: type[Asked], args: JsonObject) -> Asked:
    """Read the arguments of a call; raises InternalToolError with every problem of them."""
    try:
        return model.model_validate(args)
    except ValidationError as error:
        entries = error.errors(include_url=False, include_input=False)
        problems = "; ".join(located_message(entry, "arguments") for entry in entries)
        raise InternalToolError("arguments_invalid", problems) from error


def checked_ascii(name: str, text: str, limit: int, *, required: bool = False) -> str:
    """Return *text* without white space around it; raises InternalToolError for what is too long or not ASCII."""
    plain = text.strip()
    if not plain.isascii():
        raise InternalToolError("arguments_invalid", f"{name} must be ASCII")
    if len(plain) > limit:
        raise InternalToolError("arguments_invalid", f"{name} has {len(plain)} characters; the limit is {limit}")
    if required and not plain:
        raise InternalToolError("arguments_invalid", f"{name} is empty")
    return plain
