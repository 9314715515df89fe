"""A release: the wheel of this checkout, and the whole command on a small project that has its form."""

from pathlib import Path

import pytest
from tests.docs_site.shell_blocks import shell_commands
from tests.docs_site.taken_blocks import taken
from tests.release.__main__ import main
from tests.release.distributions import Distributions, wrong_page
from tests.release.wheel_contents import wheel_faults
from tests.support.platform.unpacked_wheel import unpacked_wheel
from tests.support.release_project import git, release_project


def test_the_wheel_of_this_checkout_can_be_released(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = unpacked_wheel(tmp_path_factory).parent
    (wheel,) = (folder / "built").glob("*.whl")
    assert wheel_faults(wheel, folder / "source") == []
    assert [*wrong_page(Distributions(wheel, wheel))] == []


def test_a_release_leaves_what_is_published_and_changes_the_number_and_the_changelog(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project, made = release_project(tmp_path), tmp_path.with_name(f"{tmp_path.name}-made")
    block = taken("CONTRIBUTING.md: uv run --group dev python -m tests.release")
    dry, release, checked, listed = (one.words[7:] for one in shell_commands(block.text, {"dist": str(made)}))
    assert main(dry, project) == 0, capsys.readouterr().err
    assert git(project, "status", "--porcelain", "--ignored") == ""
    assert main(checked, project) == 0, capsys.readouterr().err
    assert "towpath-0.1.0-py3-none-any.whl" in {path.name for path in made.iterdir()}
    assert main(listed) == 0 and "pydantic" in capsys.readouterr().out
    assert main([*release, "--day", "2026-02-03"], project) == 0, capsys.readouterr().err
    changed = ["M", "CHANGELOG.md", "M", "clients/typescript/package.json", "M", "deploy/chart/Chart.yaml"]
    changed += ["M", "pyproject.toml"]
    assert git(project, "status", "--porcelain").split() == changed
    assert "## [0.2.0] - 2026-02-03" in (project / "CHANGELOG.md").read_text()
    names = ["towpath-0.2.0-py3-none-any.whl", "towpath-0.2.0.cdx.json", "towpath-0.2.0.tar.gz"]
    assert sorted(path.name for path in (project / "dist").iterdir()) == names
    assert git(project, "tag") == "", "tags and uploads are a person's"
    assert "git tag v0.2.0" in capsys.readouterr().out
