"""The messages of the NATS agent protocol 0.3, as the gateway reads and writes them: what agents there are, and chunks.

A network is an agent of its caller: `agents.prompt.towpath.<caller>.<session>`, where the session is the network.
"""

import json
import re
from collections.abc import Iterator
from uuid import NAMESPACE_URL, uuid5

from towpath_contracts import subjects
from towpath_contracts.base import JsonObject
from towpath_contracts.problems.registry import Problem, ProblemError, problem
from towpath_contracts.runs.value_doubts import doubt_lines
from towpath_contracts.runs.views import GateView
from towpath_contracts.tools.call_summaries import summary_of_gate
from towpath_gateway.core.gate_texts import MAX_SHOWN_CHARS, plain_line, shown_arguments, verdicts_of

AGENT = "towpath"
PROTOCOL = "0.3"
MAX_PROMPT_BYTES = 512 * 1024
CHUNK_CHARS = 100_000
"""Of an answer in one message: each character may be six bytes of JSON."""

MAX_REASON_CHARS = 2_000

BEAT_S = 20
"""How often a prompt that is worked on says so; clients give up after a minute of silence."""

_PLAIN = re.compile(r"(?!x--)[a-z0-9_-]+")
_WORDS = {"approve": "approved", "yes": "approved", "deny": "denied", "no": "denied"}


def session_of(network: str) -> str:
    """Return the last token of a network's subject: its name, written in hexadecimal where a token can't have it."""
    return network if _PLAIN.fullmatch(network) else f"x--{network.encode().hex()}"


def network_of(session: str) -> str:
    """Return the network of a session; raises ProblemError `network_not_found` where none can have it."""
    try:
        name = bytes.fromhex(session[3:]).decode() if session.startswith("x--") else session
    except ValueError:
        name = ""
    if not name or session_of(name) != session:
        raise ProblemError(problem("network_not_found", f"no network has the session {session[:200]}"))
    return name


def agent_info(project: str, caller: str, network: str, version: int) -> JsonObject:
    """Return what discovery is told of a network."""
    session = session_of(network)
    metadata = {"agent": AGENT, "owner": caller, "session": session, "protocol_version": PROTOCOL}
    limits = {"max_payload": f"{MAX_PROMPT_BYTES // 1024}KB", "attachments_ok": "false"}
    none: dict[str, str] = {}
    places = (("prompt", subjects.agents_prompt, limits), ("status", subjects.agents_status, none))
    return {
        "type": "io.nats.micro.v1.info_response",
        "name": "agents",
        "id": instance_of(caller, session),
        "version": f"{version}.0.0",
        "description": f"The network {network} of the project {project}",
        "metadata": {**metadata, "network": network, "project": project},
        "endpoints": [
            {"name": name, "subject": subject(caller, session), "queue_group": "agents", "metadata": more}
            for name, subject, more in places
        ],
    }


def agent_status(caller: str, session: str, at: str) -> JsonObject:
    """Return the answer to who asks whether an agent is there."""
    who = {"agent": AGENT, "owner": caller, "session": session, "instance_id": instance_of(caller, session)}
    return {**who, "ts": at, "interval_s": BEAT_S}


def instance_of(caller: str, session: str) -> str:
    """Return the id of an agent, the same in every process."""
    return uuid5(NAMESPACE_URL, subjects.agents_prompt(caller, session)).hex


def prompt_of(body: bytes) -> str:
    """Return the text of a prompt, or of an answer: an envelope, or the text itself; raises ProblemError."""
    if len(body) > MAX_PROMPT_BYTES:
        raise ProblemError(problem("request_too_large", f"a prompt has at most {MAX_PROMPT_BYTES} bytes"))
    try:
        text = body.decode()
        said = json.loads(text) if text.lstrip().startswith("{") else {"prompt": text}
    except (ValueError, RecursionError):
        raise ProblemError(problem("request_malformed", "a prompt is text, or an envelope in JSON")) from None
    if said.get("attachments"):
        raise ProblemError(problem("request_invalid", "agents take no attachments here"))
    found = said.get("prompt")
    if not isinstance(found, str) or not found.strip():
        raise ProblemError(problem("request_invalid", "the prompt is empty"))
    return found


def status_chunk(word: str) -> bytes:
    """Return a chunk that says how far a prompt is."""
    return _chunk("status", word)


def answer_chunks(text: str) -> Iterator[bytes]:
    """Return an answer in chunks that fit a message each."""
    for start in range(0, len(text), CHUNK_CHARS):
        yield _chunk("response", text[start : start + CHUNK_CHARS])


def question_chunk(question: str, place: str, text: str) -> bytes:
    """Return a chunk that asks, to be answered at *place*."""
    return _chunk("query", {"id": question, "reply_subject": place, "prompt": text})


def error_headers(refusal: Problem) -> dict[str, str]:
    """Return the headers of a refusal."""
    return {
        "Nats-Service-Error-Code": str(refusal.status),
        "Nats-Service-Error": plain_line(f"{refusal.code}: {refusal.detail}")[:500],
        "Towpath-Problem": refusal.code,
    }


def gate_question(gate: GateView, refused: str) -> str | None:
    """Return the question of a gate, after *refused*, why the last answer did not count; None where it is too long."""
    detail = gate.detail
    arguments = shown_arguments(detail.get("args"))
    if len(arguments) > MAX_SHOWN_CHARS:
        return None
    words = " or ".join({"approved": "approve", "denied": "deny"}.get(one, one) for one in _verdicts(gate))
    shown = (
        ("Call", plain_line(summary_of_gate(detail))),
        ("Tool", plain_line(detail.get("tool") or "")),
        *(("Doubt", plain_line(line)) for line in doubt_lines(detail)),
        ("Arguments", arguments),
        ("Rule", plain_line(detail.get("rule") or "")),
        ("Run", gate.run_id),
    )
    lines = [
        *([plain_line(refused)] if refused else []),
        f"A run of {plain_line(gate.network or 'a network')} waits for your word: {plain_line(gate.reason)}",
        *(f"{name}: {value}" for name, value in shown if value),
        f"Answer {words}, and why.",
    ]
    return "\n".join(lines)


def verdict_of(gate: GateView, answer: str) -> tuple[str, str]:
    """Return the verdict and the reason of an answer; raises ProblemError where it begins with no word for this."""
    word, _, reason = answer.strip().partition(" ")
    named = word.strip(",.:;!").lower()
    verdict = _WORDS.get(named, named)
    if verdict not in _verdicts(gate):
        raise ProblemError(problem("verdict_invalid", "the answer begins with no word that this gate takes"))
    return verdict, reason.strip()[:MAX_REASON_CHARS]


def _verdicts(gate: GateView) -> tuple[str, ...]:
    return verdicts_of(gate.detail.get("verdicts"))


def _chunk(kind: str, data: object) -> bytes:
    return json.dumps({"type": kind, "data": data}).encode()
