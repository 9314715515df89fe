"""The problem registry: every refusal has a stable code, a title, a status and a remedy (RFC 9457).

A code is never reused or renamed. Bad input is refused whole, with every problem listed in `errors`.
"""

from typing import Any
from uuid import UUID

from pydantic import Field

from towpath_contracts.base import JsonObject, Message, MessagePart
from towpath_contracts.problems.audit_problems import AUDIT_PROBLEMS
from towpath_contracts.problems.gate_problems import GATE_PROBLEMS
from towpath_contracts.problems.kind import ProblemKind
from towpath_contracts.problems.known_names import with_names
from towpath_contracts.problems.network_problems import NETWORK_PROBLEMS
from towpath_contracts.problems.policy_problems import POLICY_PROBLEMS
from towpath_contracts.problems.process_problems import PROCESS_PROBLEMS
from towpath_contracts.problems.run_control_problems import RUN_CONTROL_PROBLEMS


class ProblemDetail(MessagePart):
    """One of several problems; `pointer` is a JSON pointer into the input."""

    pointer: str = ""
    code: str = ""
    detail: str


class Problem(Message):
    """application/problem+json (RFC 9457) with Towpath's members."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    remedy: str
    retryable: bool = False
    retry_after_s: int | None = None
    instance: str | None = None
    run_id: str | None = None
    trace_id: str | None = None
    errors: tuple[ProblemDetail, ...] = ()
    extra: JsonObject = Field(default_factory=dict)

    def of_run(self, run_id: UUID) -> "Problem":
        """Return the problem as that of a run, which its remedy then names."""
        told = with_names(self.remedy, {"run_id": run_id})
        return self.model_copy(update={"run_id": str(run_id), "remedy": told})


class ProblemError(Exception):
    """Carries a Problem to the edge that answers."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.code}: {problem.detail}")
        self.problem = problem


def _registry(*kinds: ProblemKind) -> dict[str, ProblemKind]:
    return {kind.code: kind for kind in kinds}


