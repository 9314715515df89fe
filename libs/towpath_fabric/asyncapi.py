"""The AsyncAPI document of the message bus, made from the tables in contracts.

Every subject, stream and request/reply method that contracts declare appears, and nothing else. FastStream's own
document describes only what one process subscribes to (docs/decisions/0013-faststream-for-request-reply.md).
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from towpath_contracts import facts, rpc, streams, subjects, tasks
from towpath_contracts.base import JsonObject
from towpath_contracts.decisions import provider_limits
from towpath_contracts.decisions import request as decisions_request
from towpath_contracts.events import log
from towpath_contracts.problems.registry import Problem
from towpath_contracts.runs.run_control import RunSteered
from towpath_contracts.tools import calls

VERSION = "1"
CONTENT_TYPE = "application/json"

PARAMETERS = {
    "caller": "Who submits: one token, granted per credential.",
    "limit": "A provider, or a provider and one of its models, as in the deciders' settings.",
    "source": "Who reports: a credential may publish only under its own source.",
    "run_id": "The run, as a UUID.",
    "pool": "The decider pool, or that of an agent in user code: `agent_<project>=<name>`.",
    "agent": "The name of an agent in user code.",
    "project": "The tenant that the toolset's tools are offered to.",
    "session": "A network, as the NATS agent protocol has it.",
    "question": "What was asked, a random name.",
    "place": "The name that the worker chose for itself.",
    "toolset": "The group of tools that one kind of worker serves.",
    "execution_id": "The tool call, as a UUID.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncApiChannel:
    """One subject in the AsyncAPI document: who sends what to whom. *reply* is the answer to a request."""

    key: str
    address: str
    sender: str
    receiver: str
    summary: str
    messages: tuple[Any, ...]
    reply: tuple[Any, ...] = ()


MESSAGES: dict[str, Any] = {"Fact": facts.fact_adapter}
"""Unions have no class of their own: their names and adapters."""


def _summary(verb: str) -> str:
    """Return what is to be known of a subject that clients ask."""
    if verb == "task.submit":
        return "Answered once the run is committed."
    steers = issubclass(rpc.CLIENT_SUBJECTS[verb][1], RunSteered)
    once = " Answered once the run's log holds it; send it once." if steers else ""
    return f"For runs of its own project.{once}"


_AGENTS = (
    ("Discovery", subjects.AGENTS_DISCOVERY, "Look for agents; `agents.info` of the own name."),
    ("Info", subjects.agents_info("{caller}"), "The networks of the caller's project, one message each."),
    (
        "Prompt",
        subjects.agents_prompt("{caller}", "{session}"),
        "Run a network; answered in chunks, the last empty.",
    ),
    ("Status", subjects.agents_status("{caller}", "{session}"), "Ask whether an agent is there."),
    ("Answer", subjects.agents_answer("{caller}", "{question}"), "Answer a question of a prompted run."),
    ("Beats", "agents.hb.{agent}.{owner}.{session}", "Where clients listen; nothing is said there."),
)
"""The NATS agent protocol, whose messages are its own: docs/guides/nats-agents.md."""

CHANNELS: tuple[AsyncApiChannel, ...] = (
    *(
        AsyncApiChannel(
            key=f"agents{key}", address=address, sender="client", receiver="gateway", summary=summary, messages=()
        )
        for key, address, summary in _AGENTS
    ),
    AsyncApiChannel(
        key="taskSubmitAnonymous",
        address=subjects.TASK_SUBMIT_ANONYMOUS,
        sender="any client of the embedded platform",
        receiver="orchestrator",
        summary="Submit a task as the caller `anonymous`; off outside the embedded platform.",
        messages=(tasks.SubmitTask,),
        reply=(tasks.RunAccepted,),
    ),
    *(
        AsyncApiChannel(
            key=f"task{verb.rpartition('.')[2].title()}",
            address=f"{verb}.{{caller}}",
            sender="client",
            receiver="orchestrator",
            summary=_summary(verb),
            messages=(request,),
            reply=(answer,),
        )
        for verb, (request, answer) in rpc.CLIENT_SUBJECTS.items()
    ),
    AsyncApiChannel(
        key="taskEnqueue",
        address="task.enqueue.{caller}",
        sender="client",
        receiver="orchestrator",
        summary="Fire and forget; accepted only once consumed, deduplicated by idempotency key.",
        messages=(tasks.SubmitTask,),
    ),
    AsyncApiChannel(
        key="runInbox",
        address="run.inbox.{source}.{run_id}",
        sender="decider, tool-access service, gateway, watchdog, orchestrator",
        receiver="orchestrator",
        summary="Facts: what happened outside of a run. Each source may send only its own types.",
        messages=("Fact",),
    ),
    AsyncApiChannel(
        key="runInboxAgent",
        address=subjects.agent_inbox("{pool}", "{run_id}"),
        sender="BaseAgent worker",
        receiver="orchestrator",
        summary="What agents in user code decided; each credential may answer for its own pool alone.",
        messages=("Fact",),
    ),
    AsyncApiChannel(
        key="decide",
        address="decide.{pool}",
        sender="orchestrator",
        receiver="decider or BaseAgent worker",
        summary="Ask for a decision.",
        messages=(decisions_request.DecisionRequest,),
    ),
    AsyncApiChannel(
        key="toolRequest",
        address=subjects.TOOL_REQUEST,
        sender="orchestrator",
        receiver="tool-access service",
        summary="Ask whether a call may happen, and let it happen.",
        messages=(calls.ToolRequest,),
    ),
    AsyncApiChannel(
        key="toolExec",
        address="tool.exec.{project}.{toolset}",
        sender="tool-access service",
        receiver="tool worker",
        summary="Run a permitted call; the worker believes the ticket, not the envelope.",
        messages=(calls.ToolInvocation,),
    ),
    AsyncApiChannel(
        key="toolOutcome",
        address=subjects.TOOL_OUTCOME,
        sender="tool worker",
        receiver="tool-access service",
        summary=(
            f"What came of a call; confirmed on the subject in the header `{rpc.CONFIRM_HEADER}`. "
            f"`{rpc.OUTCOME_HEADER}` is its key, a space, and its ticket."
        ),
        messages=(calls.ToolOutcome,),
        reply=(calls.OutcomeConfirmed,),
    ),
    AsyncApiChannel(
        key="toolConfirm",
        address=subjects.tool_confirm("{project}", "{toolset}", "{place}"),
        sender="tool-access service",
        receiver="tool worker",
        summary="The ledger holds these outcomes; the worker may forget them.",
        messages=(calls.OutcomeConfirmed,),
    ),
    AsyncApiChannel(
        key="toolCancel",
        address="tool.cancel.{project}.{toolset}.{execution_id}",
        sender="tool-access service",
        receiver="tool worker",
        summary="Stop a call; a hint, the outcome is still needed.",
        messages=(calls.CancelTool,),
    ),
    AsyncApiChannel(
        key="runEvent",
        address="run.event.{run_id}",
        sender="orchestrator",
        receiver="gateway, log-writer, watchdog",
        summary="The events of one transition; a hint that may be lost, the log is in Postgres.",
        messages=(log.TransitionEvents,),
    ),
    AsyncApiChannel(
        key="taskLive",
        address="task.live.{caller}.{run_id}",
        sender="orchestrator",
        receiver="client",
        summary="The events of one transition of the caller's run; a hint that may be lost: `task.events` has the log.",
        messages=(log.TransitionEvents,),
    ),
    AsyncApiChannel(
        key="runTokens",
        address="run.tokens.{run_id}",
        sender="decider",
        receiver="gateway",
        summary="Model text while it is made.",
        messages=(decisions_request.TokenDelta,),
    ),
    AsyncApiChannel(
        key="logLlmCall",
        address=subjects.LOG_LLM_CALL,
        sender="decider",
        receiver="log-writer",
        summary="A model call; bodies only in debug runs, and they may be lost.",
        messages=(decisions_request.LlmCallLog,),
    ),
    AsyncApiChannel(
        key="registerProviders",
        address=subjects.register("providers", "{limit}"),
        sender="decider",
        receiver="decider",
        summary="What all deciders know of a provider's limit; the last one holds, written by compare-and-set.",
        messages=(provider_limits.ProviderLimitState,),
    ),
    AsyncApiChannel(
        key="logTool",
        address=subjects.log_tool("{project}", "{toolset}"),
        sender="tool worker",
        receiver="log-writer",
        summary="What a tool wrote while it ran; may be lost.",
        messages=(decisions_request.ToolLog,),
    ),
    *(
        AsyncApiChannel(
            key=f"svc_{method.service}_{method.method}",
            address=method.subject,
            sender="services and command line",
            receiver=method.service,
            summary=f"{method.request.__name__} gives {method.answer.__name__} or a Problem.",
            messages=(method.request,),
            reply=(method.answer,),
        )
        for method in rpc.METHODS
    ),
    *(
        AsyncApiChannel(
            key=f"svc_{method.service}_{method.method}_of_toolset",
            address=subjects.for_toolset(method.subject, "{project}", "{toolset}"),
            sender="tool worker",
            receiver=method.service,
            summary=f"{method.request.__name__} of the credential's own toolset gives {method.answer.__name__}.",
            messages=(method.request,),
            reply=(method.answer,),
        )
        for method in rpc.TOOLSET_METHODS
    ),
    *(
        AsyncApiChannel(
            key=f"svc_{method.service}_{method.method}_of_agent",
            address=subjects.for_agent(method.subject, "{project}", "{agent}"),
            sender="BaseAgent worker",
            receiver=method.service,
            summary=f"{method.request.__name__} of the credential's own agent gives {method.answer.__name__}.",
            messages=(method.request,),
            reply=(method.answer,),
        )
        for method in rpc.AGENT_METHODS
    ),
)


@functools.cache
def asyncapi_document() -> JsonObject:
    """Return the document as plain JSON values; made once in a process."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Towpath messages",
            "version": VERSION,
            "description": (
                "Every subject of the platform. Nothing is true until it is committed in Postgres; whatever matters "
                f"and travels here can be sent again. A Problem instead of an answer carries `{rpc.PROBLEM_HEADER}`."
            ),
        },
        "defaultContentType": CONTENT_TYPE,
        "servers": {"nats": {"host": "127.0.0.1:4222", "protocol": "nats"}},
        "channels": _channels(),
        "operations": _operations(),
        "components": {"messages": _messages(), "schemas": _schemas()},
    }


