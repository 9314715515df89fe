"""`towpath logs`: the lines of a data folder's processes, whose, how many, since when, and until when."""

import asyncio
import fcntl
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from towpath.cli import main
from towpath.cli.administration.logs_command import logs
from towpath.cli.shared.exit_codes import NOT_FOUND, OK
from towpath_fabric.clock import wall
from towpath_fabric.telemetry.log_follower import readable_line, time_of_line

AT = datetime(2026, 11, 27, 4, 49, 3, tzinfo=UTC)


def of_service(event: str, seconds: int = 0, **values: object) -> str:
    at = (AT + timedelta(seconds=seconds)).isoformat()
    return json.dumps({"event": event, "level": "info", "timestamp": at, "role": "tas", **values}) + "\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder whose platform has ended."""
    (tmp_path / "logs").mkdir(mode=0o700)
    for name, text in {
        "tas": of_service("first", run_id="r-1", why="not now"),
        "nats": "[31790] 2026/11/27 04:49:04.083916 [INF] second\n",
        "tas-2": of_service("third", 2, level="warning", exception="Traceback\n  x\nValueError: no\x1b[31m"),
        "postgres": "2026-11-27 04:49:06.358 UTC [31762] LOG:  fourth\n\tits detail\nhalf a li",
    }.items():
        (tmp_path / "logs" / f"{name}.log").write_text(text)
    (tmp_path / "logs" / "tas.log.1").write_text(of_service("put aside", -9))
    for path in (tmp_path, *(tmp_path / "logs").iterdir()):
        path.chmod(0o700)
    return tmp_path


def shown(capsys: pytest.CaptureFixture[str], *words: str | Path) -> list[str]:
    assert main(["logs", *map(str, words)]) == OK
    return capsys.readouterr().out.splitlines()


def test_lines_of_all_processes_are_told_in_order_of_time(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def clock(seconds: int) -> str:
        return f"{(AT + timedelta(seconds=seconds)).astimezone():%H:%M:%S}"

    assert shown(capsys, "--data", data) == [
        f"tas           {clock(-9)} put aside",
        f'tas           {clock(0)} first run_id=r-1 why="not now"',
        f"nats          {clock(1)} [INF] second",
        f"tas-2         {clock(2)} warning: third (ValueError: no[31m)",
        f"postgres      {clock(3)} [31762] LOG:  fourth",
        "postgres               its detail",
    ]


def test_a_service_is_named_with_all_its_replicas(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [line.split()[0] for line in shown(capsys, "tas", "--data", data)] == ["tas", "tas", "tas-2"]
    assert [line.split()[0] for line in shown(capsys, "tas-2", "nats", "--data", data)] == ["nats", "tas-2"]
    assert main(["logs", "posgres", "--data", str(data)]) == NOT_FOUND
    assert "no process called posgres has a log here; did you mean postgres?" in capsys.readouterr().err
    (data / "logs" / "log_writer.log").write_text(of_service("kept"))
    assert len(shown(capsys, "log-writer", "--data", data)) == 1


def test_so_many_lines_and_from_a_moment_on(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ["second" in line for line in shown(capsys, "-n", "4", "--data", data)] == [True, False, False, False]
    assert len(shown(capsys, "--since", "2026-11-27T04:49:04", "--data", data)) == 4
    assert shown(capsys, "--since", "1m", "--data", data) == [] == shown(capsys, "-n", "0", "--data", data)
    (data / "logs" / "worker.log").write_text("".join(of_service(f"line {n}", 60) for n in range(200)))
    assert len(shown(capsys, "--data", data)) == 100
    assert len(shown(capsys, "--since", "2026-11-27", "--data", data)) == 206


@pytest.mark.prints("logs")
def test_programs_read_the_lines_as_they_were_written(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = json.loads("\n".join(shown(capsys, "nats", "-o", "json", "--data", data)))["lines"]
    assert found == {"process": "nats", "line": "[31790] 2026/11/27 04:49:04.083916 [INF] second"}
    lines = [json.loads(line) for line in shown(capsys, "tas", "-o", "jsonl", "--data", data)]
    assert [json.loads(line["line"])["event"] for line in lines] == ["put aside", "first", "third"]


def test_it_is_said_where_no_platform_was_or_none_is_any_more(
    data: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["logs", "--data", str(data)]) == OK
    assert f"no platform runs on {data}: these lines are of the last one" in capsys.readouterr().err
    assert main(["logs", "--data", str(tmp_path_factory.mktemp("none"))]) == NOT_FOUND
    assert "One with --ephemeral keeps them, until it ends, in the folder" in capsys.readouterr().err


def test_what_others_may_write_is_not_read(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / "logs" / "tas.log").chmod(0o666)
    assert main(["logs", "--data", str(data)]) != OK
    said = capsys.readouterr()
    assert "data_folder_shared" in said.err and "tas.log" in said.err and said.out == ""


async def test_what_is_written_from_now_on_is_followed_until_the_platform_ends(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data / "state.json").write_text(json.dumps({"pid": os.getpid()}))
    said: list[str] = []

    async def until(words: str) -> None:
        for _ in range(6_000):
            said.append(capsys.readouterr().out)
            if words in "".join(said):
                return
            await asyncio.sleep(0.01)
        pytest.fail("".join(said))

    with (data / "lock").open("w") as lock:
        for path in (data / "lock", data / "state.json"):
            path.chmod(0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        following = asyncio.create_task(logs("tas", "postgres", follow=True, lines=1, data=data, output="json"))
        await until("its detail")
        for name in ("nats", "tas"):
            with (data / "logs" / f"{name}.log").open("a") as log:
                log.write(of_service(f"new of {name}"))
        await until("new of tas")
        assert not following.done()
    async with asyncio.timeout(60):
        await following
    assert "the platform has ended" in capsys.readouterr().err
    assert [json.loads(line)["process"] for line in "".join(said).splitlines()] == ["postgres", "tas"]


def test_a_line_that_no_service_wrote_is_told_as_it_is() -> None:
    assert readable_line('{"broken') == '         {"broken' and time_of_line('{"broken') is None
    assert readable_line("[1, 2]") == "         [1, 2]" and time_of_line('{"event": "x"}') is None
    assert time_of_line('{"event": "x", "timestamp": "now"}') is None
    assert time_of_line("2026-13-27 04:49:06 UTC x") is None
    assert time_of_line(of_service("now").replace(AT.isoformat(), wall().isoformat())) is not None
