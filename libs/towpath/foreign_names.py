"""Names that other frameworks have and that people bring along, and what is written here in their place.

Letter by letter nothing here is near them, so a suggestion of the nearest name would send people the wrong way.
"""

AGENT_OPTIONS = {
    "name": "its name is key=, or the first argument",
    "instructions": "its instructions are prompt=",
    "system_prompt": "its instructions are prompt=",
    "handoffs": "the agents that it hands over to are routes=",
    "output_type": "the form of its answer is output=, or run.sync(…, output_type=…)",
    "response_format": "the form of its answer is output=, or run.sync(…, output_type=…)",
    "deps_type": "what a tool knows and the model must not say are a tool's SystemParameter(), given by run.sync(…, "
    "system_params={…})",
    "model_settings": "settings of the model are settings=",
    "temperature": 'it is a setting of the model: settings={"temperature": 0}',
    "top_p": 'it is a setting of the model: settings={"top_p": 0.9}',
    "seed": 'it is a setting of the model: settings={"seed": 1}',
    "stop": 'it is a setting of the model: settings={"stop": ["END"]}',
    "reasoning_effort": 'it is a setting of the model: settings={"reasoning_effort": "low"}',
    "max_tokens": 'it is a setting of the model: settings={"max_output_tokens": 1000}',
    "max_output_tokens": 'it is a setting of the model: settings={"max_output_tokens": 1000}',
    "max_turns": "how many steps a run has is max_steps=, of the run or of its Network",
}
"""Of `Agent`."""

_STEPS = "how many steps a run has is max_steps="
_BEGINS = "the agent that begins says so itself: Agent(…, default=True)"
_PROMPT = "instructions are those of an agent: Agent(…, prompt=…)"
_ASKED = "how a model is asked is said by each agent: Agent(…, settings={…})"

NETWORK_OPTIONS = {
    **dict.fromkeys(("max_turns", "max_iter", "max_iterations", "max_rounds", "recursion_limit"), _STEPS),
    **dict.fromkeys(("timeout", "timeout_s", "deadline"), "how long a run may take is timeout_ms="),
    **dict.fromkeys(
        ("default", "entry", "entry_point", "entrypoint", "start", "start_agent", "initial_agent"), _BEGINS
    ),
    **dict.fromkeys(("prompt", "instructions", "system_prompt"), _PROMPT),
    **dict.fromkeys(("settings", "model_settings", "temperature", "max_tokens"), _ASKED),
    **dict.fromkeys(("nodes", "members"), "its agents are agents=, or the second argument"),
    **dict.fromkeys(("llm", "model_name", "model_id"), "its model is model="),
    **dict.fromkeys(("fallback", "fallbacks"), "the models that are asked next are fallback_models="),
    "tools": "tools are those of an agent: Agent(…, tools=[…])",
    "budget": "what a run may spend is said by the task, run(…, budget=Budget(…)), or by each agent",
}
"""Of `Network`, and of `Swarm`."""

IMPORTS = {
    "ApprovalRequested": "a run that waits for a person is told by WaitingGate",
    "ModelRetry": "a tool raises ToolError(code, message, retryable=True), and the model reads it",
    "Rule": "a rule is PolicyRule, in Policy([…])",
    "RunContext": "a tool is given a ToolContext",
    "RunContextWrapper": "a tool is given a ToolContext",
    "RunDenied": "a refused call ends no run: run.denied_calls() lists them, and a refused task raises DeniedError or "
    "RefusedError",
    "RunFailed": "it is RunFailedError",
    "RunTimeout": "it is RunTimeoutError",
    "Runner": "an agent is run by run(agent, message), or run.sync(agent, message) without asyncio",
    "TextDelta": "pieces of text are RunStreamDelta",
    "FunctionModel": "a function is a model as it is: harness(…, model=FUNCTION), of towpath.testing",
    "TestModel": "decisions written beforehand are script([…]), of towpath.testing: harness(…, model=script([…]))",
    "ToolStarted": "a call is told by RunStreamToolCall",
    "function_tool": "a tool is a function under @tool",
    "termination": "loops are found in every run; what ends one are settings, such as max_steps, of the run or network",
    "use": "a scripted call is execute_tool(…), of towpath.testing",
}
"""Names that people import from `towpath`."""

CONTEXT = {
    "deps": "what a tool knows and the model must not say is a parameter Annotated[T, SystemParameter()], which the "
    "task sets; system_params has all of them",
    "kv": "a tool keeps its data in a database of its own; for the length of a run by root_run_id, until "
    '@hook("run_finished") ends it, and files in the workspace',
    "state": "a tool keeps its data in a database of its own; for the length of a run by root_run_id",
}
"""Of a ToolContext."""

TASK_OPTIONS = {
    "session": "a conversation is run.reply(run, message), or continues=RUN",
    "message_history": "turns from elsewhere are messages=, and a conversation goes on by continues=RUN",
    "thread_id": "a conversation goes on by continues=RUN, or run.reply(run, message)",
    "max_turns": "how many steps a run has is max_steps=",
    "recursion_limit": "how many steps a run has is max_steps=",
    "deps": "what a tool knows and the model must not say is system_params={…}",
    "context": "what a tool knows and the model must not say is system_params={…}",
    "run_context": "what a tool knows and the model must not say is system_params={…}",
    "key": "what makes a repeated submit the same run is idempotency_key=",
    "usage_limits": "what may be spent is budget=Budget(…), and how many steps a run has is max_steps=",
}
"""Of a task: `run`, `submit` and what else begins a run."""

WAITING_OPTIONS = {
    "output_type": "this call returns no answer: run(…, output_type=…) does, or result(as_=…)",
    "timeout": "this call waits for no end. How long an end is waited for is run(…, timeout=…) or result(timeout=…); "
    "how long the run may take is deadline=",
}
"""Of calls that wait for the end of a run, where one is called that does not."""
