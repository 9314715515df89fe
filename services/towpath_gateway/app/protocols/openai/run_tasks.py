"""The task of a request: its conversation, its settings, the form of its answer. All that is wrong is told at once."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import UUID

from pydantic import ValidationError

from towpath_contracts.base import JsonObject
from towpath_contracts.problems.input_faults import MAX_LISTED, FaultList, list_faults
from towpath_contracts.problems.registry import ProblemDetail, ProblemError
from towpath_contracts.tasks import SubmitTask
from towpath_gateway.app.errors import validation_problem
from towpath_gateway.app.protocols.openai.caller_tools import answer_schema, unmovable_reference
from towpath_gateway.app.protocols.openai.conversation_items import ConversationItem, fault, task_fields
from towpath_gateway.app.protocols.openai.request_fields import SamplingRequest

_RESPONSE_ID = re.compile(r"resp_([0-9a-f]{32})")

_PLACES = {
    "network": "model",
    "labels": "metadata",
    "continues": "previous_response_id",
    "response_schema": "tools",
    "user_message": "the last message",
}
"""Where what became a field of a task stood in the request, where its name is another one."""


def response_id(run_id: UUID) -> str:
    """Return the id of a run as a response."""
    return f"resp_{run_id.hex}"


def response_run(text: str) -> UUID | None:
    """Return the run of a response; None where *text* is not the id of one."""
    found = _RESPONSE_ID.fullmatch(text)
    return UUID(hex=found[1]) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOffer:
    """The caller's tools, and whether the answer may, must or must not ask for them."""

    tools: list[JsonObject] = field(default_factory=list)
    choice: str = "auto"
    only: str = ""
    one: bool = False

    def faults(self, wanted: JsonObject | None = None) -> Iterator[ProblemDetail]:
        """Yield what is wrong with it, and with what is *wanted* beside it."""
        names = [tool["name"] for tool in self.tools]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield fault("/tools", f"two tools are called {name!r}")
        if self.only and self.only not in names:
            yield fault("/tool_choice", f"no tool is called {self.only!r}")
        if self.choice == "required" and not names:
            yield fault("/tool_choice", "no tool is there to be asked for")
        described = [(f"tool {tool['name']!r}", tool["parameters"]) for tool in self.tools]
        for named, schema in [*described, *([("the wanted answer", wanted)] if wanted and names else [])]:
            if (reference := unmovable_reference(schema)) is not None:
                detail = f"{named}: the reference {reference!r} is none to a place (#, #/…) in its schema"
                yield fault("/tools", detail)

    def schema(self, wanted: JsonObject | None) -> JsonObject | None:
        """Return what the answer satisfies, which is *wanted* where no tool is offered."""
        if not self.tools or self.choice == "none":
            return wanted
        must = self.choice == "required" or bool(self.only)
        return answer_schema(self.tools, wanted, must=must, only=self.only, one=self.one)


def run_task(
    request: SamplingRequest,
    items: list[ConversationItem],
    faults: list[ProblemDetail],
    settings: JsonObject,
    offer: ToolOffer,
    wanted: JsonObject | None,
    *,
    continues: UUID | None = None,
) -> SubmitTask:
    """Return the task of *request*, which says *items*; raises ProblemError with *faults* and all others."""
    said, wrong = task_fields(items, continues=continues is not None)
    faults = [*faults, *wrong, *offer.faults(wanted)]
    given: JsonObject = {"network": request.model, "labels": request.metadata or {}, "continues": continues}
    given |= request.towpath.given() if request.towpath is not None else {}
    try:
        asked = request.settings(**settings)
    except ValidationError as error:
        faults += list_faults(error).within("body").details
        asked = None
    schema = None if faults else offer.schema(wanted)
    chosen: JsonObject = {"model_settings": asked, "response_schema": schema}
    given |= {name: value for name, value in chosen.items() if value is not None}
    if not faults:
        try:
            return SubmitTask.model_validate({**given, **said})
        except ValidationError as error:
            faults = [_placed(one) for one in list_faults(error).details]
    raise ProblemError(validation_problem(FaultList(tuple(faults[:MAX_LISTED]), len(faults))))


def _placed(found: ProblemDetail) -> ProblemDetail:
    """Return a fault of a task as one of the request."""
    first, _, rest = found.pointer.removeprefix("/").partition("/")
    pointer = "/".join(("/body", _PLACES.get(first, first), *([rest] if rest else [])))
    return found.model_copy(update={"pointer": pointer})