REGISTRY: dict[str, ProblemKind] = _registry(
    ProblemKind(
        "request_invalid", 422, "The request is not valid", "Correct each place that is named, and send it again."
    ),
    ProblemKind("request_malformed", 400, "The request can't be read", "Send one JSON object in UTF-8."),
    ProblemKind("request_too_large", 413, "The request is too large", "Send less; large inputs belong in a tool."),
    ProblemKind("method_not_allowed", 405, "This address takes another method", "Use a method named in Allow."),
    ProblemKind(
        "media_type_unsupported",
        415,
        "The body has another form",
        "Send a JSON object in UTF-8, with the header Content-Type: application/json.",
    ),
    ProblemKind(
        "origin_refused",
        403,
        "Requests from there are not taken",
        "Without keys only programs on this machine are served; set TOWPATH_AUTH=on and use a key.",
    ),
    ProblemKind("answer_too_large", 422, "The answer is too large", "Ask for less at once: lower the limit."),
    ProblemKind("unauthenticated", 401, "No valid credential", "Send a key: Authorization: Bearer KEY."),
    ProblemKind("forbidden", 403, "The credential lacks the scope", "Use a key with the scope named in detail."),
    ProblemKind("not_found", 404, "There is no such thing here", "Check the id, and that the key is of its project."),
    ProblemKind("protocol_missing", 501, "This protocol is not installed here", "Install the extra of the gateway."),
    ProblemKind("operation_unsupported", 501, "This operation is not served here", "Do what detail names instead."),
    ProblemKind("run_not_found", 404, "There is no such run", "List runs: towpath runs list."),
    ProblemKind(
        "run_erased",
        410,
        "The run was erased",
        "Nothing brings it back. Who asked for it and why: towpath erasures list, towpath audit search.",
    ),
    ProblemKind(
        "prune_under_way",
        409,
        "Old runs of the project are being pruned",
        "Wait until they are gone, and ask again: towpath erasures list --status confirmed.",
    ),
    ProblemKind(
        "run_not_ended",
        409,
        "The run, or one of its tree, has not ended",
        "Wait for its end, or stop it: towpath runs cancel RUN.",
    ),
    ProblemKind("network_not_found", 404, "There is no such network", "List networks: towpath networks list."),
    ProblemKind(
        "version_not_found",
        404,
        "There is no such version",
        "List versions: towpath networks show NETWORK, towpath policy versions.",
    ),
    ProblemKind(
        "agent_not_found",
        422,
        "The network has no such agent",
        "Name an agent that the network has.",
    ),
    ProblemKind(
        "caller_unknown", 403, "The caller is not known", "Create a key for it: towpath keys create --caller NAME."
    ),
    ProblemKind("limit_exceeded", 422, "A limit is above the server's cap", "Lower the value to the cap in detail."),
    ProblemKind(
        "script_not_allowed",
        403,
        "Scripts are switched off here",
        "Use a real model, or the embedded platform; for a trial: TOWPATH_ALLOW_SCRIPTS=1 of orchestrator and decider.",
    ),
    ProblemKind(
        "script_unplayed",
        422,
        "The task's model does not play its script",
        "Give the script without a model, or with one of scripted:NAME; for a real model leave the script out.",
    ),
    ProblemKind(
        "attachment_refused",
        422,
        "An attachment can't be shown to the models of the task",
        "Attach texts, or images and PDFs that every model of the network takes, or name another model: --model.",
    ),
    ProblemKind(
        "response_schema_invalid",
        422,
        "An answer's JSON Schema can't be used",
        "Mend the schema: JSON Schema 2020-12, at most 64 KiB, 64 levels deep, references inside itself alone.",
    ),
    ProblemKind(
        "output_invalid",
        422,
        "The answer is not what its model takes",
        "Say in the JSON Schema what the validators ask for, so that the run can mend its answer.",
    ),
    ProblemKind(
        "model_unknown",
        422,
        "There is no such model",
        "Correct the model: provider:NAME, such as openai:gpt-5-mini.",
    ),
    ProblemKind(
        "provider_missing",
        503,
        "The library of the model's provider is not installed",
        "Install the extra named in detail: uv sync --extra openai in a clone, else pip install 'towpath[openai]'.",
    ),
    ProblemKind(
        "price_unknown",
        422,
        "The budget limits money, and a model has no price",
        "Give the model a price in the file of TOWPATH_MODEL_PRICES_FILE (its form: towpath schema model-prices), "
        "choose another model, or limit tokens instead.",
    ),
    ProblemKind(
        "idempotency_conflict",
        409,
        "The idempotency key was used for another request",
        "Use a new key, or fetch the first run.",
    ),
    ProblemKind(
        "overloaded", 429, "Too many runs wait already", "Try again after retry_after_s seconds.", retryable=True
    ),
    ProblemKind(
        "quota_exceeded",
        429,
        "The project has used its quota",
        "Submit it again after retry_after_s seconds, or have an operator raise the limit: towpath projects quota set.",
        retryable=True,
    ),
    ProblemKind(
        "key_share_full",
        429,
        "The key has as much under way as one key may",
        "Try again after retry_after_s seconds, and do less at once. TOWPATH_MAX_REQUESTS_PER_KEY and "
        "TOWPATH_MAX_STREAMS_PER_KEY bound it.",
        retryable=True,
    ),
    ProblemKind(
        "project_share_full",
        429,
        "The project has as much under way as one project may",
        "Try again after retry_after_s seconds, and do less at once. TOWPATH_MAX_REQUESTS_PER_PROJECT and "
        "TOWPATH_MAX_STREAMS_PER_PROJECT bound it.",
        retryable=True,
    ),
    ProblemKind(
        "keyless_share_full",
        429,
        "Too many requests without a known key are under way",
        "Try again after retry_after_s seconds: keys that were used here a moment ago are not held up.",
        retryable=True,
    ),
    ProblemKind(
        "unavailable",
        503,
        "A part of the platform can't be reached",
        "Try again, a submit under the same idempotency key: it may have been accepted. Accepted runs are safe. "
        "Which part is away: towpath doctor.",
        retryable=True,
    ),
    ProblemKind("timeout", 408, "The run did not end in time", "It goes on: fetch it by run_id.", retryable=True),
    ProblemKind(
        "internal", 500, "Something failed that should not", "Report it with the trace_id; accepted runs are safe."
    ),
    *NETWORK_PROBLEMS,
    *POLICY_PROBLEMS,
    ProblemKind(
        "mcp_invalid", 422, "The MCP servers can't be served", "Correct each place that is named, and start it again."
    ),
    ProblemKind(
        "evaluation_invalid", 422, "The evaluation can't be run", "Correct each place that is named, and run it again."
    ),
    ProblemKind(
        "project_invalid", 422, "The project can't be started", "Correct each place that is named, and start it again."
    ),
    ProblemKind(
        "files_exist",
        409,
        "Files are in the way; nothing was written",
        "Choose an empty folder or another name, or move these files away.",
    ),
    ProblemKind(
        "gate_not_found",
        404,
        "There is no such gate",
        "List gates, settled ones too: towpath gates list --status all.",
    ),
    ProblemKind(
        "gate_settled", 409, "The gate is already settled", "Nothing is left to do: towpath gates list --status all."
    ),
    *AUDIT_PROBLEMS,
    ProblemKind("fence_raised", 409, "The run was stopped", "Nothing of it can start any more; start a new run."),
    ProblemKind("not_a_goal", 409, "The run pursues no goal", "See GET /v1/runs/{run_id}, or submit one with a goal."),
    ProblemKind(
        "not_a_plan",
        409,
        "The run carries out no plan",
        "Look at it with GET /v1/runs/{run_id}, or submit a task with a plan.",
    ),
    ProblemKind(
        "plan_tools_missing",
        422,
        "The agent has no tools to plan with",
        "Equip the agent that begins with the plan tools: plan_setup, plan_mark_step, …",
    ),
    ProblemKind(
        "plan_invalid",
        422,
        "The plan can't be carried out",
        "Mend every fault that is named; each says where it stands in the plan.",
    ),
    ProblemKind(
        "deliverable_schema_invalid",
        422,
        "The deliverable's JSON Schema can't be used",
        "Mend the schema: at most 64 levels deep, references inside itself alone.",
    ),
    ProblemKind(
        "schema_too_deep",
        422,
        "A tool's JSON Schema is nested too deeply",
        "Move inner schemas into $defs and refer to them: at most 64 levels of objects and lists.",
    ),
    ProblemKind(
        "project_tools_full", 422, "The project has too many tools", "Withdraw or refuse some: towpath tools withdraw."
    ),
    ProblemKind(
        "schema_too_costly",
        422,
        "A tool's JSON Schema could ask for endless work",
        "Refer inside the schema alone, once for a value to what refers to itself; have at most 5,000 sub-schemas.",
    ),
    ProblemKind(
        "mount_refused", 422, "The folder can't be mounted", "Mount another folder, or leave files out by globs."
    ),
    ProblemKind(
        "tool_reserved", 422, "The name belongs to a tool of the platform", "Give your tool another name and toolset."
    ),
    ProblemKind(
        "path_invalid", 422, "A path can't be one of the workspace", "Use relative ASCII paths, without . and .."
    ),
    ProblemKind(
        "file_not_found", 404, "The workspace has no such file", "List the workspace: towpath workspace ls RUN."
    ),
    ProblemKind(
        "criterion_invalid",
        422,
        "An acceptance criterion can't be evaluated",
        "Correct the expression at the place in detail.",
    ),
    *GATE_PROBLEMS,
    *RUN_CONTROL_PROBLEMS,
    ProblemKind("run_finished", 409, "The run has already ended", "Nothing is left to stop."),
    ProblemKind(
        "run_unreadable",
        409,
        "The run's log can't be read",
        "Start a version that can (towpath runs replay RUN says), then requeue its letters: towpath queues dead list.",
    ),
    ProblemKind(
        "fork_refused", 409, "The run can't be forked from there", "Name another step, or wait until this one is over."
    ),
    ProblemKind(
        "run_continued",
        409,
        "The run was continued already",
        "Reply to the last run of its thread: towpath runs list --thread THREAD. To go another way, fork a run.",
    ),
    ProblemKind(
        "reply_refused",
        409,
        "Nobody can reply to that run",
        "Reply to a run that a caller submitted, on its network; or submit a task with messages.",
    ),
    ProblemKind(
        "dead_letter_settled", 409, "The dead letter is settled", "Nothing is left to do: towpath queues dead list."
    ),
    ProblemKind("key_not_found", 404, "There is no such key", "List keys: towpath keys list."),
    ProblemKind(
        "caller_taken", 409, "The caller belongs to another project", "Choose another name: a caller has one project."
    ),
    ProblemKind("tool_call_not_found", 404, "The run has no such tool call", "List them: towpath runs show RUN."),
    ProblemKind("range_invalid", 416, "The output has no such bytes", "Ask for bytes below the size that is named."),
    ProblemKind("run_failed", 0, "The run has ended without an answer", "Look at it: towpath runs show RUN."),
    ProblemKind("answer_missing", 422, "The run has ended without an answer", "Look at it: towpath runs show RUN."),
    ProblemKind(
        "answer_replaced",
        409,
        "The answer is another one than was sent",
        "Read the one that counts: GET /v1/runs/RUN.",
    ),
    *PROCESS_PROBLEMS,
)
"""Every code the platform can answer with. Status 0 marks problems of the command line, which have no HTTP status."""

RETRYABLE_CODES = frozenset(kind.code for kind in REGISTRY.values() if kind.retryable)
"""Codes that say nothing of the request itself: the same request may be accepted later."""

TYPE_PREFIX = "urn:towpath:problem:"


def problem(code: str, detail: str, **more: Any) -> Problem:
    """Build the problem *code* of the registry with *detail* and any of Problem's other members.

    *known* names what the remedy speaks of, by field: `known={"gate_id": …}`. The run that is named is known.
    """
    kind = REGISTRY[code]
    known = {"run_id": more.get("run_id")} | more.pop("known", {})
    return Problem(
        type=TYPE_PREFIX + code,
        title=kind.title,
        status=kind.status or 500,
        code=code,
        detail=detail,
        remedy=with_names(more.pop("remedy", kind.remedy), known),
        retryable=kind.retryable,
        **more,
    )
