"""Makes mistakes as a person does, with the very readers of the product, and returns what was said.

`python -m tests.mistakes.making` reads mistakes as JSON and makes each in a fork of itself, in a folder of its own:
imports are paid once, and nothing of one mistake reaches the next.
"""

import contextlib
import gc
import importlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from tests.mistakes.cases import THEN, Mistake
from tests.support.places import ROOT
from tests.support.platform.sample_platform import ServedSample

WIDTH = "110"
NOWHERE = "http://127.0.0.1:9"
"""Where no platform answers: for mistakes that are to be noticed before one is asked."""

_LIMIT_S = 60
_LOG_LINE = ('{"event":', '{"role":')
"""What a service logs beside what it says to who started it."""

_STARTED = re.compile(r" *TIME  \w+ is ready after ")
"""Which process of a platform is ready first is different each time, and no mistake."""

_CHANGING = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"), "ID"),
    (re.compile(r"\bfits \d+ ids\b"), "fits N ids"),
    (re.compile(r"sha256:[0-9a-f]{64}"), "DIGEST"),
    (re.compile(r"\b(pid|kill -CONT) \d+"), r"\1 N"),
    (re.compile(r"\bafter \d+\.\d s$", re.MULTILINE), "after TIME"),
    (re.compile(r"\b\d+\.\d s ·"), "TIME ·"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "TRACE"),
    (re.compile(r"\bin \d+(\.\d+)? m?s\b *"), "in TIME "),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b"), "WHEN"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "TIME"),
)


def make_mistakes(mistakes: Iterable[Mistake], served: ServedSample | None = None) -> dict[str, str]:
    """Return what is said to each of the *mistakes*, by its name; *served* is the platform that is asked."""
    places = {} if served is None else _places(served)
    given = json.dumps({"server": NOWHERE, **places, "mistakes": [asdict(one) for one in mistakes]})
    command = [sys.executable, "-m", "tests.mistakes.making"]
    done = subprocess.run(command, cwd=ROOT, input=given, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def _places(served: ServedSample) -> dict[str, str]:
    """Return what stands in mistakes as {data}, {nats_url}, {port}, and the address."""
    state = json.loads((served.data / "state.json").read_text("utf-8"))
    port = str(urlsplit(state["gateway_url"]).port)
    found = {name: state[name] for name in ("nats_url", "database_url")}
    return {**found, "server": served.address, "data": str(served.data), "port": port}


def _make(mistake: Mistake, server: str) -> str:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in mistake.files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(text.encode("utf-8", "surrogateescape"))
        with tempfile.TemporaryFile() as output:
            child = os.fork()
            if child == 0:
                _be_made(mistake, server, folder, output.fileno())
            _, status = os.waitpid(child, 0)
            output.seek(0)
            said = output.read().decode("utf-8", "replace")
        ending = "" if mistake.way in ("http", "saved", "frozen") else f"(exit {os.waitstatus_to_exitcode(status)})\n"
        return _unchanging(said.replace(f"{folder}/", "").replace(str(folder), "."), server) + ending


def _unchanging(said: str, server: str) -> str:
    """Put words in the place of what is different each time."""
    said = said.replace(server, "SERVER")
    for pattern, word in _CHANGING:
        said = pattern.sub(word, said)
    told = (line for line in said.splitlines() if not (line.startswith(_LOG_LINE) or _STARTED.match(line)))
    return "".join(f"{line.rstrip()}\n" for line in told)


def _be_made(mistake: Mistake, server: str, folder: Path, output: int) -> NoReturn:
    """In the fork: do what was done, and end."""
    code = 1
    try:
        signal.alarm(_LIMIT_S)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(folder)
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        os.environ.clear()
        os.environ.update(kept | {"COLUMNS": WIDTH, "TOWPATH_SERVER": server, "NO_COLOR": "1"} | mistake.environment)
        code = _WAYS[mistake.way](mistake.text, server)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001 - a traceback is what a person would see
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _run(text: str, server: str) -> int:
    """Run command lines, the last of which is the mistake; `towpath up` and `worker` go on in the same process."""
    from towpath.cli import main

    os.execv = _go_on
    code = 0
    for line in text.strip().splitlines():
        words = shlex.split(line)
        assert words[0] == "towpath", line
        if words[-2:] == [">", os.devnull]:
            words = words[:-2]
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = main(words[1:])
    return code


def _go_on(_program: str, words: list[str]) -> NoReturn:
    """Stand for execv of `python -P -m MODULE WORDS…`."""
    at = words.index("-m") + 1
    module, arguments = words[at], words[at + 1 :]
    sys.flags.safe_path  # noqa: B018 - what -P sets; the folder of a person is not on the path of this process either
    code = _PROGRAMS[module](arguments)
    sys.exit(code)


def _worker(arguments: list[str]) -> int:
    from towpath_worker.__main__ import main

    return main(arguments)


def _embedded(arguments: list[str]) -> int:
    from towpath_embedded.__main__ import app

    return int(app(arguments, result_action="return_value") or 0)


_PROGRAMS: dict[str, Callable[[list[str]], int]] = {"towpath_worker": _worker, "towpath_embedded": _embedded}


def _python(text: str, _server: str) -> int:
    """Run a program of the user; what it raises is said as the end of a traceback, with the user's own lines."""
    Path("main.py").write_text(text, "utf-8")
    sys.path.insert(0, str(Path.cwd()))
    try:
        exec(compile(text, "main.py", "exec"), {"__name__": "__main__", "__file__": "main.py"})
    except Exception as error:  # noqa: BLE001 - what a person would see
        own = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "main.py"]
        sys.stderr.write(f"main.py:{own[-1] if own else '?'}: {type(error).__name__}: {error}\n")
        return 1
    return 0


