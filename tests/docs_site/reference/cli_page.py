"""docs/reference/cli.md: every command with its arguments and options, as `--help` tells them."""

import re
import sys

from cyclopts import App

from towpath.cli.app import make_app
from towpath_embedded.__main__ import app as up_app

_HEAD = """# Command line

Every command, as `towpath COMMAND --help` tells it. Commands that ask a platform take these too:

| option | what it is |
|---|---|
| `--output`, `-o` | how to print: `table` (on a terminal), `json` (elsewhere), `jsonl` or `yaml` |
| `--json` | the same as `-o json` |
| `--server` (`TOWPATH_SERVER`) | the platform; else the one that runs on `./.towpath`, else `http://127.0.0.1:8787` |
| `--api-key` (`TOWPATH_API_KEY`) | the key to ask with; the platform on `./.towpath` needs none |

A command ends with 0 (done), 1 (the run failed), 2 (the command can't be read), 3 (not found), 4 (denied), 5 (still
waiting), 6 (no server answers) or 130 (interrupted). Errors: [problems](problems.md).
"""
_COMMON = re.compile(r"\*\*Common options\*\*:\n\n(?:\* .*\n+)+", re.MULTILINE)
_LISTS = re.compile(r"\*\*Commands\*\*:\n\n(?:\* .*\n+)+|## Table of Contents\n\n(?:\s*- .*\n)+", re.MULTILINE)
_USAGE = re.compile(r"```console\n(towpath.*)\n```")
_OPTION = re.compile(r"^\* (`[^`]+`)(?:: |$)", re.MULTILINE)


def cli_page() -> str:
    """Return the page."""
    text = _generated(make_app())
    _, _, commands = text.partition("\n## towpath ")
    commands = _LISTS.sub("", _COMMON.sub("", f"## towpath {commands}\n"))
    _, _, up = _generated(up_app["up"]).replace("up-command", "towpath up").partition("\n")
    commands = re.sub(r"## towpath up\n.*?(?=\n## )", lambda _: f"## towpath up\n{up}", commands, flags=re.DOTALL)
    commands = _OPTION.sub(r"- \1: ", commands).replace("*[", "(").replace("]*", ")")
    return _HEAD + "\n" + _USAGE.sub(r"```text\n\1\n```", commands)


def _generated(app: App) -> str:
    """Return the commands of *app* as Markdown; usage lines would say what this process was started as."""
    started_as, sys.argv = sys.argv, ["towpath"]
    try:
        return app.generate_docs(output_format="markdown", recursive=True)
    finally:
        sys.argv = started_as
