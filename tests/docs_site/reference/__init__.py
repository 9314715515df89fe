"""The pages of docs/reference that are made from the code, so that they say what the code does."""

import json
import re
from collections.abc import Callable
from pathlib import Path

from tests.docs_site.page_list import DOCS
from tests.docs_site.reference.cli_page import cli_page
from tests.docs_site.reference.events_page import events_page
from tests.docs_site.reference.metrics_page import metrics_page
from tests.docs_site.reference.policy_page import policy_page
from tests.docs_site.reference.problems_page import problems_page
from tests.docs_site.reference.sdk_page import sdk_page

from towpath.cli.shared.output_schemas import output_schemas

WRITE = "uv run --group dev python -m tests.docs_site reference"
GENERATED: dict[str, Callable[[], str]] = {
    "sdk.md": sdk_page,
    "cli.md": cli_page,
    "metrics.md": metrics_page,
    "problems.md": problems_page,
    "policy-language.md": policy_page,
    "events.md": events_page,
}


def generated_text(name: str) -> str:
    """Return the page *name* as the code has it now."""
    text = re.sub(r"\n{3,}", "\n\n", GENERATED[name]().strip())
    return f"<!-- Made from the code by: {WRITE} -->\n\n{text}\n"


def command_schemas_text() -> str:
    """Return docs/schemas/cli.json as the code has it now."""
    return json.dumps(output_schemas(), indent=1, ensure_ascii=False) + "\n"


def write_reference() -> list[Path]:
    """Write every generated page, and the schemas of what commands print; return where they are."""
    paths = [DOCS / "reference" / name for name in GENERATED]
    for path in paths:
        path.write_text(generated_text(path.name), "utf-8")
    schemas = DOCS / "schemas" / "cli.json"
    schemas.parent.mkdir(exist_ok=True)
    schemas.write_text(command_schemas_text(), "utf-8")
    return [*paths, schemas]
