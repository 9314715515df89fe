"""Answers of tools: texts and structured content, never anything that a client would act upon by itself."""

import json
from collections.abc import Mapping
from typing import Any

from mcp_types import CallToolResult, TextContent

from towpath_contracts.runs.value_doubts import doubt_lines
from towpath_contracts.text import join_sentences
from towpath_gateway.app.protocols.mcp_server.gate_questions import gate_summary
from towpath_gateway.app.protocols.mcp_server.run_wait import WaitedRun, waits_for_person
from towpath_gateway.core.gate_texts import plain_line
from towpath_readings.stream.live import answer_text

_TOLD = ("run_id", "status", "network", "version", "reason", "message", "final", "usage", "cost", "waits")
"""Of a run that a tool has run; get_run gives all."""


def data_result(found: Mapping[str, Any]) -> CallToolResult:
    """Return what the API answered."""
    return CallToolResult(content=[_text(json.dumps(found, ensure_ascii=False))], structured_content=dict(found))


def refused_result(problem: Mapping[str, Any]) -> CallToolResult:
    """Return a refusal: its code, what happened and what to do, as the model that called reads it."""
    lines = [f"{problem.get('code', 'internal')}: {problem.get('detail') or problem.get('title', '')}"]
    said = lines[0]  # of a single fault the detail says all
    lines += [f"{one.get('pointer', '')}: {one.get('detail', '')}" for one in _unsaid(problem, said)]
    lines += [str(problem["remedy"])] if problem.get("remedy") else []
    return CallToolResult(content=[_text("\n".join(lines))], structured_content=dict(problem), is_error=True)


def run_result(waited: WaitedRun, site: str, *, refused: Mapping[str, Any] | None = None) -> CallToolResult:
    """Return how a run stands after a wait; *refused* is why an answer of the caller did not count."""
    view = waited.view
    told = {name: view[name] for name in _TOLD if view.get(name) not in (None, "", [], {})}
    if waited.gates:
        told["gates"] = [gate_summary(gate, site) for gate in waited.gates]
    if refused is not None:
        told["refused"] = dict(refused)
    lines = _lines(waited, site)
    if refused is not None:
        why = f"{refused.get('code')}: {refused.get('detail')}"
        lines.insert(0, join_sentences(why, str(refused.get("remedy") or "")))
    failed = refused is not None or (waited.has_ended and view["status"] != "completed")
    return CallToolResult(content=[_text(line) for line in lines], structured_content=told, is_error=failed)


def unfollowed_result(known: Mapping[str, Any], why: Mapping[str, Any]) -> CallToolResult:
    """Return which run it is that nothing more can be said of: *why* is what refused to."""
    text = (
        f"Run {known['run_id']} can't be followed now: {why.get('code')}: {why.get('detail')}. "
        "Ask follow_run: another call is another run."
    )
    told = {**{name: known[name] for name in ("run_id", "status") if name in known}, "refused": dict(why)}
    return CallToolResult(content=[_text(text)], structured_content=told)


def _lines(waited: WaitedRun, site: str) -> list[str]:
    view = waited.view
    run_id, status = view["run_id"], view["status"]
    if status == "completed":
        return [answer_text(view.get("final")), f"Run {run_id} completed."]
    if waited.has_ended:
        return [f"Run {run_id} {status}: {view.get('message') or view.get('reason') or 'no reason is known'}"]
    waits = view.get("waits") or ()
    if waited.gates or (waited.hides_gates and waits_for_person(waits)):
        return [_waiting_text(waited, site)]
    if waits:
        return [join_sentences(f"Run {run_id} is {status} and waits: {waits[0]}", "Ask follow_run for its end")]
    return [f"Run {run_id} is {status}: ask follow_run for its end."]


def _waiting_text(waited: WaitedRun, site: str) -> str:
    """Return what waits and how it is decided, in one text: many programs print the first and no other."""
    words = "; ".join(waited.view.get("waits") or ()) or "a person has to decide"
    places = [f"{site}/approvals/{gate['gate_id']}" for gate in waited.gates] or [f"{site}/approvals"]
    command = f"towpath gates approve {waited.gates[0]['gate_id']}" if waited.gates else "towpath gates list"
    doubts = [f"Doubt: {plain_line(line)}" for gate in waited.gates for line in doubt_lines(gate.get("detail") or {})]
    how = f"It is decided at {' '.join(places)}, by `{command}`, or with decide_approval; ask follow_run then"
    return join_sentences(f"Run {waited.view['run_id']} waits: {words}", *doubts, how)


def _unsaid(problem: Mapping[str, Any], said: str) -> list[Mapping[str, Any]]:
    return [one for one in problem.get("errors") or () if str(one.get("detail", "")) not in said]


def _text(text: str) -> TextContent:
    return TextContent(text=text)
