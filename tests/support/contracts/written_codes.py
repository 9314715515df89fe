"""The codes that runs, calls and models end with, found in the code that writes them.

A code is a text, or the constant that has it, where an outcome is made: a keyword that takes a code, or the place of a
function that ends a run or a call.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDERS = (
    *("libs/towpath_engine", "libs/towpath/tools", "libs/towpath/agents", "services/towpath_agent"),
    *("services/towpath_decider", "services/towpath_tas/core/calls", "services/towpath_tas/app/calls"),
    *("services/towpath_worker",),
)
CONSTANTS = (*FOLDERS, "libs/towpath_contracts", "services/towpath_tas")
KEYWORDS = frozenset({"code", "reason", "reason_code"})
ERRORS = (
    *("InternalToolError", "ToolError", "AgentError", "AgentAnswerFailure", "ResultRefusedError"),
    *("FileChangesLostError", "ExternalOutcomeUnknownError"),
)
PLACES = dict.fromkeys(ERRORS, 1) | {"finish": 5, "fail": 2, "end_with_error": 2, "resend_decision": 3, "refuse": 2}
"""How many of the first arguments may be a code."""

_CODE = re.compile(r"[a-z]+(_[a-z]+)*\Z")


def written_codes() -> dict[str, str]:
    """Return each code with a place that writes it."""
    constants = dict(_constants())
    return {code: place for folder in FOLDERS for path in _modules(folder) for code, place in _of(path, constants)}


def _modules(folder: str) -> Iterator[Path]:
    yield from sorted((ROOT / folder).rglob("*.py"))


def _constants() -> Iterator[tuple[str, str]]:
    for folder in CONSTANTS:
        for path in _modules(folder):
            for node in ast.parse(path.read_text("utf-8")).body:
                match node:
                    case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))) if name.isupper():
                        yield f"{path.stem}.{name}", text
                        yield name, text


def _of(path: Path, constants: dict[str, str]) -> Iterator[tuple[str, str]]:
    tree = ast.parse(path.read_text("utf-8"))
    homes = {
        (alias.asname or alias.name): f"{(node.module or '').rpartition('.')[2]}.{alias.name}"
        for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }  # fmt: skip

    def texts(node: ast.expr) -> Iterator[str]:
        match node:
            case ast.Constant(value=str(text)):
                yield text
            case ast.Name(id=name) if name.isupper():
                found = constants.get(homes.get(name, f"{path.stem}.{name}"))
                yield from () if found is None else (found,)
            case ast.IfExp(body=body, orelse=orelse):
                yield from texts(body)
                yield from texts(orelse)

    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        places = [one.value for one in node.keywords if one.arg in KEYWORDS]
        places += node.args[: PLACES.get(name, 0)]
        for text in (text for place in places for text in texts(place)):
            if _CODE.match(text):
                yield text, f"{path.relative_to(ROOT)}:{node.lineno}"