def _name(message: Any) -> str:
    return message if isinstance(message, str) else str(message.__name__)


def _all_messages() -> list[Any]:
    """Return every message of every channel once, by name."""
    found = {_name(message): message for channel in CHANNELS for message in (*channel.messages, *channel.reply)}
    return [found[name] for name in sorted({*found, _name(Problem)} - {_name(Problem)})] + [Problem]


def _channels() -> JsonObject:
    channels: JsonObject = {}
    for channel in CHANNELS:
        carrier = _stream(channel.address)
        body: JsonObject = {
            "address": channel.address,
            "summary": channel.summary,
            "messages": _references(channel.messages),
            "x-from": channel.sender,
            "x-to": channel.receiver,
            "x-carrier": "core" if carrier is None else _carrier(carrier),
        }
        names = [name for name in PARAMETERS if f"{{{name}}}" in channel.address]
        if names:
            body["parameters"] = {name: {"description": PARAMETERS[name]} for name in names}
        channels[channel.key] = body
        if channel.reply:
            channels[f"{channel.key}Reply"] = {"address": None, "messages": _references((*channel.reply, Problem))}
    return channels


def _operations() -> JsonObject:
    operations: JsonObject = {}
    for channel in CHANNELS:
        here = {"$ref": f"#/channels/{channel.key}"}
        sending: JsonObject = {"action": "send", "channel": here, "summary": f"{channel.sender} → {channel.receiver}"}
        receiving: JsonObject = {"action": "receive", "channel": here}
        if channel.reply:
            reply = {"channel": {"$ref": f"#/channels/{channel.key}Reply"}}
            sending["reply"] = receiving["reply"] = reply
        operations[f"{channel.key}Send"] = sending
        operations[f"{channel.key}Receive"] = receiving
    return operations


