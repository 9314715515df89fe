"""What a contributor meets first works: the CI workflow, hooks before a commit, everyday commands, links of pages."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conftest import SLOW

ROOT = Path(__file__).parents[3]
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("examples/**/*.md"))]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s#]*)(?:#([^)\s]*))?\)")


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def anchors(page: Path) -> set[str]:
    """Return what the headings of *page* are linked by, as repository hosts make it."""
    headings = re.findall(
        r"^#+ (.+)$", re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_workflow_follows_its_schema() -> None:
    command = [
        Path(sys.executable).parent / "check-jsonschema",
        "--builtin-schema",
        "vendor.github-workflows",
        WORKFLOW,
    ]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


def test_the_workflow_decides_by_the_script_that_contributors_run() -> None:
    steps = loaded(WORKFLOW)["jobs"]["check"]["steps"]
    *_, decides = [step["run"] for step in steps if "run" in step]
    assert decides == ".ci/run"
    after = steps[[step.get("run") for step in steps].index(".ci/run") + 1 :]
    assert [step["with"]["path"] for step in after] == ["build/screenshots"], "what the tests leave is kept"
    assert loaded(WORKFLOW)["permissions"] == {"contents": "read"}


def test_hooks_before_a_commit_use_the_tools_of_the_dev_group() -> None:
    repositories = loaded(ROOT / ".pre-commit-config.yaml")["repos"]
    assert [part["repo"] for part in repositories] == ["local"]
    for hook in repositories[0]["hooks"]:
        assert hook["entry"].startswith("uv run --quiet --group dev "), hook["id"]


def test_the_commands_of_everyday_work_are_in_the_justfile_and_explained() -> None:
    recipes = re.findall(r"^([a-z]+)(?: [^:\n]*)?:(?!=)", (ROOT / "justfile").read_text("utf-8"), re.MULTILINE)
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert {"check", "fast", "test", "one", "up", "lint"} <= set(recipes)
    assert [recipe for recipe in recipes if recipe != "default" and f"just {recipe}" not in page] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.DOTALL)):
        found = (page.parent / target).resolve() if target else page
        assert found.exists(), f"{target} is not there"
        assert not anchor or anchor in anchors(found), f"{target}#{anchor} is not there"


def test_the_modules_that_begin_first_exist() -> None:
    """A module that was moved would silently be begun last, and keep one process busy after all others."""
    assert [place for place in SLOW if not (ROOT / "tests" / place).is_file()] == []
