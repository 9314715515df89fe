"""Tools whose results a test writes beforehand, in every shape that a goal run measures progress by."""

from typing import Any

from towpath import ToolError, tool


@tool(name="lab.edit", toolset="lab", effect_class="idempotent")
def edit(n: int, fails: str = "") -> dict[str, int]:
    """Change something, or fail with *fails*."""
    if fails:
        raise ToolError("edit_failed", fails)
    return {"changed": n}


@tool(name="lab.test", toolset="lab", effect_class="pure", reports="tests")
def run_tests(passed: int, failed: int, coverage: float | None = None, n: int = 0) -> dict[str, Any]:
    """Report a run of tests."""
    told = {"passed": passed, "failed": failed, "n": n}
    return told if coverage is None else {**told, "coverage": coverage}


@tool(name="lab.build", toolset="lab", effect_class="idempotent", reports="artifacts")
def build(names: list[str], expected: int | None = None) -> dict[str, Any]:
    """Report what was made."""
    made = [{"name": name, "kind": "code" if name.endswith(".py") else "file", "size": 3} for name in names]
    return {"artifacts": made} if expected is None else {"artifacts": made, "expected": expected}


@tool(name="lab.publish", toolset="lab", effect_class="idempotent")
def publish(n: int = 0) -> dict[str, int]:
    """Publish what was made; not everybody may."""
    return {"published": n}