def _references(messages: Iterable[Any]) -> JsonObject:
    return {_name(message): {"$ref": f"#/components/messages/{_name(message)}"} for message in messages}


def _messages() -> JsonObject:
    return {
        _name(message): {
            "name": _name(message),
            "contentType": CONTENT_TYPE,
            "payload": {"$ref": f"#/components/schemas/{_name(message)}"},
        }
        for message in _all_messages()
    }


def _schemas() -> JsonObject:
    adapters = [
        (_name(m), "validation", MESSAGES[m] if isinstance(m, str) else TypeAdapter(m)) for m in _all_messages()
    ]
    found, rest = TypeAdapter.json_schemas(adapters, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]  # the mode is a literal
    schemas: JsonObject = dict(rest.get("$defs", {}))
    for (name, _), schema in found.items():
        if schema.get("$ref") != f"#/components/schemas/{name}":
            schemas[str(name)] = schema
    return dict(sorted(schemas.items()))


def _stream(address: str) -> streams.StreamSpec | None:
    """Return the stream that stores *address*, or None for core NATS."""
    tokens = ["*" if token.startswith("{") else token for token in address.split(".")]
    for stream in streams.STREAMS:
        if any(covers(pattern.split("."), tokens) for pattern in stream.subjects):
            return stream
    return None


def covers(pattern: list[str], tokens: list[str]) -> bool:
    """Return whether a NATS subject pattern matches every subject of *tokens*."""
    for place, part in enumerate(pattern):
        if part == ">":
            return len(tokens) > place
        if place >= len(tokens) or part not in ("*", tokens[place]):
            return False
    return len(pattern) == len(tokens)


def _carrier(stream: streams.StreamSpec) -> JsonObject:
    return {
        "stream": stream.name,
        "retention": stream.retention,
        "discard": stream.discard,
        "maxBytes": stream.max_bytes,
    }
