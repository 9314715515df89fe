"""`towpath context`: which platform is asked, whose key it is sent, and who may read the file."""

import asyncio
import errno
import inspect
import io
import json
import os
import re
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.gateway.web import Web, response, web

from towpath import run
from towpath.cli import main
from towpath.cli.shared.options import ConnectionOptions
from towpath.client.client import Client
from towpath.client.contexts import ContextFile, PlatformContext, address_fault, is_address, shown_address
from towpath.client.settings import ClientSettings
from towpath.errors import RefusedError, TowpathError
from towpath_contracts.problems.registry import ProblemError
from towpath_testing.evaluation.evaluator import EvaluationRequest, evaluate

KEY = "twp_secret_key"
PROD = PlatformContext(name="prod", server="https://prod.example", api_key=KEY)
TEST = PlatformContext(name="test", server="nats://ann:pass-word@test.example:4222")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ContextFile:
    """The file of contexts, with two of them; the first one is selected."""
    path = tmp_path / "config" / "contexts.json"
    for name in ("TOWPATH_SERVER", "TOWPATH_API_KEY", "TOWPATH_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TOWPATH_CONTEXTS_FILE", str(path))
    monkeypatch.chdir(tmp_path)
    held = ContextFile(path)
    held.add(PROD)
    held.add(TEST)
    return held


def asked(**given: str) -> tuple[str, str | None]:
    target = ConnectionOptions(**given).target()
    return target.server, target.api_key


