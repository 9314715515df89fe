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
    "model_settings": "how its model is asked is settings=",
    "temperature": 'how its model is asked is settings={"temperature": 0}',
    "top_p": 'how its model is asked is settings={"top_p": 0.9}',
    "seed": 'how its model is asked is settings={"seed": 1}',
    "stop": 'how its model is asked is settings={"stop": ["END"]}',
    "reasoning_effort": 'how its model is asked is settings={"reasoning_effort": "low"}',
    "max_tokens": 'how its model is asked is settings={"max_output_tokens": 1000}',
    "max_output_tokens": 'how its model is asked is settings={"max_output_tokens": 1000}',
    "max_turns": "how many steps a run has is max_steps=, of the run or of its Network",
}
"""Of `Agent`."""

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
