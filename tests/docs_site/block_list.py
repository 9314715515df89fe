"""How each code block of the pages is held: a row for each, and the reason where it is not run.

A page of `PLAYED_BY` is run block by block, in order, by its test; a new block of it is run too, or fails the test.
Of other pages the blocks with a name are run (`RUN_BY`), and those of `RUN_WHOLE`; some blocks are taken one by one
(`TAKEN_BY`). Every other block is in `LEFT`, and is read by the command line's parser, a type checker or the product's
reader of such files.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from tests.docs_site.code_blocks import RUN_BY, RUN_WHOLE, CodeBlock, all_blocks
from tests.docs_site.left_blocks import LEFT
from tests.docs_site.taken_blocks import begins_so, taken_by

_OF_BACKUPS = "tests/e2e/pages/test_pages_of_backups.py"
_OF_AGENTS = "tests/e2e/pages/test_pages_of_agents.py"
_OF_COMMANDS = "tests/e2e/pages/test_pages_of_commands.py"
_OF_RUNS = "tests/e2e/pages/test_pages_of_runs.py"
_OF_OPERATIONS = "tests/e2e/pages/test_pages_of_operations.py"
_OF_EXAMPLES = "tests/e2e/pages/test_pages_of_examples.py"
_OF_PROJECTS = "tests/e2e/pages/test_pages_of_projects.py"
_OF_RIGHTS = "tests/e2e/pages/test_pages_of_rights.py"
PLAYED_BY = {
    **dict.fromkeys(
        (f"docs/{name}.md" for name in ("approvals", "budgets", "policies", "audit", "provenance", "guides/costs")),
        _OF_RIGHTS,
    ),
    "docs/guides/securing.md": _OF_RIGHTS,
    "docs/mcp.md": _OF_RIGHTS,
    "docs/cli.md": _OF_COMMANDS,
    "docs/storage.md": _OF_COMMANDS,
    "docs/projects.md": _OF_COMMANDS,
    "docs/guides/approvals-in-chat.md": _OF_COMMANDS,
    "docs/guides/openai.md": _OF_COMMANDS,
    "docs/guides/coming-from.md": _OF_COMMANDS,
    "docs/guides/javascript-nats.md": _OF_OPERATIONS,
    "docs/guides/three-machines.md": _OF_OPERATIONS,
    "docs/agents.md": _OF_AGENTS,
    "docs/networks.md": _OF_AGENTS,
    "docs/swarms.md": _OF_AGENTS,
    "docs/conversations.md": _OF_AGENTS,
    "docs/models.md": _OF_AGENTS,
    "docs/plans.md": _OF_AGENTS,
    "docs/runs.md": _OF_RUNS,
    "docs/operations.md": _OF_OPERATIONS,
    **dict.fromkeys(
        (f"docs/{name}.md" for name in ("evaluation", "guides/deploying", "guides/upgrading")),
        _OF_PROJECTS,
    ),
    "docs/backup-and-restore.md": _OF_BACKUPS,
    "docs/tools.md": _OF_PROJECTS,
    **dict.fromkeys(
        (
            *(
                f"examples/{name}/README.md"
                for name in ("background_review", "base_agent", "document_pipeline", "goal")
            ),
            *(f"examples/{name}/README.md" for name in ("policies", "research_team", "self_planning", "support")),
            *("README.md", "docs/tutorial.md"),
        ),
        _OF_EXAMPLES,
    ),
}
"""The test that runs every block of a page, apart from those that `LEFT` has."""

GENERATED = "docs/reference/"


KINDS = {
    "sh": "parsed",
    "python": "typed",
    **dict.fromkeys(("yaml", "json", "http", "ini", "nats", "sql"), "loaded"),
}
"""How a block that is not run is held, by its language; others are shown and read by nothing."""


class HeldBlock(NamedTuple):
    """A block, how it is held, and by what or why."""

    block: CodeBlock
    how: str
    by: str


def held_blocks() -> Iterator[HeldBlock]:
    """Return how each block is held, in the order of the pages; `left` without a reason where nothing says so."""
    for block in all_blocks():
        if not (block.page.startswith(GENERATED) and block.language == "text"):
            yield _held(block)


def played_blocks(page: str) -> list[CodeBlock]:
    """Return the blocks of *page* that its test of `PLAYED_BY` has to run."""
    return [held.block for held in held_blocks() if held.block.page == page and held.by == PLAYED_BY.get(page)]


def block_table() -> str:
    """Return a line for each block: where it is, its language, how it is held, and by what test or for what reason."""
    held = list(held_blocks())
    lines = [f"{one.block.place}\t{one.block.language or '-'}\t{one.how}\t{one.by}" for one in held]
    counts = Counter((one.how, one.block.language or "-") for one in held)
    return "\n".join([*lines, *(f"{how} {language}: {count}" for (how, language), count in sorted(counts.items())), ""])


def reason(block: CodeBlock) -> str:
    """Return why *block* is not run; nothing where it has no reason."""
    found = [key for key in LEFT if begins_so(key, block)]
    return LEFT[max(found, key=len)] if found else ""


def _held(block: CodeBlock) -> HeldBlock:
    if block.name and block.page in RUN_BY:
        return HeldBlock(block, "run", RUN_BY[block.page])
    if block.page in RUN_WHOLE and block.language == "python":
        return HeldBlock(block, "run", RUN_WHOLE[block.page])
    if test := taken_by(block):
        return HeldBlock(block, "run", test)
    why = reason(block)
    if block.page in PLAYED_BY and not why:
        return HeldBlock(block, "run", PLAYED_BY[block.page])
    return HeldBlock(block, KINDS.get(block.language, "shown"), why)
