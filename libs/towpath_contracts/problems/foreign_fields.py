"""Fields as other frameworks name them, and what the same is called in networks, tasks, policies and decisions here.

People bring these words along, and letter by letter some of them are nearer to a wrong field than to the right one:
`tools` is like nothing that an agent has, and `routes` not like `allowed_routes`.
"""

from collections.abc import Collection, Sequence

from towpath_contracts.problems.near_names import nearest_name, pair_names

MEANT = {
    "key": ("id", "name", "agent", "agent_name", "role"),
    "prompt_template": ("prompt", "prompts", "instructions", "instruction", "system", "system_prompt", "backstory"),
    "model": ("model_name", "model_id", "llm", "deployment"),
    "fallback_models": ("fallback", "fallbacks", "fallback_model"),
    "model_settings": ("settings", "model_config", "model_kwargs", "llm_config"),
    "equipped_tools": ("tools", "tool", "functions", "toolset", "toolsets"),
    "allowed_routes": ("route", "routes", "handoff", "handoffs", "sub_agents", "subagents", "transfers"),
    "is_default": ("default", "entry", "entry_point", "entrypoint", "start", "start_agent", "initial_agent"),
    "allow_respond": ("can_respond", "respond", "final", "is_final"),
    "respond_schema": ("output", "output_type", "output_schema", "response_format", "result_type"),
    "agents": ("nodes", "members"),
    "max_steps": ("max_turns", "max_iter", "max_iterations", "max_rounds", "recursion_limit"),
    "timeout_ms": ("timeout", "timeout_s", "deadline"),
    "tool": ("tools", "resource"),
    "tools": ("worker", "workers"),
    "effect": ("action", "decision", "verdict"),
    "when": ("if", "condition", "where"),
    "who": ("subject", "principal", "agents"),
    "network": ("workflow", "graph", "crew"),
    "user_message": ("message", "input", "prompt", "query", "question"),
    "system_params": ("context", "deps", "run_context", "state"),
    "tool_name": ("tool", "name", "function", "function_name"),
    "tool_params": ("args", "arguments", "params", "parameters", "tool_args", "tool_input", "input"),
    "calls": ("tool_calls", "tool_requests"),
    "max_output_tokens": ("max_tokens", "max_completion_tokens"),
}
"""By our own field; a word may stand for another field in another place, as `prompt` does in an agent and in a task."""


def meant_field(word: str, known: Collection[str]) -> str | None:
    """Return the one of the fields *known* that other frameworks call *word*; None where none has this name there."""
    return next((own for own, words in MEANT.items() if own in known and word in words), None)


def pair_fields(words: Sequence[str], missing: Collection[str]) -> dict[str, str]:
    """Return which of the *missing* fields each of *words* stands for: as others call it, or else misspelt."""
    pairs: dict[str, str] = {}
    for word in words:
        own = meant_field(word, missing)
        if own is not None and own not in pairs.values():
            pairs[word] = own
    rest = [word for word in words if word not in pairs]
    return pairs | pair_names(rest, sorted(set(missing).difference(pairs.values())))


def unknown_field(word: str, known: Collection[str], inside: str | None = None) -> tuple[str, str | None]:
    """Return what is said of *word*, which is none of the fields *known*, and the one of them that was meant, if any.

    *inside* says where in one of them such a field is. Every reader of what people write says it in these words.
    """
    said = f"there is no field {word!r}"
    if (own := meant_field(word, known)) is not None:
        return f"{said}; here it is {own!r}", own
    if inside is not None:
        return f"{said} here; it belongs inside {inside}", None
    if (near := nearest_name(word, known)) is not None:
        return f"{said}; did you mean {near!r}?", near
    if (slip := nearest_name(word, sorted({one for own in known for one in MEANT.get(own, ())}))) is not None:
        own = meant_field(slip, known)
        return f"{said}; did you mean {own!r}?", own
    return f"{said}; there are {', '.join(known)}" if known else said, None
