"""`python -m towpath.cli.definitions.declared_tools MODULE…`: prints their tools and what they return.

A person's module is imported in this process alone, which then ends, and what it prints goes to stderr.
"""

import contextlib
import json
import sys
import typing
from typing import Any

from pydantic import PydanticUserError, TypeAdapter

from towpath.errors import DeclarationError
from towpath.toolbox import collect, leave_out_working_folder, load_module
from towpath.tools.declaration import AnyTool
from towpath_contracts.problems.registry import problem


def main(words: list[str]) -> int:
    """Print the tools of every module named in *words*, or the problem; returns the exit code."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            leave_out_working_folder()
            tools, _ = collect([load_module(word) for word in words])
    except (DeclarationError, ImportError, SyntaxError) as error:
        print(problem("request_invalid", f"the tools can't be read: {error}").model_dump_json())
        return 2
    print(json.dumps([{"spec": one.spec.model_dump(mode="json"), "output": output_schema(one)} for one in tools]))
    return 0


def output_schema(tool: AnyTool) -> dict[str, Any] | None:
    """Return the JSON Schema of what a tool is annotated to return; None where it is not, or has none."""
    try:
        returned = typing.get_type_hints(tool.function).get("return")
        return None if returned in {None, Any} else TypeAdapter(returned).json_schema()
    except (NameError, TypeError, PydanticUserError):
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
