"""Causes and examples of problems of requests, tasks, and shares of the platform's room."""

from towpath_contracts.problems.kind import ProblemExample

REQUEST_EXAMPLES = {
    "request_invalid": ProblemExample(
        "A field of the request, or an option of the command, is misspelt, missing or of another type. Each place "
        "is named by a JSON pointer, /body/max_steps for a field and /query/status for a parameter, or by its option.",
        "/max_stepz: there is no field 'max_stepz'; did you mean 'max_steps'? → write `max_steps: 3`",
    ),
    "request_malformed": ProblemExample(
        "The body is no JSON: a comma at the end of a list, single quotes, or a text that ends too early.",
        'a name in double quotes belongs there (line 1, column 23: the text ends behind `{"network": "support",`) → '
        '{"network": "support", "user_message": "hi"}',
    ),
    "request_too_large": ProblemExample(
        "A task, a file or another body has more bytes than one message may have: data was put into the message.",
        "user_message has 300012 bytes; the limit is 262144 → `towpath run support 'Sum up the report' --attach "
        "report.txt=report.txt`, or let a tool read it",
    ),
    "method_not_allowed": ProblemExample(
        "The path is right, and is used in another way: a run is cancelled by POST, say, and never by DELETE.",
        "/v1/runs takes GET, POST, not DELETE → `towpath api GET /v1/runs`",
    ),
    "media_type_unsupported": ProblemExample(
        "The body was sent as a form or as plain text, as curl -d does where no header is given.",
        "Content-Type is 'text/plain' → curl -H 'Content-Type: application/json' -d @task.json …",
    ),
    "origin_refused": ProblemExample(
        "A page of another site asked, or the request came under a name that is not this machine's, without a key.",
        "the Origin 'https://shop.example' is another site → set TOWPATH_AUTH=on and send a key: `towpath keys create"
        " --caller shop`",
    ),
    "answer_too_large": ProblemExample(
        "So many or so large entries were asked for at once that no message can carry them.",
        "svc.orchestrator.list_runs: 1310720 bytes are more than one message holds → `towpath runs list --limit 20`",
    ),
    "unauthenticated": ProblemExample(
        "No key was sent, or one that is unknown, revoked or past its time.",
        "this is not a key of Towpath → curl --header @.towpath/authorization …; elsewhere export TOWPATH_API_KEY=…; "
        "a new one: `towpath keys create --caller NAME`",
    ),
    "forbidden": ProblemExample(
        "The key has no scope for this: starting runs, approving calls and changing the policy are apart. Over NATS: "
        "the credential is not listed as the caller that asks.",
        "this needs the scope gates:resolve → `towpath keys create --caller NAME --role approver`",
    ),
    "not_found": ProblemExample(
        "The name or the path is misspelt, or what it names belongs to another project than the key.",
        "no tool is called orders.fnid; did you mean 'orders.find'? → `towpath tools list`",
    ),
    "protocol_missing": ProblemExample(
        "The gateway was installed without the extra that serves this protocol.",
        "/mcp needs the package mcp, which this gateway does not have → pip install 'towpath[gateway,mcp]'",
    ),
    "operation_unsupported": ProblemExample(
        "A client of another protocol asks for what that protocol knows and Towpath does in another way.",
        "A2A 0.3 is not spoken here → have the client speak A2A 1.0",
    ),
    "run_not_found": ProblemExample(
        "The id is cut in the middle, is another project's, or the run was deleted by retention.",
        "none of the newest 1000 runs has an id that begins or ends with '01a2'; the whole id, 36 characters, finds "
        "older ones too → `towpath runs list` shows the ids; a beginning or an end of one suffices",
    ),
    "run_erased": ProblemExample(
        "Two people had everything erased that was stored of the run.",
        "run 7c1e2f90-… was erased at 2026-11-20T09:00:00+00:00 → `towpath erasures list` says who asked, and why",
    ),
    "prune_under_way": ProblemExample(
        "Retention has chosen runs of the project, and the owners of their tables are not done with them.",
        "runs of shop are being pruned now → `towpath erasures list --status confirmed`, and ask again",
    ),
    "run_not_ended": ProblemExample(
        "Replies and erasures are for runs that have ended, and this one, or one below it, works or waits.",
        "run 7c1e2f90-… is waiting_for_person → `towpath runs watch 7c1e`, or `towpath runs cancel 7c1e`",
    ),
    "network_not_found": ProblemExample(
        "The network was never published in this project, or its name is misspelt.",
        "the project default has no network 'suport'; did you mean 'support'? → `towpath run support hi`; publish it "
        "first: `towpath networks publish network.yaml`",
    ),
    "version_not_found": ProblemExample(
        "A number was named that the network, or the policy, has not come to, or that retention has dropped.",
        "'support' has no version 9 → `towpath networks show support`",
    ),
    "agent_not_found": ProblemExample(
        "A task begins with, or names, an agent that its network does not have.",
        "no agent is called 'biling'; did you mean 'billing'? → `towpath run support hi --agent billing`",
    ),
    "caller_unknown": ProblemExample(
        "A program asks over NATS under the name of a caller for whom there never was a key, so nobody knows which "
        "project it acts in.",
        "no key names the caller 'crm' → `towpath keys create --caller crm --role operator`",
    ),
    "limit_exceeded": ProblemExample(
        "Something is asked for of which the server allows less: time of a run, labels, open switches, waiting "
        "erasures.",
        "a run has at most 86400000 ms of active time here → `towpath run support hi --deadline 24h`",
    ),
    "script_not_allowed": ProblemExample(
        "The task, or the fork, brings a script, and this platform has them switched off, as deployed ones have.",
        "this platform does not play scripts → leave --script out, or try the script with `towpath up` on your machine",
    ),
    "script_unplayed": ProblemExample(
        "The task brings a script and names the model of a provider, which would never look at the script.",
        "'openai:gpt-5' does not play scripts, so the script would never be asked; use scripted:NAME, or no model → "
        "`towpath run support hi --script script.json`, without --model",
    ),
    "attachment_refused": ProblemExample(
        "An attachment is no valid base64, has another type than its bytes, is too large, or a model of the network "
        "takes no such type.",
        "two attachments are called 'invoice' → `towpath run support hi --attach may=may.pdf --attach june=june.pdf`",
    ),
    "response_schema_invalid": ProblemExample(
        "The JSON Schema of the answer is none, is too large, or refers to another document.",
        "not a JSON Schema: 'strng' is not valid under any of the given schemas at $.type → `type: string`",
    ),
    "output_invalid": ProblemExample(
        "A model of pydantic has validators that its JSON Schema does not say, so the run's answer passed the schema "
        "and the model refused it.",
        "the answer of run 7c1e2f90-… is no Refund: amount: it has to be greater than 0 → amount: float = "
        "Field(gt=0), which stands in the schema",
    ),
    "model_unknown": ProblemExample(
        "The model is named without its provider, or with one that there is not. There are agent, anthropic, gemini, "
        "google, local, openai, scripted; another server that speaks OpenAI's chat completions is asked as openai:NAME "
        "or local:NAME, with its address in TOWPATH_OPENAI_BASE_URL or TOWPATH_LOCAL_URL of the decider.",
        "'gpt-5': that is not provider:model; did you mean 'openai:gpt-5'? → `model: openai:gpt-5`",
    ),
    "provider_missing": ProblemExample(
        "The decider was installed without the library of the model's provider.",
        "OpenAI needs the extra openai: uv sync --extra openai in a clone, else pip install 'towpath[openai]' → "
        "install it where the decider runs, and start it again",
    ),
    "price_unknown": ProblemExample(
        "A budget in dollars can't be held where nobody knows what a model costs: it is new, or your own server's.",
        "no price is known of local:qwen3 → `towpath run support hi --tokens 200000`, without --usd; or give it a "
        "price",
    ),
    "idempotency_conflict": ProblemExample(
        "A task was sent under a key that another task was sent under within 24 hours.",
        "key 'order-8812' belongs to run 7c1e2f90-… with another request, of 2026-11-27 10:01:03 UTC → `towpath run "
        "support 'Refund 8813' --idempotency-key order-8813`",
    ),
    "overloaded": ProblemExample(
        "More work waits than can be done soon; nothing of this request was begun.",
        "100000 runs wait already → send it again after retry_after_s; what waits: `towpath queues lag`",
    ),
    "quota_exceeded": ProblemExample(
        "The project has a quota, and as many runs under way or begun today, or as many stored bytes, as it allows.",
        "project shop has used 500 of 500 runs per day; it frees at 2026-11-28 00:00 UTC → submit it then, or "
        "raise the limit: `towpath projects quota set --runs-per-day 1000`",
    ),
    "key_share_full": ProblemExample(
        "Programs with this key have so many requests or open streams at once as one key may have.",
        "500 streams are under way here → close streams that nobody reads, or use a key for each program",
    ),
    "project_share_full": ProblemExample(
        "All keys of the project together have so many requests, streams or long readings at once as it may have.",
        "1500 requests are under way here → do less at once; raise TOWPATH_MAX_REQUESTS_PER_PROJECT",
    ),
    "keyless_share_full": ProblemExample(
        "Requests without a key, or with one that is looked up for the first time, come in a flood.",
        "64 requests without a known key are under way here → send it again after retry_after_s, with a key",
    ),
    "unavailable": ProblemExample(
        "A service, NATS or Postgres ends, starts or hangs; the detail names which.",
        "Postgres does not answer the orchestrator → `towpath doctor` says what waits for it; then the same command "
        "again, a submit under its idempotency key",
    ),
    "timeout": ProblemExample(
        "Somebody waited as long as was asked for, and the run still works or waits for a person.",
        "the run is waiting_for_person and waits for: 1 gate → `towpath gates list --run RUN`, then `towpath runs "
        "watch RUN`",
    ),
    "internal": ProblemExample(
        "A fault of the platform, not of the request; its log has what it was, with the same trace_id.",
        "GET /runs failed → `towpath up --logs` shows it; try again, and report it where it stays so",
    ),
}
"""By code."""
