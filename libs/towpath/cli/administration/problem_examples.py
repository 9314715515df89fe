"""How the problems come about that people meet most, each with an example: what leads there, and what mends it."""

from typing import NamedTuple


class ProblemExample(NamedTuple):
    """The usual cause of a problem, and an example of it with its cure."""

    cause: str
    example: str


EXAMPLES = {
    "request_invalid": ProblemExample(
        "A field of the request, or an option of the command, is misspelt, missing or of another type.",
        "`max_stepz: 3` is no field; write `max_steps: 3`. A duration is written 30s, 500ms or 5m.",
    ),
    "request_malformed": ProblemExample(
        "The body is no JSON: a comma at the end of a list, single quotes, or two documents.",
        """`{"network": "support",` ends too early; write `{"network": "support", "user_message": "hi"}`.""",
    ),
    "network_invalid": ProblemExample(
        "A key of the file is unknown, no agent is the default one or may respond, or a tool or a route leads nowhere.",
        "`equipped_tool: [orders.find]` → `equipped_tools: [orders.find]`; try it: towpath networks validate FILE",
    ),
    "network_not_found": ProblemExample(
        "The network was never published in this project, or its name is misspelt.",
        "towpath run suport hi → towpath run support hi; publish it first: towpath networks publish network.yaml",
    ),
    "policy_invalid": ProblemExample(
        "A key of a rule is unknown, an effect is none, or a condition can't be read; nothing of the file is in force.",
        "`when: args.amount = 5` → `when: args.amount == 5`; towpath policy apply says it without changing anything",
    ),
    "model_unknown": ProblemExample(
        "The model is named without its provider, or with one that there is not.",
        "`model: gpt-5` → `model: openai:gpt-5`",
    ),
    "unauthenticated": ProblemExample(
        "No key was sent, or one that is unknown, revoked or past its time.",
        "curl --header @.towpath/authorization …; elsewhere: export TOWPATH_API_KEY=…; a new one: towpath keys create",
    ),
    "forbidden": ProblemExample(
        "The key has no scope or role for this: starting runs, approving calls and changing the policy are apart.",
        "towpath gates approve ID with a key for runs → ask who administers keys for the role approver",
    ),
    "run_not_found": ProblemExample(
        "The id is cut in the middle, or the run is another project's or was erased.",
        "towpath runs show 01a2… → towpath runs list shows the ids; a beginning or an end of one suffices",
    ),
    "gate_not_found": ProblemExample(
        "Somebody has decided already, the gate has expired, or the id is another's.",
        "towpath gates list → towpath gates approve ID; what was decided: towpath gates list --status all",
    ),
    "idempotency_conflict": ProblemExample(
        "A task was sent under a key that another task was sent under within 24 hours.",
        "towpath run support 'Refund 8813' --idempotency-key order-8812 → --idempotency-key order-8813",
    ),
    "limit_exceeded": ProblemExample(
        "A task asks for more steps, time or attempts than the server allows any task.",
        "towpath run support hi --max-steps 100000 → --max-steps 1000",
    ),
    "overloaded": ProblemExample(
        "More work waits than can be done soon; nothing of this request was begun.",
        "Wait for the seconds of retry_after_s and send it again; what waits: towpath queues lag",
    ),
    "unavailable": ProblemExample(
        "A service, NATS or Postgres ends, starts or hangs; the detail names which.",
        "towpath doctor says what does not answer; then the same command again, a submit under its idempotency key",
    ),
    "server_unreachable": ProblemExample(
        "No platform runs at the address: it was not started, in another folder, or at another port.",
        "towpath up, in another terminal; or towpath runs list --server http://127.0.0.1:8787",
    ),
    "port_busy": ProblemExample(
        "Another program, or another platform, listens at the port.",
        "towpath up --port auto; the detail names the process that has the port",
    ),
    "already_up": ProblemExample(
        "A platform runs on this folder, in another terminal or in the background.",
        "Use it: towpath runs list; or a second one beside it: towpath up --ephemeral --port auto",
    ),
    "broker_denied": ProblemExample(
        "A worker or an agent has no credential, a wrong one, or one for other toolsets.",
        "Start it in the folder of towpath up; elsewhere give it one: towpath workers credential add crm --toolset crm",
    ),
}
