"""docs/reference/problems.md: every problem code, how it comes about, an example with its cure, and what to do.

Further messages are the details that the code itself gives where it answers with the code, with … for what differs.
"""

import ast
import re
from collections import defaultdict
from functools import cache

from tests.docs_site.reference.markdown_text import cell
from tests.support.places import ROOT

from towpath_contracts.outcomes.outcome_codes import OUTCOMES
from towpath_contracts.outcomes.outcome_kind import OutcomeKind
from towpath_contracts.problems.examples.problem_examples import EXAMPLES
from towpath_contracts.problems.kind import ProblemKind
from towpath_contracts.problems.registry import REGISTRY, problem

_EXAMPLE = problem("run_not_found", "no run begins with 7c1e").model_dump_json(exclude_defaults=True, indent=1)
_HEAD = f"""# Problems

Every refusal is a problem (RFC 9457) with a stable code: over HTTP `application/problem+json`, over NATS the same
object, on the command line its code, what happened and the remedy. `towpath explain CODE` and `/problems/CODE` of the
gateway say the same as this page: an example is a message as the platform prints it, and behind → what mends it.
A code is never reused or renamed. Status 0 marks those of the command line alone.

```json
{_EXAMPLE}
```

`retryable` says that the same request may be accepted later, `retry_after_s` when; `errors` lists every single fault,
each with a JSON pointer into the request.
"""
_OUTCOMES = """## Codes of runs, calls and models

These stand in records, and refuse no request: how a run, a tool call or a decision ended, and why. A code that is a
problem too, such as `tool_unknown`, stands above. `towpath explain CODE` knows them all.

| code | of | what it means | what to do |
|---|---|---|---|"""
_CAUSES = 3
"""So many messages are shown of a code; further ones are like them."""


def problems_page() -> str:
    """Return the page."""
    causes = _causes()
    sections = (_section(kind, causes[kind.code]) for kind in sorted(REGISTRY.values()))
    return "\n".join([_HEAD, *sections, _OUTCOMES, *map(_row, sorted(OUTCOMES.values())), ""])


def _row(kind: OutcomeKind) -> str:
    return f"| `{kind.code}` | {kind.of} | {cell(kind.meaning)} | {cell(kind.remedy)} |"


def _section(kind: ProblemKind, causes: list[str]) -> str:
    status = kind.status or "command line"
    again = " The same request may be accepted later." if kind.retryable else ""
    lines = [f"## {kind.code}", "", f"{kind.title} ({status}).{again}", ""]
    told = EXAMPLES[kind.code]
    lines += [f"- Remedy: {cell(kind.remedy)}", f"- Cause: {cell(told.cause)}", f"- Example: {cell(told.example)}"]
    if causes:
        lines += ["- Messages: " + "; ".join(f"“{cell(cause)}”" for cause in causes[:_CAUSES])]
    return "\n".join([*lines, ""])


@cache
def _causes() -> dict[str, list[str]]:
    """Return the details that the code gives with each problem code, in the order of the files."""
    found: dict[str, list[str]] = defaultdict(list)
    for folder in ("libs", "services"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text("utf-8")
            if "problem" not in text:
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call) and len(node.args) > 1 and isinstance(node.args[0], ast.Constant):
                    code, detail = node.args[0].value, _text(node.args[1])
                    if code in REGISTRY and detail and detail not in found[code]:
                        found[code].append(detail)
    return found


def _text(node: ast.expr) -> str:
    """Return the text of a string in the code, if it says anything by itself."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value if " " in node.value else ""
    if isinstance(node, ast.JoinedStr):
        parts = [str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values]
        text = "".join(parts)
        return text if len(re.findall(r"[a-z]{2,}", text)) > 1 else ""
    return ""
