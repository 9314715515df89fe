"""A conversation as OpenAI's clients send it, and the fields of a task that it becomes.

Both of their APIs send the whole conversation again, or what is new since an earlier answer. The last message of the
user is what the run answers, what was said before are its earlier turns, and results of the caller's tools are quoted.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.earlier_turns import MAX_TURNS
from towpath_contracts.problems.registry import ProblemDetail
from towpath_gateway.app.protocols.openai.caller_tools import MAX_CALLS

MAX_ITEMS = 2 * (MAX_TURNS + MAX_CALLS)
"""Messages or items of a request: more than the turns of a task, since calls of one answer, and results, are one."""

_DATA_URL = re.compile(r"data:([a-z0-9.+-]+/[a-z0-9.+-]+)(?:;[a-z0-9=-]+)*;base64,(.+)", re.IGNORECASE | re.DOTALL)
_PLACE = re.compile(r"call_(\d{1,3})_[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationItem:
    """One thing that was said; of a `result` the *text* is what the call *call_id* of the function *name* returned."""

    kind: Literal["instructions", "user", "assistant", "calls", "result"]
    text: str
    pointer: str
    name: str = ""
    call_id: str = ""
    files: tuple[JsonObject, ...] = ()


def call_id(run_hex: str, place: int) -> str:
    """Return the id of a call that the answer of a run asks for; *place* counts from 1."""
    return f"call_{place}_{run_hex}"


def task_fields(items: Sequence[ConversationItem], *, continues: bool) -> tuple[JsonObject, list[ProblemDetail]]:
    """Return the fields of a task that say what *items* say, and what is wrong with these.

    With *continues* they are what is new since the run that is continued, which has the earlier turns itself.
    """
    faults = list(_faults(items, continues=continues))
    if faults:
        return {}, faults
    said = [item for item in items if item.kind != "instructions"]
    begin = 0 if continues else len(said) - (said[-1].kind == "user")
    while begin > 0 and said[begin - 1].kind == "result":
        begin -= 1
    now, quoted = said[begin:], _quoted(said)
    present = {id(item) for item in now}
    told = [_result_told(item, number) for item, number in quoted if id(item) in present]
    words = [*told, *(item.text for item in now if item.kind == "user")]
    fields: JsonObject = {"quoted_inputs": {f"result_{number}": item.text for item, number in quoted}}
    if continues:
        words[:0] = [_instructions(item) for item in items if item.kind == "instructions"]
    else:
        numbers = {id(item): number for item, number in quoted}
        before = [item for item in items if id(item) not in present]
        fields["messages"] = [turn for item in before if (turn := _turn(item, numbers.get(id(item), 0)))]
    files = [file for item in now for file in item.files]
    return {**fields, "user_message": "\n\n".join(words), **({"attachments": files} if files else {})}, []


def _faults(items: Sequence[ConversationItem], *, continues: bool) -> Iterator[ProblemDetail]:
    said = [item for item in items if item.kind != "instructions"]
    if not said or said[-1].kind not in ("user", "result"):
        where = said[-1].pointer if said else ""
        yield fault(where, "the last message is one of the user, or what a call returned")
    results = [item for item in said if item.kind == "result"]
    if len(results) > MAX_CALLS:
        yield fault(results[MAX_CALLS].pointer, f"a task quotes {MAX_CALLS} results: leave older ones out")
    if not continues:
        return
    users = [item for item in said if item.kind == "user"]
    for item in [*users[1:], *(item for item in said if item.kind in ("assistant", "calls"))]:
        yield fault(item.pointer, "with previous_response_id send what is new: results, and one message of the user")


def fault(pointer: str, detail: str, code: str = "value_error") -> ProblemDetail:
    """Return one thing that is wrong with the body."""
    return ProblemDetail(pointer=f"/body{pointer}", code=code, detail=detail)


def _quoted(said: Sequence[ConversationItem]) -> list[tuple[ConversationItem, int]]:
    results = (item for item in said if item.kind == "result")
    return [(item, number) for number, item in enumerate(results, 1)]


def _result_told(item: ConversationItem, number: int) -> str:
    """Return what is said of a result: nothing of it, since what the user says vouches for values."""
    place = _PLACE.fullmatch(item.call_id)
    which = f"call {place[1]} of the answer that asked for it" if place else "a call that you asked for"
    named = f"{item.name}, {which}," if item.name else which
    return f"The caller has carried out {named} and quotes what it returned as result_{number}."


def _instructions(item: ConversationItem) -> str:
    return f"Instructions of the program that asks:\n{item.text}"


def _turn(item: ConversationItem, number: int) -> JsonObject | None:
    match item.kind:
        case "instructions":
            return {"role": "user", "content": _instructions(item)}
        case "result":
            return {"role": "user", "content": _result_told(item, number)}
        case "user":
            return {"role": "user", "content": item.text, **({"attachments": item.files} if item.files else {})}
        case _:
            return {"role": "assistant", "content": item.text} if item.text else None


def attached_file(url: Any, name: str, pointer: str) -> JsonObject | ProblemDetail:
    """Return the file of a data URL as a task attaches it; nothing is fetched from elsewhere."""
    found = _DATA_URL.fullmatch(url) if isinstance(url, str) else None
    if found is None:
        return fault(pointer, "send the file itself, as data:TYPE;base64,…: nothing is fetched for a caller")
    return {"name": name, "media_type": found[1].lower(), "data": found[2]}
