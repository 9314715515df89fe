"""What a program with user code serves is found, whatever that code prints beside the answer."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from towpath_contracts.problems.registry import ProblemError
from towpath_embedded import user_code_rights
from towpath_embedded.processes.child_process import spawn
from towpath_embedded.processes.role_process import AgentLaunch, WorkerLaunch, module_command
from towpath_embedded.user_code_rights import ANSWER_LINES, WorkerInventory, agent_name_of, inventory_of

TALKATIVE = "import atexit; print('hello', flush=True); atexit.register(print, 'bye'); "
SERVES_TWO = """print('{"toolsets": ["a", "b"], "tools": {"tools.py": ["a.find"]}, "files": ["/tools.py"]}')"""
OTHER = "print('{}', 7, [], sep=chr(10)); "
"""What JSON has, and is no answer."""


def command(code: str) -> tuple[str, ...]:
    return sys.executable, "-c", code


def toolsets(folder: Path, code: str) -> tuple[str, ...]:
    worker = WorkerLaunch(modules=("tools.py",), directory=folder)
    asked = inventory_of(worker, command(code), output=folder / "log", environment={}, spawn=spawn)
    return asyncio.run(asked).toolsets


@pytest.mark.parametrize(
    ("code", "found"),
    [
        (SERVES_TWO, ("a", "b")),
        (f"{TALKATIVE}{SERVES_TWO}; {OTHER}", ("a", "b")),
        (f"{SERVES_TWO}; print('x\\n' * {ANSWER_LINES - 1}, end='')", ("a", "b")),
        (f"{SERVES_TWO}; print('x\\n' * {ANSWER_LINES}, end='')", ()),
        (f"{TALKATIVE}{SERVES_TWO}; raise SystemExit(2)", ()),
        (f"{TALKATIVE}{SERVES_TWO}; raise SystemExit(1)", ()),
        (TALKATIVE, ()),
    ],
)
def test_the_toolsets_are_found_though_the_code_prints_at_its_import_and_at_its_end(
    code: str, found: tuple[str, ...], tmp_path: Path
) -> None:
    assert toolsets(tmp_path, code) == found


def test_the_name_of_an_agent_is_found_likewise(tmp_path: Path) -> None:
    agent = AgentLaunch(target="agents.py:Reviewer")
    code = f"{TALKATIVE}print('\"reviewer\"'); {OTHER}"
    asked = agent_name_of(agent, command(code), output=tmp_path / "log", environment={}, spawn=spawn)
    assert asyncio.run(asked) == "reviewer"


def test_what_was_answered_to_an_earlier_question_is_no_answer(tmp_path: Path) -> None:
    assert toolsets(tmp_path, SERVES_TWO) == ("a", "b")
    assert toolsets(tmp_path, "import os; os._exit(0)") == ()


async def test_a_program_that_is_asked_ends_where_nobody_waits_for_its_answer(tmp_path: Path) -> None:
    worker = WorkerLaunch(modules=("tools.py",), directory=tmp_path)
    code = "import os, time, pathlib; pathlib.Path('pid').write_text(f'{os.getpid()}\\n'); time.sleep(60)"
    asking = asyncio.create_task(
        inventory_of(worker, command(code), output=tmp_path / "log", environment={}, spawn=spawn)
    )
    async with asyncio.timeout(30):
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().endswith("\n"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # nothing tells of it
    pid = int((tmp_path / "pid").read_text())
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    async with asyncio.timeout(30):
        while is_running(pid):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


def is_running(pid: int) -> bool:
    """Return whether it runs; one that has ended and was not waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def test_a_module_that_waits_while_it_is_imported_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_code_rights, "ASK_TIMEOUT_S", 0.5)
    with pytest.raises(ProblemError, match=r"nothing was answered within 0\.5 s: its code waits while it is imported"):
        toolsets(tmp_path, "import time; time.sleep(60)")


FAULTY = {
    "effect.py": (
        "from towpath import tool\n\n\n@tool(effect_class='wriet')\ndef find() -> str: ...\n",
        "effect.py:4: ",
    ),
    "fetch.py": ("import httpxx\n", "fetch.py:1: there is no module httpxx"),
    "listed.py": (
        "import os\n\nTOOLS = 'find'\n",
        "listed.py:3: TOOLS is a list of tools and functions, such as TOOLS = [look], not str",
    ),
    "typed.py": (
        "x: int = 1\nTOOLS: str = 'find'\n",
        "typed.py:2: TOOLS is a list of tools and functions, such as TOOLS = [look], not str",
    ),
}


@pytest.mark.parametrize("file", FAULTY)
def test_modules_that_cannot_be_served_are_refused_with_the_line_that_is_wrong(file: str, tmp_path: Path) -> None:
    text, said = FAULTY[file]
    (tmp_path / file).write_text(text)
    with pytest.raises(ProblemError) as refused:
        ask_worker(tmp_path, file)
    assert refused.value.problem.code == "project_invalid"
    assert said in refused.value.problem.detail


def test_a_worker_tells_its_tools_by_module_and_the_files_that_these_were_read_from(tmp_path: Path) -> None:
    (tmp_path / "_prices.py").write_text("PRICE = 1\n")
    tool = "from towpath import tool\n@tool(toolset='shop', name='orders.find')\ndef find() -> str: ...\n"
    (tmp_path / "orders.py").write_text(f"import _prices\n{tool}")
    (tmp_path / "empty.py").write_text("")
    found = ask_worker(tmp_path, "orders.py", "empty.py")
    assert found.toolsets == ("shop",)
    assert found.tools == {"orders.py": ("orders.find",), "empty.py": ()}
    assert {path.name for path in found.files} == {"_prices.py", "orders.py", "empty.py"}


def test_a_worker_that_imports_hundreds_of_files_is_read_whole(tmp_path: Path) -> None:
    names = [f"_helper_with_a_rather_long_name_{number}" for number in range(300)]
    for name in names:
        (tmp_path / f"{name}.py").write_text("")
    tool = "from towpath import tool\n@tool(toolset='shop', name='orders.find')\ndef find() -> str: ...\n"
    (tmp_path / "orders.py").write_text("".join(f"import {name}\n" for name in names) + tool)
    found = ask_worker(tmp_path, "orders.py")
    assert (found.toolsets, len(found.files)) == (("shop",), 301)


def test_what_a_module_reads_at_its_import_is_there_when_it_is_asked_but_for_secrets_of_the_platform(
    tmp_path: Path,
) -> None:
    lines = (
        "import os",
        "assert os.environ['SHOP_API_KEY'] == 'k'",
        "assert 'TOWPATH_NATS_PASSWORD' not in os.environ",
    )
    tool = "from towpath import tool\n@tool(toolset='shop', name='orders.find')\ndef find() -> str: ...\n"
    (tmp_path / "orders.py").write_text("\n".join([*lines, tool]))
    assert ask_worker(tmp_path, "orders.py", SHOP_API_KEY="k", TOWPATH_NATS_PASSWORD="p").toolsets == ("shop",)


def ask_worker(folder: Path, *modules: str, **environment: str) -> WorkerInventory:
    worker = WorkerLaunch(modules=modules, directory=folder)
    asked = inventory_of(
        worker,
        module_command("worker"),
        output=folder / "log",
        environment={"PATH": os.defpath, **environment},
        spawn=spawn,
    )
    return asyncio.run(asked)
