"""The code blocks of the pages, and how each is tried.

A block with a name is run, by the test that `RUN_BY` names for its page. Of the others the commands are read by the
command line's own parser, files by the reader of their kind, Python by a type checker. A block in a language that
nothing here reads is an error, unless it is one of `NOT_TRIED`.
"""

import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.places import ROOT

PAGES = sorted([
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "examples").glob("*/README.md"),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "deploy/README.md")),
])  # fmt: skip
RUN_BY = {
    "docs/guides/a2a.md": "tests/e2e/protocols/test_agent_protocols.py",
    "docs/guides/ag-ui.md": "tests/e2e/protocols/test_agent_protocols.py",
    "docs/guides/approvals-in-chat.md": "tests/e2e/sdk/test_guides.py",
    "docs/guides/openai.md": "tests/e2e/protocols/test_openai_clients.py",
    "docs/guides/coming-from.md": "tests/e2e/sdk/test_guides.py",
    "docs/guides/django.md": "tests/e2e/sdk/test_guides.py",
    "docs/guides/fastapi.md": "tests/e2e/sdk/test_guides.py",
    "docs/guides/python-client.md": "tests/e2e/sdk/test_guides.py",
    "docs/guides/javascript.md": "tests/e2e/sdk/test_guides.py",
    "docs/guides/javascript-nats.md": "tests/e2e/sdk/test_guides.py",
    "docs/guides/nats-agents.md": "tests/e2e/sdk/test_guides.py",
    "docs/operations.md": "tests/integration/embedded/test_whole_platform.py",
    "docs/mcp.md": "tests/e2e/protocols/test_mcp_server.py",
    "docs/projects.md": "tests/e2e/sdk/test_projects.py",
    "docs/quickstart.md": "tests/e2e/sdk/test_quickstart.py",
    "docs/tutorial.md": "tests/e2e/test_readme.py",
    "docs/tools.md": "tests/unit/towpath/test_tools_page.py",
}
"""The test that runs the named blocks of a page; it names each, or takes all files of the page."""

RUN_WHOLE = {"docs/testing.md": "tests/unit/testing/test_guide.py"}
"""The test that runs all Python of a page as one program."""

DRAWINGS = {"", "text"}
"""Outputs, drawings and usage lines; nobody copies them to run them."""

NOT_TRIED = {
    "docs/approvals.md json": "what a webhook sends, with … for values; tests of webhooks hold its fields",
    "docs/guides/coming-from.md python": "programs of other frameworks, which test_coming_from.py reads and counts",
    "docs/agents.md python 3": "two calls of it are another library's, with … for arguments",
}
"""The blocks that nothing tries, and why: `PAGE LANGUAGE`, or the number of one of these blocks of the page."""

PROGRAMS = {
    *(
        "bash",
        "cd",
        "cp",
        "curl",
        "export",
        "find",
        "npm",
        "pg_basebackup",
        "pg_verifybackup",
        "openssl",
        "deploy/kubernetes-secrets",
        "deploy/make-secrets",
        "deploy/pin-images",
        "docker",
        "git",
        "helm",
        "install",
        "kubectl",
        "ln",
        "/opt/towpath-0.2/bin/towpath",
        "pip",
        "python",
        "python3",
        "runuser",
        "source",
        "systemctl",
        "systemd-sysusers",
    ),
    *("uv", "uvx", ".ci/run", "towpath_gateway", "towpath_gateway()", "{", "}"),
}
"""What commands of the pages start beside `towpath`."""


class CodeBlock(NamedTuple):
    """A fenced block: where it begins, its language, the name after it, and its text."""

    page: str
    line: int
    language: str
    name: str
    text: str

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return f"{self.page}:{self.line}"


def blocks_of(page: Path) -> Iterator[CodeBlock]:
    """Return every fenced block of *page*, in order, also those within lists."""
    text = page.read_text("utf-8")
    for found in re.finditer(r"^( *)```(\w*) ?(\S*)[^\n]*\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL):
        _, language, name, content = found.groups()
        line = text.count("\n", 0, found.start()) + 1
        yield CodeBlock(str(page.relative_to(ROOT)), line, language, name, textwrap.dedent(content))


def all_blocks() -> list[CodeBlock]:
    """Return the blocks of every page."""
    return [block for page in PAGES for block in blocks_of(page)]


def command_lines(text: str) -> Iterator[list[str]]:
    """Return the words of each command of a block in a shell, without what `[…]` leaves to the reader."""
    joined = re.sub(r"\\\n\s*", " ", text)
    for line in joined.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&<>()")
        lexer.whitespace_split = True
        words: list[str] = []
        ends = skip = False
        for word in lexer:
            ends = word in {"|", "&&", "||", ";"}
            if ends:
                yield from _command(words)
                words = []
            elif word in {">", ">>", "<"}:
                skip = True  # the file after it
            elif not skip:
                words.append(word)
            else:
                skip = False
        yield from _command(words)


def _command(words: list[str]) -> Iterator[list[str]]:
    while words and re.match(r"[A-Z][A-Z_]*=", words[0]):
        words = words[1:]  # variables of the command
    if words:
        yield [word.strip("[]") if word.startswith("[") or word.endswith("]") else word for word in words]
