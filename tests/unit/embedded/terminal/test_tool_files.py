"""Which files make `towpath up` restart the worker that has tools of them."""

from datetime import timedelta
from pathlib import Path

import pytest

from towpath_embedded.terminal.tool_files import ToolFiles, tool_places
from towpath_embedded.terminal.worker_reload import told_restart
from towpath_embedded.user_code_rights import WorkerInventory
from towpath_fabric.clock import wall

TOOLS = "@tool\ndef find(): ...\n"


def files_of(*places: Path, named: tuple[str, ...] = (), project: Path | None = None) -> ToolFiles:
    return ToolFiles(named, places, project=project, since=wall() + timedelta(seconds=1))


def test_a_file_that_is_saved_added_or_removed_has_changed_once(tmp_path: Path) -> None:
    orders, mail = tmp_path / "orders.py", tmp_path / "mail.py"
    orders.write_text(TOOLS)
    files = files_of(tmp_path)
    assert files.changed() == []
    orders.write_text(TOOLS + "# more\n")
    mail.write_text(TOOLS)
    (tmp_path / "_shared.py").write_text("")
    assert files.changed() == [mail, orders]
    assert files.modules() == (str(mail), str(orders))
    orders.unlink()
    assert files.changed() == [orders]
    assert files.modules() == (str(mail),)
    assert files.changed() == []


def test_what_a_tool_imports_and_files_that_were_named_are_looked_at_too(tmp_path: Path) -> None:
    orders, shared = tmp_path / "orders.py", tmp_path / "_shared.py"
    orders.write_text(TOOLS)
    shared.write_text("PRICE = 1\n")
    files = files_of(named=(str(orders), "shop.tools"))
    assert files.modules() == (str(orders), "shop.tools")
    files.follow_imports((orders, shared))
    assert files.changed() == []
    shared.write_text("PRICE = 12\n")
    assert files.changed() == [shared]
    orders.unlink()
    assert files.changed() == [orders]
    assert files.modules() == (str(orders), "shop.tools")


def test_what_was_saved_while_the_platform_started_has_changed(tmp_path: Path) -> None:
    orders = tmp_path / "orders.py"
    orders.write_text(TOOLS)
    files = ToolFiles((str(orders),), (), project=None, since=wall() - timedelta(minutes=1))
    assert files.changed() == [orders]
    assert files.changed() == []


def test_a_new_file_that_a_saved_one_imports_has_not_changed_once_both_were_read(tmp_path: Path) -> None:
    orders, shared = tmp_path / "orders.py", tmp_path / "_shared.py"
    orders.write_text(TOOLS)
    files = ToolFiles((str(orders),), (), project=None, since=wall() - timedelta(minutes=1))
    assert files.changed() == [orders]
    shared.write_text("PRICE = 1\n")
    files.follow_imports((orders, shared), read_at=wall() + timedelta(seconds=1))
    assert files.changed() == []
    late = tmp_path / "_late.py"
    late.write_text("PRICE = 1\n")
    files.follow_imports((orders, late), read_at=wall() - timedelta(minutes=1))
    assert files.changed() == [late]


def test_the_file_of_the_project_is_looked_at_with_its_places(tmp_path: Path) -> None:
    project = tmp_path / "towpath.yaml"
    project.write_text("kind: Project\n")
    files = files_of(project=project)
    project.write_text("kind: Project\nsingle_person: true\n")
    assert files.changed() == [project]
    project.unlink()
    assert files.changed() == [project]


def test_the_places_are_those_of_the_project_where_its_tools_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "orders.py").write_text(TOOLS)
    assert tool_places(("tools/orders.py", "shop.tools")) == []
    (tmp_path / "towpath.yaml").write_text("kind: Project\ntools: [tools]\n")
    assert tool_places(("tools/orders.py",)) == [Path("tools")]
    assert tool_places(("other.py",)) == []
    (tmp_path / "towpath.yaml").write_text("kind: [")
    assert tool_places(("tools/orders.py",)) == []


BEFORE = WorkerInventory(tools={"tools/orders.py": ("orders.find", "orders.refund"), "tools/mail.py": ("mail.send",)})


@pytest.mark.parametrize(
    ("changed", "now", "told"),
    [
        (["tools/orders.py"], BEFORE.tools, "tools/orders.py (gone): worker restarted, 2 tools"),
        (["tools/mail.py"], BEFORE.tools, "tools/mail.py (gone): worker restarted, 1 tool"),
        (["tools/_shared.py"], BEFORE.tools, "tools/_shared.py (gone): worker restarted, 3 tools"),
        ([], BEFORE.tools, "worker restarted, 3 tools"),
        ([], {"tools/mail.py": ()}, "worker restarted, 0 tools; mail.send, orders.find, orders.refund are gone"),
        (
            ["tools/orders.py"],
            {**BEFORE.tools, "tools/orders.py": ("orders.find",)},
            "tools/orders.py (gone): worker restarted, 1 tool; orders.refund is gone",
        ),
    ],
)
def test_a_restart_is_told_with_the_tools_of_the_changed_files_and_those_that_are_gone(
    changed: list[str], now: dict[str, tuple[str, ...]], told: str
) -> None:
    assert told_restart([Path(name) for name in changed], BEFORE, WorkerInventory(tools=now)) == told


def test_a_file_that_is_there_is_named_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    orders = tmp_path / "orders.py"
    orders.write_text(TOOLS)
    now = WorkerInventory(tools={"orders.py": ("orders.find",)})
    assert told_restart([orders], now, now) == "orders.py: worker restarted, 1 tool"
