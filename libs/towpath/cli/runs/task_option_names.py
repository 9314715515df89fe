"""Which option of `towpath run` a field of a task comes from: who typed a command knows no fields."""

from towpath_contracts.problems.registry import Problem

_OPTIONS = {
    "/network": "NETWORK",
    "/user_message": "MESSAGE",
    "/script": "--script",
    "/model": "--model",
    "/agent_key": "--agent",
    "/labels": "--label",
    "/quoted_inputs": "--quote",
    "/attachments": "--attach",
    "/continues": "--continue",
    "/messages": "--messages",
    "/idempotency_key": "--idempotency-key",
    "/max_steps": "--max-steps",
    "/deadline": "--deadline",
    "/timeout_ms": "--deadline",
    "/budget/usd": "--usd",
    "/budget/tokens": "--tokens",
    "/budget/model_calls": "--model-calls",
    "/budget/tool_calls": "--tool-calls",
}
"""What lies deeper, such as one label, keeps its name behind that of the option."""


def with_options_named(found: Problem) -> Problem:
    """Return *found* with the options in the place of the fields that they fill."""
    detail, errors = found.detail, []
    for one in found.errors:
        named = _named(one.pointer)
        detail = detail.replace(f"{one.pointer}: ", f"{named}: ", 1) if one.pointer else detail
        errors.append(one.model_copy(update={"pointer": named}))
    return found.model_copy(update={"detail": detail, "errors": tuple(errors)})


def _named(pointer: str) -> str:
    place, deeper = pointer, ""
    while place:
        if place in _OPTIONS:
            return f"{_OPTIONS[place]}{deeper.replace('/', ' ')}"
        place, _, last = place.rpartition("/")
        deeper = f"/{last}{deeper}"
    return pointer
