"""Runs the blocks of one page in their order, in one folder, as a reader of it would.

Commands of `towpath` are run in this process, others by a shell. A test says what the page's words such as RUN stand
for, and what is there when a block begins; the blocks themselves are taken from the page.
"""

import ast
import asyncio
import contextlib
import functools
import inspect
import json
import os
import signal
import subprocess
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.docs_site.block_list import played_blocks
from tests.docs_site.code_blocks import CodeBlock
from tests.docs_site.shell_blocks import Given, ShellCommand, shell_commands

from towpath import Client
from towpath.cli import main
from towpath.cli.app import make_app
from towpath_embedded.__main__ import app as up_app

COMMAND_S = 300
"""How long a block may take on a busy machine: a command that waits for somebody would wait for ever."""

FETCHING = {"pip", "npm"}
"""What fetches packages is not started: nothing in the tests asks a registry."""


class Said(NamedTuple):
    """A command that was run, and what it printed."""

    words: tuple[str, ...]
    out: str


class PagePlayer:
    """The blocks of a page that are still to be run."""

    def __init__(self, page: str, capfd: pytest.CaptureFixture[str]) -> None:
        self.page = page
        self.left = played_blocks(page)
        self._capfd = capfd
        self._exported: list[tuple[str, str]] = []

    def ahead(self, language: str) -> CodeBlock:
        """Return the next block in *language*, before others that need it."""
        block = next(block for block in self.left if block.language == language)
        self.left.remove(block)
        return block

    def take(self, language: str) -> CodeBlock:
        """Return the next block; it has to be in *language*."""
        assert self.left, f"{self.page} has no further block"
        block = self.left.pop(0)
        assert block.language == language, f"{block.place}: a test runs a block in {language!r} here"
        return block

    def shell(
        self,
        given: Given | None = None,
        codes: Mapping[str, int] | None = None,
        read: Mapping[str, Callable[[str], str]] | None = None,
        confirmed: str = "",
    ) -> list[Said]:
        """Run the commands of the next block, with *given* values for its words, and what *read* finds for them.

        A person at a terminal would be asked about the command that contains *confirmed*, and says yes. *read* finds
        words in what the command before printed. Each command has to end with 0, or with what *codes* says
        for a text that it contains.
        """
        block = self.take("sh")
        said = []
        for command in shell_commands(block.text, given or {}):
            words = [read[word](said[-1].out) if read and word in read else word for word in command.words]
            line = " ".join(words)
            words += ["--yes"] if confirmed and confirmed in line else []
            code, out = self._run(command._replace(words=tuple(words)))
            wanted = next((one for text, one in (codes or {}).items() if text in line), 0)
            assert code == wanted, f"{block.place}: {line}: ended with {code}\n{out}"
            said.append(Said(tuple(words), out))
        return said

    def python(self, address: str = "", in_place: Mapping[str, str] | None = None, **names: Any) -> dict[str, Any]:
        """Run the next block as a program that may await; `client` is one of the platform at *address*.

        *in_place* has other texts in the place of those that are of another machine.
        """
        block = self.take("python")
        text = functools.reduce(lambda text, pair: text.replace(*pair), (in_place or {}).items(), block.text)
        module = types.ModuleType(f"page_{block.line}")
        sys.modules[module.__name__] = module
        found = vars(module)
        found.update(names)
        code = compile(text, block.place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if not code.co_flags & inspect.CO_COROUTINE:
            exec(code, found)
            return found

        async def run() -> None:
            async with Client(address or None) as client:
                found.setdefault("client", client)
                await eval(code, found)

        with in_time():
            asyncio.run(run())
        return found

    def request(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Send the next block, a request with its body, to the platform; *given* are values of its path."""
        first, _, body = self.take("http").text.partition("\n")
        method, path = first.format(**given).split()
        return self._answered(method, path, body)

    def task(self, change: Callable[[dict[str, Any]], dict[str, Any]] = dict) -> dict[str, Any]:
        """Submit the next block, a task, and return the view of its run; *change* fills in what it leaves out."""
        body = change(json.loads(self.take("json").text))
        run_id = self._answered("POST", "/v1/runs", json.dumps(body))["run_id"]
        code, out = self._run(ShellCommand(("towpath", "runs", "watch", run_id, "-o", "json")))
        assert code == 0, f"{self.page}: {body}: {out}"
        return dict(json.loads(out))

    def _answered(self, method: str, path: str, body: str) -> dict[str, Any]:
        Path("body.json").write_text(body, "utf-8")
        code, out = self._run(ShellCommand(("towpath", "api", method, path, "--input", "body.json", "-o", "json")))
        assert code == 0, f"{self.page}: {method} {path}: {out}"
        return dict(json.loads(out))

    def file(self, language: str, path: str) -> Path:
        """Write the next block as the file *path*."""
        block = self.take(language)
        place = Path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(block.text, "utf-8")
        return place

    def _up(self, words: tuple[str, ...]) -> tuple[int, str]:
        """Read what `towpath up` would start with; the platform is there, and takes the networks."""
        up_app.parse_args(["up", *words], exit_on_error=False, print_error=False)
        commands: list[tuple[str, ...]] = []
        for option, value in pairwise(words):
            if option == "--worker":
                commands.append(("tools", "lint", value))
            elif option == "--policy":
                commands.append(("policy", "diff", value))
            elif option == "--networks":
                networks = [
                    path for path in Path(value).glob("*.yaml") if "\nkind: Network\n" in f"\n{path.read_text()}"
                ]
                commands += [("networks", "publish", str(path)) for path in networks]
        for one in commands:
            code, out = self._run(ShellCommand(("towpath", *one)))
            if code and one[:2] != ("tools", "lint"):  # which ends with 1 where something could be declared better
                return code, f"{' '.join(one)}: {out}"
        return 0, ""

    def _run(self, command: ShellCommand) -> tuple[int, str]:
        self._capfd.readouterr()
        if command.words[0] == "cd":
            os.chdir(command.words[1])
            return 0, ""
        if command.words[0] == "export":
            self._exported += [(name, value) for name, _, value in (one.partition("=") for one in command.words[1:])]
            return 0, ""
        if command.words[0] in FETCHING:
            return 0, ""
        if command.words[:2] == ("towpath", "up"):
            return self._up(command.words[2:])
        if command.words[:2] == ("towpath", "worker"):
            make_app().parse_args(command.words[1:], exit_on_error=False, print_error=False)
            return 0, ""
        if command.words[0] == "towpath":
            with in_time(), pytest.MonkeyPatch.context() as patch:
                for name, value in (*self._exported, *command.variables):
                    patch.setenv(name, value)
                code = main(command.words[1:]) or 0
            shown = self._capfd.readouterr()
        else:
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            environment = {**os.environ, "PATH": path, **dict((*self._exported, *command.variables))}
            done = subprocess.run(
                command.words, env=environment, capture_output=True, text=True, check=False, timeout=COMMAND_S
            )
            code, shown = done.returncode, done
        out = shown.out if hasattr(shown, "out") else shown.stdout
        err = shown.err if hasattr(shown, "err") else shown.stderr
        if command.into:
            Path(command.into).write_text(out, "utf-8")
        return code, out + (err if code else "")


@contextlib.contextmanager
def in_time() -> Iterator[None]:
    """Raise TimeoutError in the block once it has taken `COMMAND_S`."""

    def late(*_: object) -> None:
        raise TimeoutError(f"it was not over after {COMMAND_S} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, COMMAND_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
