"""What a program may reach in a sandbox, and what happens where there is none."""

import errno
import logging
import os
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
import structlog
from pydantic import ValidationError

from towpath import Sandbox, ToolError, run_process
from towpath.errors import DeclarationError, RefusedError
from towpath.project.mcp_servers import load_servers
from towpath.tools import sandbox as sandboxes
from towpath.tools.isolation import data_folders, granted_path
from towpath.tools.isolation.data_folders import set_data_folder
from towpath.tools.isolation.sandbox_mounts import HOME
from towpath.tools.isolation.system_call_filter import system_call_filter
from towpath.tools.process import as_sandbox
from towpath.tools.sandbox import (
    Bubblewrap,
    default_mode,
    find_bubblewrap,
    refusal,
    set_defaults,
)
from towpath_embedded.start_checks import UpOptions
from towpath_embedded.terminal.log_notices import sandbox_notice
from towpath_embedded.up import up
from towpath_worker.settings import WorkerSettings
from towpath_worker.wiring import note_sandboxes, require_sandboxes

MODES = """
servers:
  notes: {command: notes-server, sandbox: MODE}
  sheets: {url: "https://sheets.example.com/mcp"}
"""
EGRESS_OF_SERVERS = """
servers:
  said: {command: x, egress: ["b.test:443"]}
  nothing: {command: x, egress: []}
  network: {command: x, network: true}
  unsaid: {command: x}
"""
LOOK = "cat notes.txt; ls -A .towpath; ls -A ~; echo x >> notes.txt && echo changed"


@pytest.fixture
def without_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose kernel refuses."""
    refused = Bubblewrap("", "bwrap: No permissions to create new namespace")
    monkeypatch.setattr(sandboxes, "find_bubblewrap", lambda: refused)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A person's folder, with the data of an embedded platform in it."""
    (tmp_path / "notes.txt").write_text("the notes\n")
    (tmp_path / ".towpath").mkdir()
    (tmp_path / ".towpath" / "ticket.key").write_text("secret")
    return tmp_path


def test_a_sandbox_can_be_had_where_these_tests_run() -> None:
    """The extra `sandbox` brings bubblewrap; a machine that forbids user namespaces says so."""
    assert not refusal() or "namespace" in refusal() or "Operation not permitted" in refusal(), refusal()


@pytest.mark.parametrize(("grant", "last"), [({}, ""), ({"writable": True}, "changed\n")])
async def test_the_working_folder_is_read_and_changed_only_where_that_is_granted(
    folder: Path, grant: dict[str, bool], last: str
) -> None:
    sandbox = Sandbox(mode="preferred", writable=(folder,) if grant else ())
    done = await run_process("sh", "-c", LOOK, cwd=folder, sandbox=sandbox)
    if not refusal():
        assert done.text == f"the notes\n{last}"
        assert (folder / "notes.txt").read_text() == ("the notes\nx\n" if grant else "the notes\n")


async def test_an_inner_grant_keeps_what_was_said_of_it_and_no_grant_brings_a_data_folder_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_folders, "_own", None)
    monkeypatch.setattr(data_folders, "_held", {})
    set_data_folder(folder / "deep" / "data")
    for place in ("deep/data", "fixed"):
        (folder / place).mkdir(parents=True)
        (folder / place / "kept.txt").write_text("kept")
    look = "ls -A .towpath deep/data; echo x > fixed/new || echo refused; echo x > new && echo written"
    sandbox = Sandbox(
        mode="preferred",
        files=(folder / "fixed", folder / "deep" / "data" / "kept.txt", folder / ".." / folder.name),
        writable=(folder,),
    )
    done = await run_process("sh", "-c", look, cwd=folder, sandbox=sandbox)
    if not refusal():
        assert done.text == ".towpath:\n\ndeep/data:\nrefused\nwritten\n"
        assert not (folder / "fixed" / "new").exists()


@pytest.fixture
def linked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another name of the folder, as the system may have one; this worker's platform keeps its data below it."""
    data = folder / "deep" / "data"
    data.mkdir(parents=True)
    (data / "seal.key").write_text("secret")
    monkeypatch.setattr(data_folders, "_own", None)
    monkeypatch.setattr(data_folders, "_held", {})
    monkeypatch.setattr(granted_path, "is_of_the_system", lambda *_: True)
    set_data_folder(data)
    link = folder.with_name(folder.name + "-link")
    link.symlink_to(folder)
    return link


