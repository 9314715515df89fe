"""Which NATS user may publish and subscribe what, and in which account it is: the authority table.

Whatever is not listed is refused by the broker. An account is a broker of its own; what crosses is listed here and
nowhere else (`towpath_contracts.broker_accounts`). The core services share one, the gateway has one, each credential of
a worker, an agent or a client has one of its own, so that no trick with replies reaches what it may not say itself.
Every user has its own inbox prefix, so that none can read another's answers.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from towpath_contracts import rpc, streams, subjects
from towpath_contracts.base import JsonObject

CORE = "CORE"
"""The account of the services that are trusted with every run, and of the streams."""

EDGE = "EDGE"
"""The gateway's account."""

ANY = "*"
"""Every project, every toolset: for what people start by hand on their own machine."""

STREAM_EXPIRES = "1h"
"""How long an agent's answer may take in all; the gateway ends it before."""

MAX_REPLIES = 7
"""How often a request may be answered: a slow service is sent it again, at most three times, on one reply subject, and
nats-server counts each of these as it counts an answer. With 1, what came twice could not be answered at all."""

RESPONSE_EXPIRES = "5m"
"""How long a request may be answered: longer than any wait a question may ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsUserRights:
    """Allowed subjects of one user; everything else is denied. One that *answers* may reply to what it is asked."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    account: str = CORE
    answers: bool = False
    streams: tuple[str, ...] = ()
    """What it hears from accounts of clients and answers with many messages: the gateway's, as agents."""
    prompts: tuple[tuple[str, str], ...] = ()
    """What it asks of agents: the subject in its own account, and the one that the gateway hears."""


def _inbox(role: str) -> str:
    return f"_INBOX_{role}.>"


def _pulls(*consumers: tuple[str, str]) -> tuple[str, ...]:
    """What pulling *consumers* (stream, durable) takes. Acknowledgements have two forms, by version of the broker.

    The second form begins with the broker's domain, `_` where it has none. A wildcard there would also be the stream of
    the first form: whoever may say `$JS.ACK.*.*.…` acknowledges and pulls messages of every consumer.
    """
    asked = tuple(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}" for stream, durable in consumers)
    first = tuple(f"$JS.ACK.{stream}.{durable}.>" for stream, durable in consumers)
    return asked + first + tuple(f"$JS.ACK._.*.{stream}.{durable}.>" for stream, durable in consumers)


def _one(spec: streams.ConsumerSpec) -> tuple[str, str]:
    return spec.stream, spec.durable


def _own(stream: str) -> tuple[tuple[str, str], ...]:
    return tuple((one.stream, one.durable) for one in streams.CONSUMERS if one.stream == stream)


def _asks(*methods: rpc.RpcMethod) -> tuple[str, ...]:
    return tuple(method.subject for method in methods)


_DECLARES = (
    "$JS.API.INFO",
    "$JS.API.STREAM.CREATE.*",
    "$JS.API.STREAM.UPDATE.*",  # of the version before this one, which may still run beside it
    "$JS.API.STREAM.INFO.*",
    "$JS.API.CONSUMER.CREATE.>",
    "$JS.API.CONSUMER.DURABLE.CREATE.>",
    "$JS.API.CONSUMER.INFO.>",
)
"""What creates streams and consumers: core services hold it, so that a broker that lost its data is set up again at
once."""

NOT_FOR_PEOPLE: frozenset[rpc.RpcMethod] = frozenset(
    {
        *(rpc.CLAIM_START, rpc.RAISE_FENCE, rpc.SETTLE_CALL, rpc.REGISTER_TOOLS, rpc.BLOB_PUT, rpc.RECORD_ACTION),
        *(rpc.DEAD_LETTER_CALLS, rpc.DEAD_LETTER_RUNS, rpc.REPUBLISH, rpc.EVENTS_SINCE, rpc.SWEEP_RUNS),
        *(rpc.WAKE_PAUSED, rpc.COUNT_USED_TOOLS, rpc.RECORD_OUTCOME, rpc.BLOB_GET_CALLS, rpc.IDLE_RUNS),
        rpc.WORKER_BEAT,
    }
)
"""Methods that services ask each other; the gateway may ask every other one."""


