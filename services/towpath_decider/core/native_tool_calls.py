"""Native tool calls: which tools a model may be offered to call by itself, and the decision that its calls mean.

A native call is no more than another way of writing USE_TOOL: what is made of it is checked like every decision. Calls
count before a text beside them, which is their reason. Calls that can't be read, or that may be incomplete, are never
made; the model is told what was wrong with them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic_core import to_json

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.decision import PLAIN_KINDS, arguments_fault
from towpath_contracts.decisions.request import DecisionKind, DecisionRequest, OfferedTool
from towpath_decider.core.answers import AcceptedAnswer, find_object

MAX_OFFERED = 128
"""OpenAI takes no more; an agent with more tools is asked in words."""

MAX_NAME_CHARS = 64
"""The longest name of a tool that every provider takes."""

_UNUSUAL = re.compile(r"[^a-zA-Z0-9_-]")

INCOMPLETE = "its last tool call may be incomplete, so none of its calls was made"


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeCall:
    """A tool's name, and its arguments: an object, or the text of one."""

    name: str
    arguments: JsonObject | str


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenAnswer:
    """An answer as a text, whichever way it was given; `fault` is why it can't be used, in words for the model."""

    text: str
    fault: str = ""


def native_tools(request: DecisionRequest) -> dict[str, OfferedTool]:
    """Return the tools that a model may be offered for *request*, by the names that providers take.

    None where no decision is asked for, and in runs of goals and objectives: a native call can't say how sure it is.
    """
    context = request.context
    if request.kind is not DecisionKind.DECIDE or context.run_kind not in PLAIN_KINDS:
        return {}
    return tools_by_native_name(context.tools) if len(context.tools) <= MAX_OFFERED else {}


def tools_by_native_name(tools: Sequence[OfferedTool]) -> dict[str, OfferedTool]:
    """Return *tools* by names that every provider takes; a name that is taken as it is stays with its own tool."""
    taken = {tool.name for tool in tools if _is_usual(tool.name)}
    named: dict[str, OfferedTool] = {}
    for tool in tools:
        name = tool.name if _is_usual(tool.name) else _free_name(tool.name, taken)
        taken.add(name)
        named[name] = tool
    return named


def native_names(request: DecisionRequest) -> dict[str, str]:
    """Return the names that providers take, by the tools' own."""
    return {tool.name: name for name, tool in native_tools(request).items()}


def sent_name(tool: str, names: Mapping[str, str]) -> str:
    """Return the name of a tool that was called before, also where it is not offered any more."""
    return names.get(tool) or _UNUSUAL.sub("_", tool)[:MAX_NAME_CHARS]


def _is_usual(name: str) -> bool:
    return len(name) <= MAX_NAME_CHARS and _UNUSUAL.search(name) is None


def _free_name(name: str, taken: set[str]) -> str:
    usual = _UNUSUAL.sub("_", name)[:MAX_NAME_CHARS]
    others = (f"{usual[: MAX_NAME_CHARS - 4]}_{number}" for number in range(2, MAX_OFFERED + 2))
    return next(one for one in (usual, *others) if one not in taken)


def parameters_of(tool: OfferedTool) -> JsonObject:
    """Return the schema of the tool's arguments; providers insist on an object, and on its fields."""
    return {"properties": {}, **tool.parameters, "type": "object"}


def is_switched_on(model: str, switches: Mapping[str, bool], *, otherwise: bool) -> bool:
    """Return whether tools are offered natively to *model*, as *switches* say of it or else of its provider."""
    return switches.get(model, switches.get(model.partition(":")[0], otherwise))


def read_written(
    text: str, calls: Sequence[NativeCall], request: DecisionRequest, *, cut_off: bool = False
) -> WrittenAnswer:
    """Return the answer that a model gave to *request* with *text* and *calls*."""
    if not calls:
        return WrittenAnswer(text=text)
    tools = native_tools(request)
    named = [
        NativeCall(name=tools[call.name].name if call.name in tools else call.name, arguments=call.arguments)
        for call in calls
    ]
    return WrittenAnswer(text=_as_decision(named, _reason_in(text)), fault=INCOMPLETE if cut_off else _fault_of(named))


def _as_decision(calls: Sequence[NativeCall], why: str) -> str:
    """Return the decision that *calls* mean, as the text a model would have written."""
    proposals = [{"tool_name": call.name, "tool_params": call.arguments} for call in calls]
    details = proposals[0] if len(proposals) == 1 else {"calls": proposals}
    return to_json({"action": "USE_TOOL", "action_reasoning": why, "action_details": details}).decode()


def _reason_in(text: str) -> str:
    """Return why the calls are made: the text beside them, or the reason in it where it has the form of a decision."""
    found = find_object(text) if "{" in text else None
    if isinstance(found, AcceptedAnswer) and isinstance(why := found.value.get("action_reasoning"), str):
        return why
    return text.strip()


def _fault_of(calls: Sequence[NativeCall]) -> str:
    told = [
        f"the arguments of call {place}, of {call.name}, can't be read: {fault}"
        for place, call in enumerate(calls, 1)
        if isinstance(call.arguments, str) and call.arguments.strip() and (fault := arguments_fault(call.arguments))
    ]
    if not told:
        return ""
    return f"{'; '.join(told)}. None of its calls was made; write the arguments of each as one JSON object."
