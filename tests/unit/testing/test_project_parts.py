"""`harness()` without files: the network, the policy and the tools are those of the project in which the test lies."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from towpath.errors import RefusedError, TowpathError
from towpath.project.scaffold import create_project
from towpath.testing import execute_tool, harness, respond, route, script

FIND = execute_tool("orders.find", order_id="8812")
TEST = """
def opened(*words, **options):
    return harness(*words, **options)
"""


@pytest.fixture
def test_of(tmp_path: Path) -> Callable[[Path], Any]:
    """Return what makes the function of a test's file that opens a harness."""

    def made(folder: Path) -> Any:
        names: dict[str, Any] = {"harness": harness, "__name__": "test_own"}
        exec(compile(TEST, str(folder / "tests" / "test_own.py"), "exec"), names)
        return names["opened"]

    return made


def test_a_harness_has_the_parts_of_the_project_wherever_pytest_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test_of: Callable[[Path], Any]
) -> None:
    create_project(tmp_path / "shop")
    (tmp_path / "elsewhere").mkdir()
    opened = test_of(tmp_path / "shop")
    for folder in ("shop", "elsewhere"):
        monkeypatch.chdir(tmp_path / folder)
        for words in ((), ("support",)):
            with opened(*words) as h:
                run = h.run("Refund order 8812")
                gate = h.next_gate()
                assert gate.rule == "refunds-over-100"
                gate.deny("too high")
                assert run.result().agents == ("triage", "billing")


def test_what_is_given_counts_before_the_projects(tmp_path: Path, test_of: Callable[[Path], Any]) -> None:
    create_project(tmp_path)
    opened = test_of(tmp_path)
    with opened("support", policy=[], model=script([route("billing"), FIND, respond("by hand")])) as h:
        result = h.run("Refund order 8812").result()
    assert ([call.tool for call in result.denied_calls()], result.text) == (["orders.find"], "by hand")


@pytest.mark.parametrize("at", ["shop", "link"])
def test_a_module_that_a_test_has_imported_is_the_one_whose_tools_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test_of: Callable[[Path], Any], at: str
) -> None:
    create_project(tmp_path / "shop")
    (tmp_path / "link").symlink_to("shop")
    # Not of an example whose folder another test has left there: a module comes before a folder, wherever it lies.
    monkeypatch.setattr(sys, "path", [str(tmp_path / at), *(p for p in sys.path if not Path(p, "tools.py").exists())])
    for name in [name for name in sys.modules if name.partition(".")[0] == "tools"]:
        monkeypatch.delitem(sys.modules, name)
    from tools import orders  # type: ignore[import-not-found]

    try:
        with test_of(tmp_path / at)() as h:
            run = h.run("Refund order 8812")
            h.next_gate().approve()
            assert run.result().status == "completed"
        assert orders.ORDERS["8812"].refunded == 129.0
    finally:
        for name in ("tools", "tools.orders"):
            sys.modules.pop(name, None)


def test_it_is_told_where_no_project_is_and_which_networks_there_are(
    tmp_path: Path, test_of: Callable[[Path], Any]
) -> None:
    with pytest.raises(TowpathError, match=r"there is no towpath\.yaml in .* or above it"):
        test_of(tmp_path)()
    create_project(tmp_path)
    with pytest.raises(TowpathError, match=r"no network is called 'suport'; .* there are support; did you mean 'supp"):
        test_of(tmp_path)("suport")
    (tmp_path / "networks" / "notes.yaml").write_text("name: what is no network\n")
    with test_of(tmp_path)() as h:
        assert h.run("Refund order 8812").run_id, "support is still the only one"
    (tmp_path / "networks" / "other.yaml").write_text("kind: Network\nname: other\n")
    with pytest.raises(TowpathError, match=r"which network\? in networks there are other, support"):
        test_of(tmp_path)()
    (tmp_path / "towpath.yaml").write_text("kind: Project\npolicy: gone.yaml\n")
    with pytest.raises(RefusedError, match=r"towpath\.yaml:2: gone\.yaml does not exist"):
        test_of(tmp_path)()