async def test_another_name_of_a_folder_brings_no_data_folder_back(folder: Path, linked: Path) -> None:
    granted = Sandbox(mode="preferred", files=(linked, linked / "deep" / "data" / "seal.key"))
    look = f"cat {linked}/notes.txt; ls -A {linked}/deep/data {linked}/.towpath; cat {linked}/deep/data/seal.key"
    done = await run_process("sh", "-c", look, sandbox=granted)
    if not refusal():
        assert "the notes" in done.text
        assert "secret" not in done.text and "seal.key" not in done.text.replace("deep/data/seal.key", "")


async def test_a_key_behind_a_link_that_is_granted_is_empty(folder: Path, linked: Path) -> None:
    other = folder.with_name(folder.name + "-key")
    other.symlink_to(folder / "deep" / "data" / "seal.key")
    done = await run_process("sh", "-c", f"cat {other}; echo looked", sandbox=Sandbox(mode="preferred", files=(other,)))
    assert refusal() or done.text == "looked\n"


async def test_databases_of_platforms_are_hidden_wherever_the_machine_keeps_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trust in a folder that others can't enter is no protection from what was granted all of `/tmp`, or `/var`."""
    for name, inside in (
        ("tmp/towpath-s1", ".s.PGSQL.5432"),
        ("tmp/towpath-e1", "lock"),
        ("tmp/towpath-own", "work.txt"),
        ("var/cluster-x", "data"),
        ("var/runtime-x", "bin"),
    ):
        (folder / name).mkdir(parents=True)
        (folder / name / inside).write_text("inside")
    monkeypatch.setattr(data_folders, "_CLUSTER_PLACES", (folder / "var",))
    monkeypatch.setattr("tempfile.tempdir", str(folder / "tmp"))
    done = await run_process(
        "find", folder / "tmp", folder / "var", "-type", "f", sandbox=Sandbox(files=(folder,), mode="preferred")
    )
    if not refusal():
        assert sorted(Path(line).name for line in done.text.splitlines()) == ["bin", "work.txt"]


async def test_a_program_has_an_empty_home_and_its_own_way_to_fail() -> None:
    done = await run_process("sh", "-c", "pwd; ls -A; exit 3", sandbox="preferred")
    assert done.returncode == 3
    assert refusal() or done.text == f"{HOME}\n"
    for command in (("surely-not-there",), ("/surely/not/there",)):
        with pytest.raises(ToolError) as missing:
            await run_process(*command, sandbox="preferred")
        assert missing.value.code == "process_not_found"


async def test_a_grant_of_what_is_not_there_is_told(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    if not refusal():
        with pytest.raises(ToolError, match=f"{missing} is granted to it and does not exist"):
            await run_process("true", sandbox=Sandbox(files=(missing,)))


async def test_a_virtual_environment_works_in_a_sandbox() -> None:
    done = await run_process(sys.executable, "-c", "import pydantic; print(pydantic.__name__)", sandbox="preferred")
    assert done.text == "pydantic\n"


@pytest.mark.parametrize(
    ("grant", "told"),
    [
        ({"egress": ("https://api.test", "a.test:443", "me@a.test", "a.test:0", "")}, 4),
        ({"egress": ("a.test:443",), "network": True}, 1),
        ({"egress": "a.test:443"}, 1),
    ],
)
def test_an_egress_that_can_not_be_meant_is_refused_with_every_fault(grant: dict[str, Any], told: int) -> None:
    with pytest.raises(DeclarationError) as refused:
        Sandbox(**grant)
    assert str(refused.value).count(";") == told - 1


def test_the_operator_grants_an_egress_to_programs_for_which_nothing_else_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandboxes, "_default", "none")
    monkeypatch.setattr(sandboxes, "_default_egress", ())
    with pytest.raises(ValidationError, match=r"https://a\.test"):
        WorkerSettings(worker_sandbox_egress="a.test:443 https://a.test")
    set_defaults("preferred", ("a.test:443",))
    assert as_sandbox(None) == as_sandbox("preferred") == Sandbox(mode="preferred", egress=("a.test:443",))
    assert as_sandbox(Sandbox()).egress == ()
    file = tmp_path / "servers.yaml"
    file.write_text(EGRESS_OF_SERVERS)
    servers = load_servers(file).servers
    granted = {name: server.sandbox_in(tmp_path).egress for name, server in servers.items()}
    assert granted == {"said": ("b.test:443",), "nothing": (), "network": (), "unsaid": ("a.test:443",)}