def test_the_command_line_wins_over_the_environment_and_that_over_the_selected_context(
    file: ContextFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asked() == (PROD.server, KEY)
    file.select("test")
    assert asked() == (TEST.server, None)
    monkeypatch.setenv("TOWPATH_CONTEXT", "prod")
    assert asked() == (PROD.server, KEY)
    monkeypatch.setenv("TOWPATH_SERVER", "http://env.example")
    assert asked() == ("http://env.example", None)
    assert asked(context="prod") == (PROD.server, KEY)
    file.select("")
    monkeypatch.delenv("TOWPATH_SERVER")
    monkeypatch.setenv("TOWPATH_CONTEXT", "")
    assert asked() == ("http://127.0.0.1:8787", None)
    with pytest.raises(ProblemError, match="give one of them"):
        asked(context="prod", server="http://x")
    with pytest.raises(ProblemError, match="prod, test"):
        asked(context="prd")


def test_the_key_of_a_context_is_sent_to_its_own_platform_only(
    file: ContextFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asked(server="http://elsewhere.example") == ("http://elsewhere.example", None)
    assert ClientSettings().target("http://elsewhere.example").api_key is None
    monkeypatch.setenv("TOWPATH_API_KEY", "of-the-environment")
    assert asked() == (PROD.server, KEY), "the key of the environment may be another platform's"
    assert asked(api_key="given") == (PROD.server, "given")
    assert asked(context="prod") == (PROD.server, KEY), "who names a context means its key"
    monkeypatch.setenv("TOWPATH_CONTEXT", "prod")
    assert asked() == (PROD.server, KEY)
    monkeypatch.setenv("TOWPATH_CONTEXT", "test")
    assert asked() == (TEST.server, "of-the-environment"), "it keeps none"
    monkeypatch.delenv("TOWPATH_CONTEXT")
    assert Client().server == PROD.server
    file.add(PlatformContext(name="prod", server=PROD.server))
    assert main(["context", "add", "prod", "--server", "https://other.example"]) in (0, None)
    assert file.read().contexts["prod"].api_key is None


def server_at(site: Web) -> str:
    return site.url(host="127.0.0.1").rstrip("/")


async def test_a_context_without_a_key_is_sent_none(
    file: ContextFile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TOWPATH_API_KEY", "of-the-environment")
    suite = tmp_path / "suite.yaml"
    suite.write_text("kind: Evaluation\nnetwork: shop\ncases: [{name: greets, input: Hello}]\n")
    async with web(lambda _: response(404, b"{}")) as site:
        file.add(PlatformContext(name="staging", server=server_at(site)))
        file.add(PlatformContext(name="keyed", server=server_at(site), api_key=KEY))
        for context in ("staging", "keyed"):
            options = ConnectionOptions(context=context)
            async with options.connect() as client:
                with pytest.raises(TowpathError):
                    await client.tools.list()
            target = options.target()
            asked = EvaluationRequest(suite=suite, server=target.server, api_key=target.api_key)
            assert [found async for found in evaluate(asked)]
    sent = [(asked.path.split("?")[0], asked.headers.get("authorization")) for asked in site.asked]
    assert sent == [(path, key) for key in (None, f"Bearer {KEY}") for path in ("/v1/tools", "/v1/runs")]


def test_two_commands_that_change_the_file_lose_nothing(file: ContextFile) -> None:
    with ThreadPoolExecutor(8) as threads:
        added = [PlatformContext(name=f"c{number}", server="https://x.example") for number in range(40)]
        list(threads.map(ContextFile(file.path).add, added))
    assert {one.name for one in added} < file.read().contexts.keys()


def test_a_file_that_can_not_be_written_leaves_no_keys_behind(
    file: ContextFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_given: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="full"):
        file.add(TEST)
    assert [path.name for path in file.path.parent.glob("contexts.json*.new")] == []


async def test_an_address_that_nobody_answers_at_is_named_without_its_password(
    file: ContextFile, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["runs", "list"], ["doctor"]):
        assert await asyncio.to_thread(main, [*words, "--server", "http://ann:pass-word@127.0.0.1:1"]) != 0
    async with web(lambda _: response(200)) as site:
        there = server_at(site).replace("//", "//ann:pass-word@")
        await asyncio.to_thread(main, ["doctor", "--server", there])
    async with Client("http://ann:pass-word@127.0.0.1:1") as client:
        with pytest.raises(TowpathError) as error:
            await client.tools.list()
    said = capsys.readouterr()
    assert "***@127.0.0.1" in said.err and "***@127.0.0.1" in said.out and "***@127.0.0.1" in str(error.value)
    assert "pass-word" not in f"{said}{error.value}"


def test_a_key_stays_while_the_address_does_and_goes_with_it(file: ContextFile) -> None:
    assert main(["context", "add", "prod", "--server", PROD.server, "--description", "the shop"]) in (0, None)
    assert file.read().contexts["prod"].api_key == KEY
    assert main(["context", "add", "prod", "--server", "https://other.example"]) in (0, None)
    assert file.read().contexts["prod"].api_key is None


@pytest.mark.prints("context list", "context select", "context show")
def test_no_secret_is_printed(file: ContextFile, capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("table", "json", "jsonl", "yaml"):
        for words in (["list"], ["show", "prod"], ["show", "test"], ["select", "test"]):
            assert main(["context", *words, "-o", form]) in (0, None)
        assert main(["config", "show", "--origin", "-o", form]) in (0, None)
    shown = capsys.readouterr().out
    assert "nats://***@test.example:4222" in shown
    assert KEY not in shown and "pass-word" not in shown
    assert KEY not in repr(PROD) and "pass-word" not in repr(TEST)
    file.path.write_text(f'{{"selected": "prod", "contexts": [{{"name": "prod", "api_key": "{KEY}"}}]}}')
    assert main(["context", "list"]) == 2
    assert KEY not in capsys.readouterr().err


def test_the_file_is_its_owners_alone(file: ContextFile, capsys: pytest.CaptureFixture[str]) -> None:
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    for mode in (0o640, 0o604, 0o620):
        file.path.chmod(mode)
        assert main(["runs", "list"]) == 1
        said = capsys.readouterr().err
        assert said.startswith("contexts_shared ") and f"chmod 600 {file.path}" in said
    file.path.chmod(0o600)
    assert main(["context", "list"]) in (0, None)
    file.path.parent.chmod(0o777)
    assert main(["context", "list"]) == 1, "whoever may write the folder may put another file there"
    file.path.parent.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(file.path, 65_534, 65_534)
        assert main(["context", "list"]) == 1


def test_a_key_comes_from_a_file_or_standard_input(
    file: ContextFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "key").write_text(f"{KEY}-2\n")
    assert main(["context", "add", "new", "--server", "https://n.example", "--key-file", "key", "--select"]) in (
        0,
        None,
    )
    held = file.read()
    assert (held.selected, held.contexts["new"].api_key) == ("new", f"{KEY}-2")
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{KEY}-3\n"))
    assert main(["context", "add", "new", "--server", "https://n.example", "--key-file", "-"]) in (0, None)
    assert file.read().contexts["new"].api_key == f"{KEY}-3"
    (tmp_path / "key").write_text("two words\n")
    assert main(["context", "add", "new", "--server", "https://n.example", "--key-file", "key"]) == 2
    assert "two words" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "server"),
    [
        *[
            ("Prod", "https://x"),
            ("../x", "https://x"),
            ("x", "ftp://x"),
            ("x", "https://"),
            ("x", "http://h:99999999"),
        ],
        *[("x", "http://u:pass-word@[x"), ("x", "http://u:pass-word@\N{CARE OF}x"), ("x", "u:pass-word@host")],
        *[("x", f"{scheme}://u:12{mark}pass-word@host") for scheme in ("http", "nats") for mark in "/#?"],
        *[
            ("x", text)
            for text in ("http://u:pass-word/@host", "nats://u:pass-word", "u:pass-word", "nats:/u:pass-word")
        ],
        *[("x", text) for text in ("nats://[::1]:pass-word", "nats://u:12345pass-word", "http:u:pass-word")],
    ],
)
def test_what_can_be_no_context_is_refused(
    file: ContextFile, name: str, server: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["context", "add", name, "--server", server]) == 2
    assert len(file.read().contexts) == 2
    if not is_address(server):
        assert main(["runs", "list", "--server", server]) == 2, "nobody was asked"
    with pytest.raises(ProblemError) as refused:
        Client(server if "pass-word" in server else "u:pass-word@host")
    assert "pass-word" not in f"{capsys.readouterr()}{refused.value}"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        *[
            (one, one)
            for one in ("localhost:8787", "http:/localhost:8787", "http:localhost", "ftp://h:21/x", "http://[::1")
        ],
        *[
            ("nats://u:secret", "nats://u:***"),
            ("http://h:99999999", "http://h:***"),
            ("http://[::1]:x", "http://[::1]:***"),
        ],
        ("nats://u:12/3secret@host", "***@host"),
    ],
)
def test_what_is_no_address_is_shown_without_what_may_be_a_password(address: str, shown: str) -> None:
    assert not is_address(address)
    assert shown_address(address) == shown


