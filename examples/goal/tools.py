"""A small project with a mistake in it, and the tools to mend it: read a file, change it, run its tests.

The project is the folder `.towpath/goal` below the folder the worker was started in; `GOAL_FOLDER` names another. It is
made when it isn't there yet. `code.test` runs the project's own tests in a process of its own and reports what came of
them in the declared shape, so that the platform can measure progress by it.
"""

import re
import sys
from pathlib import Path

from pydantic import BaseModel
from pydantic_settings import BaseSettings, SettingsConfigDict

from towpath import ToolError, run_process, tool

PRICES = '''"""Prices of a small shop. Money is in cents."""


def discounted(price: int, percent: int) -> int:
    """Return the price after a discount."""
    return price - percent


def with_tax(price: int, percent: int = 19) -> int:
    """Return the price with tax."""
    return price + price * percent // 100
'''
TESTS = """import unittest

from prices import discounted, with_tax


class Prices(unittest.TestCase):
    def test_nothing_off(self) -> None:
        self.assertEqual(discounted(500, 0), 500)

    def test_a_quarter_off(self) -> None:
        self.assertEqual(discounted(500, 25), 375)

    def test_all_off(self) -> None:
        self.assertEqual(discounted(80, 100), 0)

    def test_tax(self) -> None:
        self.assertEqual(with_tax(1000), 1190)
"""
_RAN = re.compile(r"^Ran (\d+) tests? in", re.MULTILINE)
_COUNTED = re.compile(r"[(,] ?(failures|errors|skipped)=(\d+)")
TESTS_TIMEOUT_S = 20


class MenderSettings(BaseSettings):
    """Where the project lies; read from GOAL_FOLDER."""

    model_config = SettingsConfigDict(env_prefix="GOAL_")

    folder: Path = Path(".towpath/goal")


class Edited(BaseModel):
    """What a change did."""

    path: str
    lines: int


class Tested(BaseModel):
    """What came of the tests; the shape is that of a test report."""

    passed: int
    failed: int
    errors: int
    skipped: int
    output: str


def project() -> Path:
    """Return the project's folder; one that isn't there is made, with its mistake."""
    folder = MenderSettings().folder
    if not (folder / "prices.py").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "test_prices.py").write_text(TESTS, "utf-8")
        (folder / "prices.py").write_text(PRICES, "utf-8")
    return folder


def source(path: str) -> Path:
    """Return a file of the project; raises ToolError for anything else."""
    folder = project().resolve()
    found = (folder / path).resolve()
    if found.parent != folder or not found.is_file():
        names = ", ".join(sorted(one.name for one in folder.glob("*.py")))
        raise ToolError("file_not_found", f"The project has no {path!r}; it has {names}.")
    return found


@tool(name="code.read", toolset="goal", effect_class="pure", summary="Read {path}")
def read_code(path: str) -> str:
    """Return the text of a file.

    Args:
        path: Its name in the project.
    """
    return source(path).read_text("utf-8")


@tool(name="code.edit", toolset="goal", effect_class="idempotent", summary="Change {path}")
def edit_code(path: str, old: str, new: str) -> Edited:
    """Replace a piece of a file that is in it exactly once.

    Args:
        path: Its name in the project.
        old: The piece as it stands, with its indentation.
        new: What stands there afterwards.
    """
    file = source(path)
    text = file.read_text("utf-8")
    if text.count(old) != 1:
        if new in text and old not in text:  # done already: the same call is delivered twice
            return Edited(path=path, lines=text.count("\n"))
        raise ToolError("edit_refused", f"{path} holds that piece {text.count(old)} times, not once.")
    changed = text.replace(old, new)
    file.write_text(changed, "utf-8")
    return Edited(path=path, lines=changed.count("\n"))


@tool(name="code.test", toolset="goal", effect_class="pure", timeout="30s", reports="tests", summary="Run the tests")
async def test_code() -> Tested:
    """Run the project's tests and say how many pass and fail."""
    code = "import sys, unittest; sys.path.insert(0, '.'); unittest.main(None)"
    command = (sys.executable, "-I", "-B", "-c", code, "discover", "-s", ".")
    done = await run_process(*command, cwd=project(), timeout_s=TESTS_TIMEOUT_S)
    said = done.stderr.decode("utf-8", "replace")
    ran = _RAN.search(said)
    if ran is None:
        raise ToolError("tests_not_run", f"The tests did not run: {said[-500:]}")
    counted = {name: int(number) for name, number in _COUNTED.findall(said)}
    failed, errors, skipped = (counted.get(name, 0) for name in ("failures", "errors", "skipped"))
    passed = int(ran[1]) - failed - errors - skipped
    return Tested(passed=passed, failed=failed, errors=errors, skipped=skipped, output=said[-2_000:])
