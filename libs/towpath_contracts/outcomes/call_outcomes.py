"""How tool calls end: their statuses, why one is denied, refused, or failed."""

from towpath_contracts.outcomes.outcome_kind import OutcomeKind

_STATUS, _DENIAL, _REFUSAL = "status of a call", "denial of a call", "refusal of a decision"
_ERROR = "error of a call"
_MODEL = "Nothing: the model is told, and may try otherwise."
_WORKER = "Look at the worker and its log: towpath workers list."
_SERVER = "Look at the MCP server and its log: towpath mcp inspect FILE."

CALL_OUTCOMES = (
    OutcomeKind("requested", _STATUS, "It was proposed, and is not yet authorized.", "Wait."),
    OutcomeKind(
        "denied", _STATUS, "The policy, or a person, refused it; it did not run.",
        "See the rule, and what would allow it: towpath policy explain CALL.",
    ),
    OutcomeKind(
        "awaiting_approval", _STATUS, "A person is asked.",
        "Decide: towpath gates list, towpath gates approve ID.",
    ),
    OutcomeKind(
        "permitted", _STATUS, "It is allowed, and waits for a worker.",
        "See that one serves its toolset: towpath workers list.",
    ),
    OutcomeKind("started", _STATUS, "A worker runs it.", "Wait."),
    OutcomeKind("succeeded", _STATUS, "It ran and has a result.", "Nothing."),
    OutcomeKind(
        "unknown", _STATUS, "It may have happened: nobody can tell.",
        "Look at the other system, then settle its gate: towpath gates list.",
    ),
    OutcomeKind("void", _STATUS, "It was closed before it ran.", "Nothing: nothing happened."),
    OutcomeKind(
        "permission_denied", _DENIAL, "A rule denies it, or none allows it.",
        "See which: towpath policy explain CALL; `towpath policy rule put` adds one.",
    ),
    OutcomeKind(
        "operation_unknown", _DENIAL, "The tool has no such operation.",
        "List what there is: towpath tools list.",
    ),
    OutcomeKind("invalid_arguments", _DENIAL, "The arguments do not fit the tool's schema.", _MODEL),
    OutcomeKind(
        "not_granted", _DENIAL, "The rules allow it, but the task or the asking run granted less.",
        "Widen the grant of the task, or of who asked.",
    ),
    OutcomeKind(
        "approval_denied", _DENIAL, "A person said no.",
        "Read the reason: towpath gates list --status all --run RUN.",
    ),
    OutcomeKind(
        "approval_expired", _DENIAL, "Nobody answered in time.",
        "Ask again by beginning the run anew: towpath runs retry RUN; expires_s of the rule is the time.",
    ),
    OutcomeKind(
        "tool_drifted", _DENIAL, "The tool is another than the one that was registered.",
        "Look at the change: towpath tools diff; accept it: towpath tools accept.",
    ),
    OutcomeKind(
        "too_costly", _DENIAL, "Checking its arguments or conditions would take too long.",
        "Make the arguments smaller, or the rule's condition simpler.",
    ),
    OutcomeKind(
        "tool_schema_unusable", _DENIAL, "The tool's schema is one that is refused by now.",
        "Mend the schema, and start the worker again.",
    ),
    OutcomeKind(
        "poison_message", _DENIAL, "Each try to authorize it ended the service, so it is denied unseen.",
        "Report it with the trace_id, and look at the arguments.",
    ),
    OutcomeKind(
        "rules_changed", _DENIAL, "The stored rules are not those that were applied, so nothing is decided by them.",
        "Apply the policy again: towpath policy apply FILE; and look who changed the database.",
    ),
    OutcomeKind(
        "tool_not_allowed", _REFUSAL, "The agent named a tool that its network does not give it.",
        "Give it to the agent in the network (tools=, equipped_tools in YAML), or name it in the prompt as it is "
        "called.",
    ),
    OutcomeKind("arguments_invalid", _REFUSAL, "The arguments of the call do not fit the tool's schema.", _MODEL),
    OutcomeKind(
        "route_not_allowed", _REFUSAL, "The agent named another that it may not hand over to.",
        "Give the agent the route in the network (routes=, allowed_routes in YAML).",
    ),
    OutcomeKind(
        "respond_not_allowed", _REFUSAL, "The agent may not end the run.",
        "Let it respond in the network (can_respond=True, allow_respond in YAML), or give it a route to one that may.",
    ),
    OutcomeKind("response_invalid", _REFUSAL, "The answer does not fit the output schema.", _MODEL),
    OutcomeKind("decision_invalid", _REFUSAL, "The decision can't be carried out as it is.", _MODEL),
    OutcomeKind("plan_required", _REFUSAL, "A background run acted before its plan had a step.", _MODEL),
    OutcomeKind(
        "tool_exception", _ERROR, "The tool's code raised an exception.",
        "Read it, with its line: towpath runs show RUN; then mend the tool.",
    ),
    OutcomeKind(
        "tool_timeout", _ERROR, "The tool took longer than its timeout.",
        "Make it faster, or raise timeout_ms of the tool.",
    ),
    OutcomeKind(
        "secret_missing", _ERROR, "A secret that the tool names is not set where the worker runs.",
        "Set it there, and start the worker again.",
    ),
    OutcomeKind(
        "result_invalid", _ERROR, "The result does not fit the tool's own type, or is no JSON.",
        "Mend what the tool returns.",
    ),
    OutcomeKind(
        "result_too_large", _ERROR, "The result has more bytes than a result may.",
        "Return less, or write a file of the workspace.",
    ),
    OutcomeKind("result_too_deep", _ERROR, "The result is nested too deeply.", "Return a flatter one."),
    OutcomeKind(
        "result_not_stored", _ERROR, "The result could not be stored.",
        "Look at the platform: towpath doctor.",
    ),
    OutcomeKind(
        "not_started", _ERROR, "No worker began it in time.",
        "See that one serves its toolset: towpath workers list.",
    ),
    OutcomeKind(
        "outcome_unknown", _ERROR, "It began, and nobody can tell whether it happened.",
        "Look at the other system, then settle its gate: towpath gates list.",
    ),
    OutcomeKind(
        "did_not_happen", _ERROR, "A person, or the tool's probe, found that it did not happen.",
        "Nothing: the model may call it again.",
    ),
    OutcomeKind("malformed", _ERROR, "What the worker was sent can't be read.", _WORKER),
    OutcomeKind("misdirected", _ERROR, "The call was sent to a worker that does not serve it.", _WORKER),
    OutcomeKind(
        "ticket_expired", _ERROR, "The ticket of the call was too old when it was to begin.",
        "See that the clocks agree and workers keep up: towpath doctor.",
    ),
    OutcomeKind(
        "ticket_mismatch", _ERROR, "The ticket is of another call.",
        "Report it with the trace_id: nothing ran.",
    ),
    OutcomeKind(
        "content_missing", _ERROR, "A text that the call needs is not stored any more.",
        "It was erased or is past retention; begin the run anew.",
    ),
    OutcomeKind(
        "workspace_full", _ERROR, "The workspace takes no more files or bytes.",
        "Have the agent delete files, or write less.",
    ),
    OutcomeKind("workspace_unavailable", _ERROR, "The files of the run could not be fetched or stored.", _WORKER),
    OutcomeKind(
        "workspace_unreadable", _ERROR, "What the tool wrote into the workspace can't be read.",
        "Write plain files with names that a path may have.",
    ),
    OutcomeKind(
        "changes_refused", _ERROR, "The run did not take the changes of files of a tool.",
        "Read the message beside it.",
    ),
    OutcomeKind(
        "process_failed", _ERROR, "A program that the tool started ended with an error.",
        "Read what it printed: towpath runs show RUN.",
    ),
    OutcomeKind(
        "process_timeout", _ERROR, "A program that the tool started took too long.",
        "Give run_process more time, or the program less to do.",
    ),
    OutcomeKind(
        "http_host_not_allowed", _ERROR, "The tool may not reach that host.",
        "Name it in egress of the tool.",
    ),
    OutcomeKind(
        "http_address_not_allowed", _ERROR, "The host has an address that tools may not reach.",
        "Allow the network for the worker (docs/tools.md, egress).",
    ),
    OutcomeKind(
        "http_host_unknown", _ERROR, "The name of the host has no address.",
        "Correct the name, or the name server.",
    ),
    OutcomeKind(
        "http_failed", _ERROR, "The HTTP request got no answer.",
        "See that the host is reached from the worker's machine.",
    ),
    OutcomeKind("http_timeout", _ERROR, "The HTTP request took too long.", "Raise its timeout, or look at the host."),
    OutcomeKind("http_too_large", _ERROR, "The HTTP answer is larger than allowed.", "Ask for less."),
    OutcomeKind(
        "http_too_many_connections", _ERROR, "The tool has too many connections open.",
        "Close some, or open fewer at once.",
    ),
    OutcomeKind("http_too_many_redirects", _ERROR, "The host redirects on and on.", "Use the last address."),
    OutcomeKind(
        "http_redirect_with_body", _ERROR, "A request with a body was redirected; it is not sent twice.",
        "Use the address that it was redirected to.",
    ),
    OutcomeKind("http_url_invalid", _ERROR, "The address can't be read.", "Correct it: https://HOST/PATH."),
    OutcomeKind("mcp_server_down", _ERROR, "The MCP server is not connected.", _SERVER),
    OutcomeKind("mcp_server_lost", _ERROR, "The MCP server went away while it ran the call.", _SERVER),
    OutcomeKind("mcp_not_sent", _ERROR, "The call could not be sent to the MCP server; nothing ran.", _SERVER),
    OutcomeKind("mcp_error", _ERROR, "The MCP server answered with an error of the protocol.", _SERVER),
    OutcomeKind(
        "mcp_tool_error", _ERROR, "The tool of the MCP server says that it failed.",
        "Read its message; the model does too.",
    ),
    OutcomeKind(
        "mcp_result_invalid", _ERROR, "The MCP server's result can't be read, so it may have happened.",
        _SERVER,
    ),
    OutcomeKind(
        "mcp_input_required", _ERROR, "The MCP server asks for input, which no call can give.",
        "Give it with the arguments, or in the server's settings.",
    ),
    OutcomeKind("plan_full", _ERROR, "The plan has as many steps as it may.", _MODEL),
    OutcomeKind("plan_inactive", _ERROR, "The plan is over, or was given up.", _MODEL),
    OutcomeKind("plan_missing", _ERROR, "There is no plan yet.", _MODEL),
    OutcomeKind(
        "plan_reset_refused", _ERROR, "The plan may not be given up.",
        "Allow it with allow_plan_reset of the task.",
    ),
    OutcomeKind("plan_step_unknown", _ERROR, "The plan has no such step.", _MODEL),
    OutcomeKind("plan_too_large", _ERROR, "The plan is larger than a plan may be.", _MODEL),
    OutcomeKind(
        "delegation_failed", _ERROR, "What another agent was asked for failed.",
        "Look at its run: towpath runs tree RUN.",
    ),
    OutcomeKind("output_unknown", _ERROR, "There is no such stored output.", _MODEL),
    OutcomeKind("offset_unknown", _ERROR, "The stored output has no such place.", _MODEL),
    OutcomeKind("path_unknown", _ERROR, "The workspace has no such file.", _MODEL),
    OutcomeKind("path_taken", _ERROR, "The workspace has a file of that name.", _MODEL),
    OutcomeKind("path_is_file", _ERROR, "The path is a file, and a folder was meant.", _MODEL),
    OutcomeKind("line_unknown", _ERROR, "The file has no such line.", _MODEL),
    OutcomeKind("text_not_found", _ERROR, "The file has no such text.", _MODEL),
    OutcomeKind("text_not_unique", _ERROR, "The file has the text more than once.", _MODEL),
    OutcomeKind(
        "file_read_only", _ERROR, "The file is mounted to be read alone.",
        "Mount it to be written, or have another written.",
    ),
    OutcomeKind("file_too_large", _ERROR, "The file would have more bytes than a file may.", _MODEL),
)  # fmt: skip