def test_an_egress_in_the_file_of_servers_that_can_not_be_meant_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "servers.yaml"
    file.write_text('servers:\n  a: {command: x, egress: ["https://a.test", "b.test:443"], network: true}\n')
    with pytest.raises(RefusedError, match=r"https://a\.test.*network: true"):
        load_servers(file)
    file.write_text('servers:\n  a: {url: "https://a.test", egress: ["b.test:443"]}\n')
    with pytest.raises(RefusedError, match="egress does not belong"):
        load_servers(file)


@pytest.mark.usefixtures("without_bubblewrap")
async def test_without_bubblewrap_a_required_sandbox_is_refused_and_a_preferred_one_left_out() -> None:
    assert (await run_process("echo", "done", sandbox="preferred")).text == "done\n"
    with pytest.raises(ToolError, match="No permissions") as refused:
        await run_process("echo", "done", sandbox="required")
    assert refused.value.code == "sandbox_unavailable"


async def test_the_default_is_the_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandboxes, "_default", "none")
    monkeypatch.setattr(sandboxes, "_default_egress", ())
    assert default_mode() == "none"
    set_defaults("preferred")
    homes = {(await run_process("sh", "-c", "echo ~", sandbox=mode)).text for mode in (None, "preferred")}
    assert homes == {f"{HOME}\n"} or refusal()


