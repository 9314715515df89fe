"""What `towpath doctor` says of processes that do not answer: in words, and with what helps."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from towpath.cli.administration import doctor_command
from towpath.cli.administration.doctor_command import (
    DoctorCheck,
    _check_model_keys,
    _check_process,
    _check_readiness,
    _check_server,
    _refused_once,
    _what_is_missing,
)
from towpath.client.settings import ClientSettings
from towpath.stopped_processes import is_stopped
from towpath_contracts.problems.registry import problem
from towpath_fabric.file_owners import write_private
from towpath_fabric.process_protection import PROVIDER_KEYS


async def test_a_process_that_is_stopped_is_told_with_what_lets_it_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_command, "is_stopped", lambda pid: pid == 7)
    stopped = DoctorCheck("postgres", False, "stopped (pid 7): it lives and answers nothing", "kill -CONT 7")
    assert await _check_process("postgres", {"pid": 7, "restarts": 0}) == [stopped]
    assert await _check_process("postgres", {"pid": 8, "restarts": 0}) == []
    assert await _check_process("postgres", {"pid": None, "restarts": 0}) == []


async def test_a_service_that_is_not_ready_says_what_it_waits_for() -> None:
    answer = '{"checks": {"postgres": "no answer in time", "nats": "ok"}}'
    assert _what_is_missing(answer) == "postgres: no answer in time"
    assert _what_is_missing("<html>") == "<html>" and _what_is_missing("[]") == "[]" and _what_is_missing("{}") == "{}"
    assert (await _check_readiness("http://127.0.0.1:9")).startswith("ConnectError")


@pytest.mark.parametrize(
    ("server", "kept", "given", "remedy"),
    [
        (None, "twp_old", {}, "towpath context add prod --server https://h --key-file FILE"),
        ("nats://ann:s3cret@h", "twp_old", {}, "towpath context add prod --server ADDRESS --key-file FILE"),
        (None, None, {"context": "prod"}, "towpath context add prod --server https://h --key-file FILE"),
        (None, None, {}, "Set TOWPATH_API_KEY to a key of this gateway"),
        (None, "twp_old", {"server": "http://g"}, "Set TOWPATH_API_KEY to a key of this gateway"),
        (None, "twp_old", {"api_key": "twp_other"}, "Give --api-key a key of this gateway"),
    ],
)
def test_another_key_is_put_where_the_refused_one_came_from(
    server: str | None,
    kept: str | None,
    given: dict[str, str],
    remedy: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOWPATH_API_KEY", "twp_new")
    file = tmp_path / "contexts.json"
    prod = {"name": "prod", "server": server or "https://h", "api_key": kept}
    write_private(file, json.dumps({"selected": "prod", "contexts": [prod]}))
    target = ClientSettings(contexts_file=file).target(**given)
    found = problem("unauthenticated", "the key is not valid")
    refused = DoctorCheck("runs", False, f"{found.code}: {found.detail}", found.remedy)
    (row,) = _refused_once([refused, refused._replace(check="tools")], target)
    assert remedy in row.remedy
    assert row.remedy.endswith("; who runs it makes one: towpath keys create.")


@pytest.mark.parametrize(("state", "stopped"), [("T", True), ("t", True), ("S", False), ("R", False)])
def test_the_state_stands_behind_the_name(state: str, stopped: bool, tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 (a) T ((b) {state} 1 7 7")
    assert is_stopped(7, tmp_path) is stopped


def test_of_a_process_that_is_not_there_nothing_is_said(tmp_path: Path) -> None:
    assert not is_stopped(7, tmp_path)
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text("")
    assert not is_stopped(7, tmp_path)


def test_the_kernel_tells_of_a_process_that_got_sigstop() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert not is_stopped(process.pid)
        process.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + 30
        while not is_stopped(process.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert is_stopped(process.pid)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("version", "good", "detail"),
    [(0, None, "none is in force: every call of a tool is denied"), (2, True, "version 2, 0 rules")],
)
async def test_a_platform_without_a_policy_is_told_that_it_denies_everything(
    version: int, good: bool | None, detail: str
) -> None:
    async def ask() -> Any:
        return SimpleNamespace(version=version, rules=())

    found = await _check_server("policy", ask)
    assert (found.good, found.detail) == (good, detail)
    assert ("towpath policy apply FILE" in found.remedy) == (not version)


def test_a_token_of_towpath_in_the_place_of_a_providers_key_is_told_and_no_provider_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*PROVIDER_KEYS, "TOWPATH_LOCAL_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".towpath"
    folder.mkdir(mode=0o700)
    write_private(folder / "authorization", "Authorization: Bearer tok-en\n")
    monkeypatch.setenv("OPENAI_API_KEY", "tok-en")
    keys, mistaken = _check_model_keys()
    assert (keys.check, keys.good, keys.detail) == ("model keys", None, "none")
    assert (mistaken.check, mistaken.good) == ("OPENAI_API_KEY", None)
    assert "holds a key of Towpath and none of a provider" in mistaken.detail
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    (keys,) = _check_model_keys()
    assert (keys.good, keys.detail) == (True, "openai")
