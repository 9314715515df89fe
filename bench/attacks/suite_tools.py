"""A worker's module with every tool of the suites: each run acts on an environment of its own.

`ATTACK_CASES` names a file with the user task and the injected text of every case. A run tells its case by a system
parameter; the environment is made at its first call, and kept for the newest runs.
"""

import json
import os
import threading
from collections import OrderedDict
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from attacks import dojo
from towpath import ToolContext, ToolError
from towpath.tools.declaration import AnyTool, Tool
from towpath_contracts.tools.calls import ToolSpec
from towpath_embedded.chaos.recording_tools import AnyArguments

KEPT = 512
"""Environments that are kept; many more than runs are under way at once."""

_cases: dict[str, Any] = json.loads(Path(os.environ[dojo.CASES_VARIABLE]).read_text("utf-8"))
_environments: OrderedDict[UUID, Any] = OrderedDict()
_lock = threading.Lock()


def _environment(run: UUID, case: str) -> Any:
    with _lock:
        if run not in _environments:
            _environments[run] = dojo.environment(*_cases[case])
        if len(_environments) > KEPT:
            _environments.popitem(last=False)
        return _environments[run]


def _serve(suite: str, name: str, args: dict[str, Any], context: ToolContext) -> Any:
    """Let one call act; raises ToolError with what the suite's own tool says."""
    given = {key: value for key, value in args.items() if key != dojo.CASE}
    result, error = dojo.play(suite, _environment(context.run_id, args[dojo.CASE]), name, given)
    if error is not None:
        code, _, message = error.partition(": ")
        raise ToolError(code, message)
    return result


def _tool(suite: str, name: str, spec: ToolSpec) -> AnyTool:
    arguments = AnyArguments(
        model=BaseModel, schema=spec.parameters, names=(), system=spec.system_params, context="context"
    )
    return Tool(partial(_serve, suite, name), spec, arguments)


def _tools() -> dict[str, AnyTool]:
    every = [(suite, name, spec) for suite in dojo.SUITES for name, spec in dojo.specs(suite).items()]
    return {f"{suite}_{name}": _tool(suite, name, spec) for suite, name, spec in every}


globals().update(_tools())  # a worker offers what stands in a module
