"""How long a script may be that a client sends."""

from typing import Any

from pydantic_core import to_json

from towpath_contracts.strict_json import count_values

MAX_SCRIPT_VALUES = 10_000
"""Values in a script, names of fields not counted: ten for each of the steps that a run may have."""


def check_script(script: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    """Return *script*; raises ValueError for one that is too long to be read and written whole, again and again.

    The orchestrator and the decider do so between messages of others.
    """
    if script is not None and (values := count_values(to_json(script))) > MAX_SCRIPT_VALUES:
        msg = f"a script has at most {MAX_SCRIPT_VALUES} values, and this one has {values}"
        raise ValueError(msg)
    return script
