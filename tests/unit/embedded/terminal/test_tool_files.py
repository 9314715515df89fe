"""What `towpath up` tells of files with tools that are saved while it runs: their worker has what they were."""

import asyncio
from pathlib import Path

import pytest

from towpath_embedded.terminal.tool_files import (
    LARGEST_BYTES,
    LOOK_S,
    FunctionNames,
    ToolFiles,
    function_names,
    tool_places,
)

TOOLS = "@tool\ndef find(): ...\n\n\n@towpath.tool(name='refund')\nasync def refund(): ...\n"
AGAIN = "start towpath up again: tools are read at the start alone"


@pytest.mark.parametrize(
    ("saved", "told"),
    [
        (TOOLS + "# more\n", f"was saved, and its worker goes on with the file as it was; {AGAIN}"),
        (
            TOOLS.replace("@tool\n", ""),
            f"was saved, and its worker goes on with the file as it was; no @tool stands any more above find; {AGAIN}",
        ),
        (
            TOOLS.replace("find", "look_up"),
            f"was saved, and its worker goes on with the file as it was; gone is find; {AGAIN}",
        ),
        (None, f"is gone, and its worker goes on with it; {AGAIN}"),
        (TOOLS, None),
    ],
)
def test_a_saved_file_is_told_once_with_the_functions_that_are_tools_no_more(
    tmp_path: Path, saved: str | None, told: str | None
) -> None:
    file = tmp_path / "orders.py"
    file.write_text(TOOLS)
    shown: list[tuple[str, str]] = []
    files = ToolFiles([tmp_path], lambda line, style: shown.append((line, style)))
    files.look()
    assert shown == []
    file.unlink()
    if saved is not None:
        file.write_text(saved)
    files.look()
    files.look()
    assert shown == ([] if told is None else [(f"{file} {told}", "yellow")])


def test_a_file_that_is_no_python_is_told_with_its_line_before_a_start_fails(tmp_path: Path) -> None:
    file = tmp_path / "orders.py"
    file.write_text(TOOLS)
    shown: list[tuple[str, str]] = []
    files = ToolFiles([file], lambda line, style: shown.append((line, style)))
    file.write_text("@tool\ndef find(:\n")
    files.look()
    ((line, style),) = shown
    assert line.startswith(f"{file}:2 is no Python: ") and style == "red"


def test_a_new_file_of_the_folder_is_told_with_functions_that_lack_a_tool(tmp_path: Path) -> None:
    shown: list[str] = []
    files = ToolFiles([tmp_path], lambda line, _: shown.append(line))
    (tmp_path / "stock.py").write_text("def count(): ...\n")
    (tmp_path / "_shared.py").write_text("def cut(): ...\n")
    (tmp_path / "mail.py").write_text("@tool\ndef send(): ...\n\n\ndef address(): ...\n")
    files.look()
    new = "is new, and no worker has it"
    assert shown == [
        f"{tmp_path}/mail.py {new}; {AGAIN}",
        f"{tmp_path}/stock.py {new}; no @tool stands above count; {AGAIN}",
    ]


def test_functions_at_the_top_are_tools_or_plain_and_private_or_decorated_ones_neither() -> None:
    text = "@hook('start')\ndef begin(): ...\n\n\ndef _cut(): ...\n\n\ndef plain():\n    def inner(): ...\n"
    assert function_names(TOOLS + text) == FunctionNames(frozenset({"find", "refund"}), frozenset({"plain"}))
    padding = "#" * (LARGEST_BYTES - len(TOOLS))
    assert function_names(TOOLS + padding).tools == {"find", "refund"}
    assert function_names(f"{TOOLS}{padding}#").tools == frozenset()
    assert LARGEST_BYTES == 1024 * 1024


def test_the_places_are_those_of_the_project_where_its_tools_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "orders.py").write_text(TOOLS)
    assert tool_places(("tools/orders.py", "shop.tools")) == [Path("tools/orders.py")]
    (tmp_path / "towpath.yaml").write_text("kind: Project\ntools: [tools]\n")
    assert tool_places(("tools/orders.py",)) == [Path("tools")]
    assert tool_places(("other.py",)) == [Path("other.py")]
    (tmp_path / "towpath.yaml").write_text("kind: [")
    assert tool_places(("tools/orders.py",)) == [Path("tools/orders.py")]


def test_a_person_hears_within_a_second() -> None:
    assert LOOK_S == 1.0


async def test_files_are_looked_at_again_and_again(tmp_path: Path) -> None:
    shown: asyncio.Queue[str] = asyncio.Queue()
    files = ToolFiles([tmp_path], lambda line, _: shown.put_nowait(line), look_s=0.01)
    following = asyncio.create_task(files.follow())
    (tmp_path / "orders.py").write_text(TOOLS)
    async with asyncio.timeout(60):
        assert "orders.py is new" in await shown.get()
    following.cancel()


@pytest.mark.parametrize("saved", [b"\0", b"x = " + b"(" * 5_000])
def test_a_file_that_no_parser_can_read_is_told_and_ends_nothing(tmp_path: Path, saved: bytes) -> None:
    file = tmp_path / "orders.py"
    file.write_text(TOOLS)
    shown: list[tuple[str, str]] = []
    files = ToolFiles([file], lambda line, style: shown.append((line, style)))
    file.write_bytes(saved)
    files.look()
    ((line, style),) = shown
    assert line.startswith(str(file))
    assert "None" not in line
    assert line.endswith("Its worker would not start with it")
    assert style == "red"


def test_a_file_that_is_empty_for_a_moment_is_being_written(tmp_path: Path) -> None:
    file = tmp_path / "orders.py"
    file.write_text(TOOLS)
    shown: list[tuple[str, str]] = []
    files = ToolFiles([file], lambda line, style: shown.append((line, style)))
    file.write_text("")
    files.look()
    assert shown == []


def test_a_project_file_that_is_saved_or_gone_is_told_to_need_a_start(tmp_path: Path) -> None:
    told: list[str] = []
    project = tmp_path / "towpath.yaml"
    project.write_text("kind: Project\n")
    files = ToolFiles([], lambda line, _style: told.append(line), project=project)
    files.look()
    project.write_text("kind: Project\nsingle_person: true\n")
    files.look()
    files.look()
    again = "towpath.yaml changed; start towpath up again to use it"
    assert told == [again]
    project.unlink()
    files.look()
    assert told == [again, again]
