"""Which NATS user may publish and subscribe what: the authority table (reliability.md §4).

Law: whatever is not listed is refused by the broker. Answers to requests are allowed by the broker's
`allow_responses`, so they need no row. Every service has its own inbox prefix, so that none can read another's answers.
"""

from dataclasses import dataclass

from towpath_contracts import subjects
from towpath_contracts.base import JsonObject

RESPONSE_EXPIRES = "5m"
"""How long a request may be answered: longer than any wait a question may ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRights:
    """Allowed subjects of one user; everything else is denied."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def _inbox(role: str) -> str:
    return f"_INBOX_{role}.>"


def _pulls(*streams: str) -> tuple[str, ...]:
    next_subjects = tuple(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.>" for stream in streams)
    return next_subjects + tuple(f"$JS.ACK.{stream}.>" for stream in streams)


_DECLARES = (
    "$JS.API.INFO",
    "$JS.API.STREAM.CREATE.*",
    "$JS.API.STREAM.UPDATE.*",
    "$JS.API.STREAM.INFO.*",
    "$JS.API.CONSUMER.CREATE.>",
    "$JS.API.CONSUMER.DURABLE.CREATE.>",
    "$JS.API.CONSUMER.INFO.>",
)
"""What `streams ensure` needs; core services hold it, so that a broker that lost its data is set up again at once."""

USERS: dict[str, UserRights] = {
    "deploy": UserRights(publish=("$JS.API.>",), subscribe=(_inbox("deploy"),)),
    "orchestrator": UserRights(
        publish=(
            subjects.DECIDE_ALL,
            subjects.TOOL_REQUEST,
            subjects.RUN_EVENT_ALL,
            subjects.RUN_INBOX_ALL,  # its own queue: a dead letter goes back where it came from
            subjects.TASK_ENQUEUE_ALL,
            "svc.tas.*",
            *_pulls("INBOX", "TASKS"),
            *_DECLARES,
        ),
        subscribe=("task.>", "svc.orchestrator.*", _inbox("orchestrator")),
    ),
    "decider": UserRights(
        publish=(
            "run.inbox.decider.*",
            subjects.LOG_LLM_CALL,
            subjects.RUN_TOKENS_ALL,
            "svc.orchestrator.blob_get",
            "svc.orchestrator.dead_letter",
            *_pulls("DECIDE"),
            *_DECLARES,
        ),
        subscribe=("svc.decider.*", _inbox("decider")),
    ),
    "tas": UserRights(
        publish=(
            subjects.TOOL_EXEC_ALL,
            subjects.TOOL_OUTCOME,
            subjects.TOOL_CANCEL_ALL,
            "run.inbox.tas.*",
            "svc.orchestrator.*",
            "_INBOX_worker.>",
            *_pulls("TOOLREQ", "TOOLOUT"),
            *_DECLARES,
        ),
        subscribe=("svc.tas.*", _inbox("tas")),
    ),
    "log_writer": UserRights(
        publish=("svc.orchestrator.events_since", "svc.orchestrator.sweep_runs", *_pulls("EVENTS", "LOGS"), *_DECLARES),
        subscribe=("svc.log_writer.*", _inbox("log_writer")),
    ),
    "gateway": UserRights(
        publish=("task.>", "svc.*.*", "run.inbox.gateway.*"),
        subscribe=(subjects.RUN_EVENT_ALL, subjects.RUN_TOKENS_ALL, _inbox("gateway")),
    ),
    "worker": UserRights(
        publish=(
            subjects.TOOL_OUTCOME,
            subjects.LOG_TOOL,
            "svc.tas.claim_start",
            "svc.tas.register_tools",
            "svc.tas.blob_put",
            "svc.tas.dead_letter",
            *_pulls("TOOLEXEC"),
        ),
        subscribe=(subjects.TOOL_CANCEL_ALL, _inbox("worker")),
    ),
}
"""Users of the platform's own processes."""


def client_rights(caller: str) -> UserRights:
    """Return the rights of a NATS client that acts as *caller*; `anonymous` may also use plain `task.submit`."""
    own = tuple(f"task.{verb}.{caller}" for verb in ("submit", "enqueue", "get", "events", "cancel"))
    plain = (subjects.TASK_SUBMIT_ANONYMOUS,) if caller == subjects.ANONYMOUS else ()
    return UserRights(publish=own + plain, subscribe=("_INBOX.>", f"_INBOX_client_{caller}.>"))


def broker_permissions(rights: UserRights) -> JsonObject:
    """Return *rights* as nats-server's `permissions`; what is listed nowhere is denied.

    A request may be answered once, however late, without a right to publish to its sender's inbox.
    """
    sides = (("publish", rights.publish), ("subscribe", rights.subscribe))
    allowed = {side: {"allow": list(words)} if words else {"deny": [">"]} for side, words in sides}
    return {**allowed, "allow_responses": {"max": 1, "expires": RESPONSE_EXPIRES}}
