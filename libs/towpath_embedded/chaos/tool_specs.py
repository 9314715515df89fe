"""`python -m towpath_embedded.chaos.tool_specs MODULE`: prints the tools of a module, as a JSON array.

A user's module is imported in this process alone, which then ends. So side effects of the import reach neither the
harness nor a worker.
"""

import sys

from pydantic import TypeAdapter

from towpath.toolbox import collect, load_module
from towpath_contracts.tools.calls import ToolSpec


def main(words: list[str]) -> None:
    """Print the ToolSpecs of every module named in *words*."""
    tools, _ = collect([load_module(word) for word in words])
    sys.stdout.write(TypeAdapter(list[ToolSpec]).dump_json([tool.spec for tool in tools]).decode())


if __name__ == "__main__":
    main(sys.argv[1:])