def worker_rights(name: str, project: str = ANY, toolsets: Iterable[str] = (ANY,)) -> NatsUserRights:
    """Return the rights of the worker credential *name*: to serve *toolsets* of *project*, and nothing else.

    Raises ValueError where one of the two is ANY and the other is not: a consumer's name can't be given in part.
    """
    places = [(project, toolset) for toolset in toolsets]
    if any((project == ANY) != (toolset == ANY) for _, toolset in places):
        msg = "a worker credential is for named toolsets of one project, or for all of all"
        raise ValueError(msg)
    durables = [ANY if project == ANY else streams.exec_consumer(*place).durable for place in places]
    return NatsUserRights(
        account=f"TOOLS_{name}",
        publish=(
            subjects.TOOL_OUTCOME,
            *_asks(rpc.CLAIM_START, rpc.BLOB_PUT, rpc.BLOB_GET_CALLS),
            *(subjects.for_toolset(subject, *place) for subject in _asks(*rpc.TOOLSET_METHODS) for place in places),
            *(subjects.log_tool(*place) for place in places),
            *_pulls(*(("TOOLEXEC", durable) for durable in durables)),
        ),
        subscribe=(
            *(subjects.tool_cancel_of(*place) for place in places),
            *(subjects.tool_confirm(*place, "*") for place in places),
            _inbox("worker"),
        ),
    )


def agent_rights(user: str, project: str = ANY, name: str = ANY) -> NatsUserRights:
    """Return the rights of the credential *user*: to answer for the agent *name* of *project*, and nothing else.

    With ANY it answers for every agent, and could take requests of deciders from them (never answer one): for what
    people start by hand on their own machine. Raises ValueError where one of the two is ANY and the other is not.
    """
    if (project == ANY) != (name == ANY):
        msg = "an agent's credential is for one agent of one project, or for all of all"
        raise ValueError(msg)
    pool = ANY if name == ANY else subjects.agent_pool(project, name)
    durable = ANY if name == ANY else streams.agent_consumer(project, name).durable
    return NatsUserRights(
        account=f"AGENTS_{user}",
        publish=(
            subjects.agent_inbox(pool, ANY),
            *(subjects.for_agent(subject, project, name) for subject in _asks(*rpc.AGENT_METHODS)),
            *_pulls(("DECIDE", durable)),
        ),
        subscribe=(_inbox("agent"),),
    )


CLIENT_VERBS = ("submit", "enqueue", "get", "events", "cancel", "note", "gate", "confidence")
"""What a client of the broker may do, each in its own name: over HTTP `runs:write` and `runs:read`."""

OPERATOR_VERBS = ("pause", "resume")
"""What one may do who also operates runs: over HTTP `runs:operate`."""


def client_rights(caller: str, *, operates: bool = False) -> NatsUserRights:
    """Return the rights of a NATS client that acts as *caller*; one that *operates* runs may pause and resume them.

    `anonymous` may also use plain `task.submit`, and pause and resume: its runs are the only ones that it sees.
    It hears no events as they come: one subscription would be to the runs of everybody without a credential.
    """
    verbs = CLIENT_VERBS + OPERATOR_VERBS if operates or caller == subjects.ANONYMOUS else CLIENT_VERBS
    own = tuple(f"task.{verb}.{caller}" for verb in verbs)
    plain = (subjects.TASK_SUBMIT_ANONYMOUS,) if caller == subjects.ANONYMOUS else ()
    live = () if caller == subjects.ANONYMOUS else (subjects.task_live_of(caller), subjects.AGENTS_BEATS_ALL)
    return NatsUserRights(
        account=f"CLIENT_{caller}",
        publish=own + plain,
        subscribe=(*live, "_INBOX.>", f"_INBOX_client_{caller}.>"),
        prompts=() if caller == subjects.ANONYMOUS else _prompts(caller),
    )


def _prompts(caller: str) -> tuple[tuple[str, str], ...]:
    own = (subjects.agents_prompt, subjects.agents_status, subjects.agents_answer)
    same = ((heard, heard) for heard in (subject(caller, ANY) for subject in own))
    return ((subjects.AGENTS_DISCOVERY, subjects.agents_info(caller)), *same)


