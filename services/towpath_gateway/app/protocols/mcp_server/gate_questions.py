"""What waits for a person, as a question to the person at a client, and their answer as a word at the gate.

A question is of one call as it is shown: its key holds the digest that the word is bound to, so nothing has to be kept
between asking and answering, and a call that was changed meanwhile is another question. What a client sends back is
checked like any other word by the API, which alone decides whose word counts. Texts of runs are others' words: they
stand in one line each, without characters that draw.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequest, InputResponses

from towpath_console.api import Api, ApiRefusalError
from towpath_console.caller import caller_of
from towpath_contracts.problems.near_names import nearest_name
from towpath_contracts.runs.value_doubts import doubt_lines
from towpath_contracts.tools.call_summaries import summary_of_gate
from towpath_gateway.app.gate_votes import TOO_LATE
from towpath_gateway.core.gate_texts import MAX_SHOWN_CHARS, plain_line, shown_arguments, verdicts_of

Gate = Mapping[str, Any]

MAX_QUESTIONS = 8
"""At once; the others are asked after these."""

_SAY_IT = "Say one of those in detail with the tool decide_approval, as its verdict; in a terminal: {command}."

_WRONG_WORD = frozenset({"request_invalid", "verdict_invalid"})
"""Refusals of a word that no gate takes, or that this one does not."""

_MOST_OF_WORD = 64

_KEY = re.compile(r"([0-9a-f-]{36})(?::([!-~]{1,128}))?")


async def open_gates(api: Api, run_id: str) -> Sequence[Gate] | None:
    """Return the gates of a run, and of all below it, that a word can open; None where the key may not see them."""
    try:
        found = await api.get("/v1/gates", root_run_id=run_id, paused="false", limit=100)
        if not found["gates"]:
            found = await api.get("/v1/gates", run_id=run_id, paused="false", limit=100)
    except ApiRefusalError as error:
        if error.problem.get("code") != "forbidden":
            raise
        return None
    gates: Sequence[Gate] = found["gates"]
    return gates


def questions(gates: Sequence[Gate], me: Mapping[str, Any]) -> dict[str, InputRequest]:
    """Return what the caller *me* can be asked, by key: gates that its key may speak at and has not spoken at."""
    caller = caller_of(me)
    asked = [
        gate
        for gate in gates
        if not caller.lacking_at(gate)
        and caller.name not in {vote.get("actor") for vote in gate.get("votes") or ()}
        and len(shown_arguments((gate.get("detail") or {}).get("args"))) <= MAX_SHOWN_CHARS
    ]
    return {_key(gate): _question(gate) for gate in asked[:MAX_QUESTIONS]}


def checked_answers(answers: InputResponses) -> InputResponses:
    """Return *answers*; raises ApiRefusalError where there are more than anybody was asked for."""
    if len(answers) > MAX_QUESTIONS:
        detail = f"there are {len(answers)} inputResponses, and at most {MAX_QUESTIONS} things are asked at once"
        raise ApiRefusalError.of("request_invalid", detail)
    return answers


async def decide(api: Api, key: str, answer: object) -> None:
    """Carry out the answer to the question *key*; nothing where somebody has decided meanwhile or no word was given.

    Raises ApiRefusalError where the word is refused.
    """
    found = _KEY.fullmatch(key)
    if found is None or not isinstance(answer, ElicitResult) or answer.action != "accept" or not answer.content:
        return
    body: dict[str, Any] = {"verdict": answer.content.get("verdict"), "reason": answer.content.get("reason") or ""}
    if found.group(2):
        body["digest"] = found.group(2)
    try:
        await say(api, found.group(1), body)
    except ApiRefusalError as error:
        code = error.problem.get("code")
        if code in _WRONG_WORD:
            await _check_word(api, found.group(1), str(body["verdict"] or ""), error)
        elif code not in TOO_LATE:
            raise


async def decide_by_tool(api: Api, gate_id: str, word: Mapping[str, Any]) -> dict[str, Any]:
    """Say a word at a gate for a call of a tool, which may change the arguments as well.

    Raises ApiRefusalError; of a word that the gate does not take it says those that it takes.
    """
    try:
        return await say(api, gate_id, word)
    except ApiRefusalError as error:
        if error.problem.get("code") in _WRONG_WORD:
            await _check_word(api, gate_id, str(word["verdict"] or ""), error, edits=True)
        raise


async def _check_word(api: Api, gate_id: str, word: str, refused: ApiRefusalError, *, edits: bool = False) -> None:
    """Say why *word* was *refused* at a gate: by the verdicts that this one takes; nothing where it is settled.

    Which these are is asked once a word was wrong: the API has the last word on those that are right. With *edits*
    the arguments of an approval may be changed.
    """
    try:
        gate = await api.get(f"/v1/gates/{gate_id}")
    except ApiRefusalError as error:
        if error.problem.get("code") in TOO_LATE:
            return
        raise refused from error
    if gate.get("status", "pending") != "pending":
        return
    taken = (*_verdicts(gate), *(["edit"] if edits and gate.get("approval_id") else []))
    if word in taken:
        raise refused
    words = " or ".join(filter(None, (", ".join(taken[:-1]), taken[-1])))
    shown = plain_line(word)[:_MOST_OF_WORD]
    waits = f"Run {gate['run_id']} still waits at gate {gate_id}"
    near = nearest_name(word, taken) if len(word) <= _MOST_OF_WORD else None
    end = f"; did you mean '{near}'?" if near else "."
    detail = f"'{shown}' is no verdict here: {words}{end} {waits}"
    command = f"towpath gates {'approve' if gate.get('approval_id') else 'resolve'} {gate_id}"
    command += "" if gate.get("approval_id") else " VERDICT --reason …"
    raise ApiRefusalError.of("verdict_invalid", detail, remedy=_SAY_IT.format(command=command)) from refused


async def say(api: Api, gate_id: str, word: Mapping[str, Any]) -> dict[str, Any]:
    """Say a word at a gate: the very requests that people make by HTTP. The verdict `edit` approves other arguments."""
    if word.get("verdict") == "edit":
        edit = {name: value for name, value in word.items() if name != "verdict"}
        return await api.post(f"/v1/gates/{gate_id}/edit", edit)
    return await api.post(f"/v1/gates/{gate_id}/resolve", dict(word))


def gate_summary(gate: Gate, site: str) -> dict[str, Any]:
    """Return what a result says of a gate, with where it is decided."""
    detail = gate.get("detail") or {}
    summary = {
        "gate_id": gate["gate_id"],
        "run_id": gate["run_id"],
        "gate_type": gate["gate_type"],
        "tool": detail.get("tool"),
        "summary": summary_of_gate(detail),
        "args": detail.get("args"),
        "doubts": doubt_lines(detail),
        "digest": detail.get("digest"),
        "rule": detail.get("rule"),
        "reason": gate.get("reason"),
        "verdicts": list(_verdicts(gate)),
        "expires_at": gate.get("expires_at"),
        "decide_at": f"{site}/approvals/{gate['gate_id']}",
    }
    return {name: value for name, value in summary.items() if value not in (None, "", [])}


def _key(gate: Gate) -> str:
    digest = (gate.get("detail") or {}).get("digest") or ""
    return f"{UUID(str(gate['gate_id']))}:{digest}" if digest else str(UUID(str(gate["gate_id"])))


def _verdicts(gate: Gate) -> Sequence[str]:
    return verdicts_of((gate.get("detail") or {}).get("verdicts"))


def _question(gate: Gate) -> ElicitRequest:
    detail = gate.get("detail") or {}
    summary = summary_of_gate(detail)
    lines = [
        f"A run of {gate.get('network') or 'a network'} waits for your word: {plain_line(gate.get('reason', ''))}",
        *([f"Call: {plain_line(summary)}"] if summary else []),
        *(f"{title}: {plain_line(detail[name])}" for title, name in _SHOWN if detail.get(name)),
    ]
    lines += [f"Doubt: {plain_line(line)}" for line in doubt_lines(detail)]
    if arguments := shown_arguments(detail.get("args")):
        lines.append(f"Arguments: {arguments}")
    lines.append(f"Run: {gate['run_id']}")
    schema = {
        "type": "object",
        "properties": {
            "verdict": {"type": "string", "title": "Your word", "enum": list(_verdicts(gate))},
            "reason": {"type": "string", "title": "Reason", "description": "Needed to deny.", "maxLength": 2_000},
        },
        "required": ["verdict"],
    }
    return ElicitRequest(params=ElicitRequestFormParams(message="\n".join(lines), requested_schema=schema))


_SHOWN = (("Tool", "tool"), ("Agent", "agent"), ("Rule", "rule"))