@pytest.mark.prints("context remove")
def test_a_context_is_removed_once_it_is_confirmed(file: ContextFile, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["context", "remove", "prod"]) == 2
    assert "--yes" in capsys.readouterr().err
    assert main(["context", "remove", "prod", "--yes", "-o", "json"]) in (0, None)
    assert json.loads(capsys.readouterr().out) == {"removed": "prod", "selected": None}
    assert list(file.read().contexts) == ["test"]
    assert main(["context", "show"]) == 3
    assert main(["context", "select", "prod"]) == 3
    assert main(["context", "select"]) == 2


def test_a_setting_says_where_it_comes_from(
    file: ContextFile, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def origins(*words: str) -> dict[str, str]:
        assert main(["config", "show", "--origin", "-o", "json", *words]) in (0, None)
        return {one["name"]: one["origin"] for one in json.loads(capsys.readouterr().out)["settings"]}

    assert origins() == {
        "server": "context prod",
        "api_key": "context prod",
        "context": "selected",
        "contexts_file": "TOWPATH_CONTEXTS_FILE",
    }
    monkeypatch.setenv("TOWPATH_API_KEY", "x")
    monkeypatch.setenv("TOWPATH_SERVER", "http://x")
    found = origins()
    assert (found["server"], found["api_key"], found["context"]) == ("TOWPATH_SERVER", "TOWPATH_API_KEY", "default")
    found = origins("--context", "prod", "--api-key", "y")
    assert (found["server"], found["api_key"], found["context"]) == ("context prod", "given", "given")
    file.select("")
    monkeypatch.delenv("TOWPATH_SERVER")
    assert origins()["server"] == "default"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("ftp://localhost:8787", "http://localhost:8787"),
        ("nat://localhost:4222", "nats://localhost:4222"),
        ("natss://h:4222", "nats://h:4222"),
    ],
)
def test_an_address_with_another_scheme_is_told_with_the_one_that_was_meant(typed: str, meant: str) -> None:
    assert address_fault(typed) == f"{typed!r} is no address of a platform; did you mean {meant}?"


def test_an_address_that_is_none_is_told_with_the_one_place_that_has_it(
    file: ContextFile, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "list", "--server", "localhost:8787"]) == 2
    fault = "'localhost:8787' is no address of a platform; did you mean http://localhost:8787?"
    said = capsys.readouterr().err
    assert (
        f"request_invalid  The request is not valid: --server: {fault}\n  Correct the command and run it again.\n"
        == said
    )
    with pytest.raises(RefusedError) as refused:
        Client("localhost:8787")
    line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
    assert str(refused.value) == f"request_invalid: {__file__}:{line}: server: {fault} Correct it, and try again."
    with pytest.raises(RefusedError, match=rf"{re.escape(__file__)}:\d+: server: 'localhost:8787' is"):
        run.sync("shop", "hi", server="localhost:8787")
    monkeypatch.setenv("TOWPATH_SERVER", "localhost:8787")
    assert main(["runs", "list"]) == 2
    assert f": TOWPATH_SERVER: {fault}\n  Correct TOWPATH_SERVER, and try again.\n" in capsys.readouterr().err
    monkeypatch.delenv("TOWPATH_SERVER")
    file.path.write_text(file.path.read_text().replace("https://prod.example", "prod.example"))
    assert main(["runs", "list"]) == 2
    said = capsys.readouterr().err
    assert f"{file.path}: context prod: 'prod.example' is no address" in said and "Correct that in the file." in said


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (
            "http://h:port",
            (
                "the port of http://h:*** is no number up to 65535 (it is not shown, since it may be a "
                "password); write e.g. http://h:8787"
            ),
        ),
        (
            "nats://h:x",
            (
                "the port of nats://h:*** is no number up to 65535 (it is not shown, since it may be a "
                "password); write e.g. nats://h:4222"
            ),
        ),
        ("http://h:70000", "the port of http://h:70000 is no number up to 65535; write e.g. http://h:8787"),
        ("http://h:99999/x:y", "the port of http://h:99999/x:y is no number up to 65535; write e.g. http://h:8787"),
        (
            "http://[::1]:99999?y:z",
            "the port of http://[::1]:99999?y:z is no number up to 65535; write e.g. http://[::1]:8787",
        ),
    ],
)
def test_a_port_that_is_none_is_told_with_the_host_that_was_given(typed: str, told: str) -> None:
    assert address_fault(typed) == told