@pytest.mark.usefixtures("without_bubblewrap")
@pytest.mark.parametrize("mode", ["required", "preferred", "none"])
def test_a_worker_refuses_to_start_or_says_once_what_runs_without_a_sandbox(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("towpath_worker.wiring.refusal", lambda: sandboxes.find_bubblewrap().refusal)
    file = tmp_path / "servers.yaml"
    file.write_text(MODES.replace("MODE", mode))
    servers, settings = load_servers(file), WorkerSettings()
    log = structlog.wrap_logger(logging.getLogger("worker"), wrapper_class=structlog.stdlib.BoundLogger)
    if mode == "required":
        with pytest.raises(RefusedError, match="notes: bwrap: No permissions") as refused:
            require_sandboxes(settings, servers)
        assert refused.value.code == "sandbox_unavailable"
        return
    require_sandboxes(settings, servers)
    note_sandboxes(settings, servers, log)
    (record,) = caplog.records
    assert "without a sandbox" in record.getMessage()
    assert "notes" in record.getMessage()


def test_up_tells_what_a_worker_runs_without_a_sandbox() -> None:
    line = '{"event": "MCP servers run without a sandbox", "servers": ["notes"], "remedy": "sandbox: preferred"}'
    told = sandbox_notice("worker-2", line)
    assert told == "worker-2: MCP servers run without a sandbox: notes; sandbox: preferred"
    assert sandbox_notice("tas", line) is None
    assert sandbox_notice("worker", "without a sandbox") is None


def test_the_filter_refuses_and_allows_by_number_and_argument() -> None:
    program = system_call_filter("x86_64")
    assert program is not None
    refused, allowed = 0x0005_0000 | errno.EPERM, 0x7FFF_0000
    missing, no_family, no_pair = (0x0005_0000 | code for code in (errno.ENOSYS, errno.EAFNOSUPPORT, errno.EOPNOTSUPP))
    decided = {
        (101,): refused,  # ptrace
        (0,): allowed,  # read
        (56, 17): allowed,  # clone, as fork does it
        (56, 0x1000_0011): refused,
        (435,): missing,
        (16, 1, 0x5412): refused,  # TIOCSTI
        (16, 1, 0x5401): allowed,
        (41, 2, 1): allowed,  # an internet socket
        (41, 1, 1): no_family,  # a unix socket
        (41, 40, 1): no_family,
        (53, 1, 0x80801): allowed,  # a pair of streams, not inherited, not blocking
        (53, 1, 5): allowed,
        (53, 1, 2): no_pair,  # of datagrams
        (53, 1, 0x80003): no_pair,  # of raw ones, which are made datagrams
        (0x4000_0000 + 101,): refused,
    }
    assert {call: run_filter(program, 0xC000_003E, *call) for call in decided} == decided
    assert run_filter(program, 0x4000_0003, 101) == 0x8000_0000
    other = system_call_filter("aarch64")
    assert other is not None
    assert run_filter(other, 0xC000_00B7, 117) == refused
    assert run_filter(other, 0xC000_00B7, 199, 1, 2) == no_pair
    assert system_call_filter("m68k") is None


@pytest.mark.parametrize(
    ("machine", "arch", "modes", "opens"),
    [
        ("x86_64", 0xC000_003E, {90: 1, 91: 1, 268: 2, 452: 2, 83: 1, 258: 2, 133: 1, 259: 2, 85: 1}, {2: 1, 257: 2}),
        ("aarch64", 0xC000_00B7, {52: 1, 53: 2, 452: 2, 34: 2, 33: 2}, {56: 2}),
    ],
)
def test_the_filter_refuses_every_mode_that_gives_others_the_rights_of_a_file(
    machine: str, arch: int, modes: dict[int, int], opens: dict[int, int]
) -> None:
    program = system_call_filter(machine)
    assert program is not None
    refused, allowed = 0x0005_0000 | errno.EPERM, 0x7FFF_0000
    for number, at in modes.items():
        for mode, answer in ((0o4755, refused), (0o2755, refused), (0o6000, refused), (0o1777, allowed)):
            assert run_filter(program, arch, number, *[0] * at, mode) == answer, (number, oct(mode))
        assert run_filter(program, arch, number, *[0o6000] * at, 0o755) == allowed, "another argument is no mode"
    for number, at in opens.items():
        for flags, mode, answer in (
            (os.O_CREAT | os.O_WRONLY, 0o4755, refused),
            (os.O_TMPFILE | os.O_RDWR, 0o2755, refused),
            (os.O_CREAT | os.O_WRONLY, 0o1755, allowed),
            (os.O_DIRECTORY | os.O_CLOEXEC, 0o7777, allowed),  # what is opened exists, and this is not looked at
        ):
            assert run_filter(program, arch, number, *[0] * at, flags, mode) == answer, (number, flags, oct(mode))
    assert run_filter(program, arch, 437) == 0x0005_0000 | errno.ENOSYS, "openat2 has its mode in memory"


def run_filter(program: bytes, arch: int, number: int, *arguments: int) -> int:
    """Return what the program answers, as the kernel would run it."""
    data = struct.pack("=IIQ6Q", number, arch, 0, *arguments, *[0] * (6 - len(arguments)))
    place = value = 0
    while True:
        code, when, otherwise, operand = struct.unpack_from("=HBBI", program, 8 * place)
        place += 1
        if code == 0x06:
            return int(operand)
        if code == 0x20:
            (value,) = struct.unpack_from("=I", data, operand)
        elif code == 0x54:
            value &= operand
        else:
            holds = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
            place += when if holds else otherwise


def test_a_bubblewrap_that_fails_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho the kernel says no >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sandboxes, "_candidates", lambda: iter([str(broken)]))
    monkeypatch.setattr(sandboxes, "_found", None)
    found = Bubblewrap("", f"{broken}: the kernel says no")
    assert find_bubblewrap() == found
    working = tmp_path / "working"
    working.write_text("#!/bin/sh\nexit 0\n")
    working.chmod(0o755)
    monkeypatch.setattr(sandboxes, "_candidates", lambda: iter([str(working)]))
    assert find_bubblewrap() == found, "it is not tried again at once"
    monkeypatch.setattr(sandboxes, "_try_again_at", 0.0)
    assert find_bubblewrap() == Bubblewrap(str(working), "")


def test_up_refuses_before_it_starts_anything_where_a_required_sandbox_can_not_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("towpath_embedded.start_checks.refusal", lambda: "the kernel says no")
    options = UpOptions(data=tmp_path / "data", gateway_port=None, nats_port=None, sandbox="required")
    assert up(options) == 1
    told = capsys.readouterr().err
    assert "sandbox_unavailable" in told
    assert "the kernel says no" in told
    assert not (tmp_path / "data").exists()