SERVICES: dict[str, NatsUserRights] = {
    "deploy": NatsUserRights(publish=("$JS.API.>",), subscribe=(_inbox("deploy"),)),
    "orchestrator": NatsUserRights(
        publish=(
            subjects.DECIDE_ALL,
            subjects.TOOL_REQUEST,
            subjects.RUN_EVENT_ALL,
            subjects.TASK_LIVE_ALL,
            subjects.RUN_INBOX_ALL,  # its own queue: a dead letter goes back where it came from
            subjects.TASK_ENQUEUE_ALL,
            *_asks(rpc.RAISE_FENCE, rpc.SETTLE_CALL, rpc.DESCRIBE_TOOLS, rpc.CHECK_GRANT),
            *_asks(rpc.REPUBLISH, rpc.RECORD_ACTION, rpc.RECORD_OUTCOME, rpc.COUNT_USED_TOOLS),
            *_pulls(*_own("INBOX"), *_own("TASKS")),
            "$JS.API.STREAM.PURGE.EVENTS",  # of runs that are erased; it could set the stream's age to nothing anyhow
            *_DECLARES,
        ),
        subscribe=(
            *(subjects.TASK_SUBMIT_ANONYMOUS, subjects.TASK_SUBMIT_ALL, subjects.TASK_GET_ALL),
            *(subjects.TASK_EVENTS_ALL, subjects.TASK_CANCEL_ALL, subjects.TASK_PAUSE_ALL, subjects.TASK_RESUME_ALL),
            *(subjects.TASK_NOTE_ALL, subjects.TASK_GATE_ALL, subjects.TASK_CONFIDENCE_ALL),
            *(subjects.for_agent(one.subject, ANY, ANY) for one in rpc.AGENT_METHODS),
            *("svc.orchestrator.*", _inbox("orchestrator")),
        ),
        answers=True,
    ),
    "decider": NatsUserRights(
        publish=(
            "run.inbox.decider.*",
            subjects.LOG_LLM_CALL,
            subjects.RUN_TOKENS_ALL,
            subjects.register("providers", ANY),
            f"$JS.API.DIRECT.GET.REGISTERS.{subjects.register('providers', ANY)}",
            *_asks(rpc.BLOB_GET_RUNS, rpc.DEAD_LETTER_RUNS),
            *_pulls(("DECIDE", "*")),
            *_DECLARES,
        ),
        subscribe=("svc.decider.*", _inbox("decider")),
        answers=True,
    ),
    "tas": NatsUserRights(
        publish=(
            subjects.TOOL_EXEC_ALL,
            subjects.TOOL_OUTCOME,  # its own queue: a dead letter goes back where it came from
            subjects.TOOL_CANCEL_ALL,
            subjects.TOOL_CONFIRM_ALL,
            "run.inbox.tas.*",
            *_asks(rpc.WAKE_PAUSED),
            "$JS.API.STREAM.MSG.GET.TOOLEXEC",  # what it sent itself: how old the first of a queue is
            *_pulls(*_own("TOOLREQ"), *_own("TOOLOUT")),
            *_DECLARES,
        ),
        subscribe=(
            "svc.tas.*",
            *(subjects.for_toolset(one.subject, ANY, ANY) for one in rpc.TOOLSET_METHODS),
            _inbox("tas"),
        ),
        answers=True,
    ),
    "log_writer": NatsUserRights(
        publish=(
            *_asks(rpc.EVENTS_SINCE, rpc.SWEEP_RUNS),
            *_pulls(_one(streams.EVENTS_CONSUMER), *_own("LOGS")),
            *_DECLARES,
        ),
        subscribe=("svc.log_writer.*", _inbox("log_writer")),
        answers=True,
    ),
    "watchdog": NatsUserRights(
        publish=(
            "run.inbox.watchdog.*",
            *_asks(rpc.EVENTS_SINCE, rpc.SWEEP_RUNS, rpc.IDLE_RUNS),
            *_pulls(_one(streams.WATCHDOG_CONSUMER)),
            *_DECLARES,
        ),
        subscribe=(_inbox("watchdog"),),
    ),
    "gateway": NatsUserRights(
        account=EDGE,
        publish=(
            subjects.TASK_SUBMIT_ALL,
            *(method.subject for method in rpc.METHODS if method not in NOT_FOR_PEOPLE),
        ),
        subscribe=(subjects.RUN_EVENT_ALL, subjects.RUN_TOKENS_ALL, _inbox("gateway")),
        streams=(
            *(subjects.AGENTS_INFO_ALL, subjects.AGENTS_PROMPT_ALL, subjects.AGENTS_STATUS_ALL),
            subjects.AGENTS_ANSWER_ALL,
        ),
    ),
}
"""Users of the platform's own services."""

USERS: dict[str, NatsUserRights] = {**SERVICES, "worker": worker_rights("worker"), "agent": agent_rights("agent")}
"""The users of a platform on one machine: its services, and whatever worker or agent is started by hand beside it."""


def broker_permissions(rights: NatsUserRights) -> JsonObject:
    """Return *rights* as nats-server's `permissions`; what is listed nowhere is denied.

    Who answers may do so once to each try of a request, however late, without a right to publish to its sender's
    inbox; who answers with streams, as often as it likes.
    """
    asked = tuple(local for local, _ in rights.prompts)
    sides = (("publish", rights.publish + asked), ("subscribe", rights.subscribe + rights.streams))
    allowed: JsonObject = {side: {"allow": list(words)} if words else {"deny": [">"]} for side, words in sides}
    if rights.answers:
        allowed["allow_responses"] = {"max": MAX_REPLIES, "expires": RESPONSE_EXPIRES}
    if rights.streams:
        allowed["allow_responses"] = {"max": -1, "expires": STREAM_EXPIRES}
    return allowed