def _http(text: str, server: str) -> int:
    """Send `METHOD PATH`, headers, an empty line and a body; print the status and the problem that came back."""
    head, _, body = text.partition("\n\n")
    first, *lines = head.strip().splitlines()
    method, path = first.split(" ", 1)
    headers = {"Content-Type": "application/json", **dict(line.split(": ", 1) for line in lines)}
    _scheme, _, rest = server.partition("://")
    token, _, place = rest.rpartition("@")
    key = token.partition(":")[2]
    headers = {"Authorization": f"Bearer {key}", **headers} if key else headers
    request = Request(f"http://{place}{path}", method=method, headers=headers, data=body.encode() or None)
    import urllib.error

    try:
        with build_opener(ProxyHandler({})).open(request, timeout=_LIMIT_S) as answer:
            found: Any = json.load(answer)
            status = answer.status
    except urllib.error.HTTPError as error:
        found, status = json.load(error), error.code
    sys.stdout.write(f"{status} {found.get('code')}  {found.get('title')}: {found.get('detail')}\n")
    for entry in found.get("errors", ()):
        sys.stdout.write(f"  - {entry['pointer']}: {entry['detail']}\n")
    sys.stdout.write(f"  {found.get('remedy')}\n")
    return 0


def _saved(text: str, _server: str) -> int:
    """Save a policy file that the platform follows, each of the texts in turn."""
    from tests.mistakes.followed_policy import save_in_turn

    save_in_turn(text.split(THEN), _given["database_url"])
    return 0


def _frozen(text: str, server: str) -> int:
    """Send a request while the database is stopped."""
    from tests.mistakes.frozen_server import freeze_database

    freeze_database(Path(_given["data"]), partial(_http, text, server))
    return 0


_given: dict[str, str] = {}
_WAYS: dict[str, Callable[[str, str], int]] = {
    "run": _run,
    "python": _python,
    "http": _http,
    "saved": _saved,
    "frozen": _frozen,
}


def _import_ahead(*, platform: bool) -> None:
    """Import what the mistakes use, so that no fork has to."""
    from towpath.cli.app import _COMMANDS, _PROCESSES

    commands = {f"towpath.cli.{path.partition(':')[0]}" for _, path, _ in (*_COMMANDS, *_PROCESSES)}
    others = (
        "towpath.client.http",
        "towpath.networks.spec_files",
        "towpath.testing",
        "towpath.cli.shared.usage_errors",
    )
    programs = ("towpath_worker.__main__", "towpath_embedded.__main__", "towpath_worker.adapters.mcp.server_list")
    for name in (*commands, *others, *programs, "rich.console", "cyclopts.panel", "towpath.client.client"):
        importlib.import_module(name)
    if platform:
        importlib.import_module("tests.mistakes.followed_policy")
        importlib.import_module("tests.mistakes.frozen_server")
    gc.freeze()


def _filled(mistake: Mistake, names: Mapping[str, str]) -> Mistake:
    def fill(text: str) -> str:
        for name, value in names.items():
            text = text.replace(name, value)
        return text

    environment = {name: fill(value) for name, value in mistake.environment.items()}
    return replace(mistake, text=fill(mistake.text), environment=environment)


def _main() -> None:
    given = json.load(sys.stdin)
    _given.update({name: text for name, text in given.items() if isinstance(text, str)})
    _import_ahead(platform="data" in given)
    found = {}
    names = {f"{{{name}}}": given[name] for name in ("data", "nats_url", "port") if name in given}
    names |= {"{server}": given["server"]}
    for one in given["mistakes"]:
        mistake = Mistake(**one)
        said = _make(_filled(mistake, names), given["server"])
        for name, value in names.items():
            said = re.sub(rf"{re.escape(value)}\b", name, said)
        found[mistake.name] = said
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    _main()
